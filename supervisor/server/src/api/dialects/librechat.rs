//! The routes of the code API of LibreChat.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};

use super::super::{Problem, Shared, extract};
use super::InProcess;
use crate::dialects::form::{self, BadForm, Part};
use crate::dialects::held;
use crate::dialects::librechat::{self, MAX_FILES};
use crate::dialects::native::Native as _;

pub(super) const BASE: &str = "/librechat";

/// Every path below, with and without a token in it, as for Jupyter.
pub(super) const ROUTE: &str = "/librechat/{*path}";

pub(super) fn added(routes: Router<Shared>, api: &Shared, inner: &Router) -> Router<Shared> {
    let (api, inner) = (Arc::clone(api), inner.clone());
    let serve = move |request: Request| async move {
        let answered = answer(&api, inner, request).await;
        answered.unwrap_or_else(IntoResponse::into_response)
    };
    routes.route(ROUTE, any(serve))
}

async fn answer(api: &Shared, inner: Router, request: Request) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    take_key(&mut parts);
    let native = InProcess::for_client(api, inner, &mut parts).await?;
    let path = parts.uri.path().strip_prefix(BASE).unwrap_or_default().to_owned();
    let path: Vec<_> = path.trim_matches('/').split('/').collect();
    let answered = match (parts.method.as_str(), path.as_slice()) {
        ("POST", ["exec"]) => {
            let (body, reservation) = extract::read_json(&mut parts, body, api).await?;
            librechat::exec(&native, &held::bytes(body, reservation)).await
        }
        ("POST", ["upload"] | ["upload", "batch"]) => {
            let (body, _reservation) = extract::read(&mut parts, body, api).await?;
            // For the copies that reading the form and writing a file make of it.
            let room = match native.room(body.len() * 2).await {
                Ok(room) => room,
                Err(refusal) => return Ok(librechat::refused(&refusal)),
            };
            let files = files_in(&parts, body).await?;
            let answered = librechat::upload(&native, files).await;
            drop(room);
            answered
        }
        ("GET", ["download", session, file]) => librechat::download(&native, session, file).await,
        ("GET", ["sessions", session, "objects", file]) => {
            librechat::info(&native, session, file).await
        }
        ("GET", ["files", session]) => librechat::list(&native, session).await,
        (
            _,
            ["exec" | "upload"]
            | ["upload", "batch"]
            | ["download", _, _]
            | ["sessions", _, "objects", _]
            | ["files", _],
        ) => {
            return Err(Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "not here",
            ));
        }
        _ => {
            return Err(Problem::new(
                StatusCode::NOT_FOUND,
                "unknown_path",
                "there is no such path",
            ));
        }
    };
    Ok(answered.unwrap_or_else(|refusal| librechat::refused(&refusal)))
}

/// Older clients send their token as `X-API-Key`. One that also sends `Authorization` is known by that.
fn take_key(parts: &mut Parts) {
    let mut keys = parts.headers.get_all("x-api-key").iter();
    let key = keys.next().filter(|_| keys.next().is_none());
    let value =
        key.and_then(|key| HeaderValue::try_from(format!("Bearer {}", key.to_str().ok()?)).ok());
    if let Some(value) = value
        && !parts.headers.contains_key(header::AUTHORIZATION)
    {
        parts.headers.insert(header::AUTHORIZATION, value);
    }
}

fn bad(detail: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid_request", detail)
}

/// The files of an upload. The whole body is bounded and accounted for already.
async fn files_in(parts: &Parts, body: Bytes) -> Result<Vec<Part>, Problem> {
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    form::files(kind.unwrap_or_default(), body, MAX_FILES).await.map_err(|error| match error {
        BadForm::ContentType => Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            error.to_string(),
        ),
        _ => bad(&error.to_string()),
    })
}
