//! Servers that tenant code runs, by HTTP and `WebSocket`, below a path of the API.

use axum::Json as Answer;
use axum::extract::{Path, Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{PreviewReply, PreviewRequest};

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::extract::{Id, Json};
use crate::api::ports::{Front, forward};
use crate::api::preview::Signed;
use crate::api::{Problem, Shared, problem};

/// `/v1/sessions/{id}/ports/{port}`, whose slashes come before anything that the client can put there.
const PREFIX_SEGMENTS: usize = 6;

/// What is passed on, at least, for those who try what is not: RFC 9110, 15.5.6.
const ALLOWED: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    let (schemas, paths, _) = routes!(proxy);
    OpenApiRouter::new()
        .routes(routes!(create_preview))
        .routes((schemas, paths, any(proxy)))
        .route("/v1/sessions/{id}/ports/{port}", any(proxy))
        .route("/v1/sessions/{id}/ports/{port}/", any(proxy))
}

/// Show a server in a session to browsers
///
/// The URL opens it in a browser, on an origin of its own, until it expires.
#[utoipa::path(post, path = "/v1/sessions/{id}/previews", operation_id = "create_preview",
    tag = "ports", params(("id" = String, Path)), request_body = PreviewRequest,
    responses((status = 200, body = PreviewReply),
        (status = 409, body = Problem, description = "The session has no ports of its own, or the \
            daemon shows no previews"),
        (status = "default", body = Problem)))]
async fn create_preview(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Json(request, _reserved): Json<PreviewRequest>,
) -> ApiResult<PreviewReply> {
    let signed = api.preview.sign(&api, &tenant, &id, request.port).await?;
    let Signed { url, expires_at } = signed;
    Ok(Answer(PreviewReply { url, expires_at }))
}

/// Send a request to a server in a session
///
/// Any method, and `WebSocket`. Bodies are streamed both ways. See the page about ports for what of
/// requests and answers is not passed on.
#[utoipa::path(get, path = "/v1/sessions/{id}/ports/{port}/{*path}",
    operation_id = "request_port", tag = "ports",
    params(("id" = String, Path), ("port" = String, Path, description = "1 to 65535"),
        ("path" = String, Path, description = "What the server is asked for")),
    responses((status = "2XX", description = "The server's answer", content_type = "*/*"),
        (status = 409, body = Problem, description = "The session has no ports of its own"),
        (status = 502, body = Problem, description = "Nothing listens, or it does not speak HTTP"),
        (status = "default", body = Problem)))]
async fn proxy(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Path(names): Path<Vec<(String, String)>>,
    request: Request,
) -> Result<Response, Problem> {
    let name = |wanted: &str| {
        let found = names.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    if matches!(*request.method(), Method::TRACE | Method::CONNECT) {
        let problem = problem::no_method(request.method().clone(), request.uri().clone()).await;
        return Ok(([(header::ALLOW, ALLOWED)], problem).into_response());
    }
    refuse_other_origins(&request)?;
    // Not a number is as far from any port as 0.
    let port = name("port").parse().unwrap_or(0);
    let path = request.uri().path();
    let Some((prefix, rest)) = divide(path) else {
        return Err(problem::no_route(request.uri().clone()).await);
    };
    if rest.is_empty() {
        // Relative references of its pages are below the port.
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let there = [(header::LOCATION, format!("{prefix}/{query}"))];
        return Ok((StatusCode::PERMANENT_REDIRECT, there).into_response());
    }
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let target = PathAndQuery::try_from(format!("{rest}{query}"))
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "bad_path", error.to_string()))?;
    let front = Front::new(port, prefix.to_owned(), target);
    let stream = api.engine.connect_port(&tenant, name("id"), port).await?;
    forward(stream, request, &front, &tenant).await
}

/// The path of the port, and what follows.
fn divide(path: &str) -> Option<(&str, &str)> {
    let mut slashes = path.match_indices('/').map(|(index, _)| index);
    let end = slashes.nth(PREFIX_SEGMENTS - 1).unwrap_or(path.len());
    path.split_at_checked(end)
}

/// Answers have this origin, so that only who has typed the address, or has it from the API itself,
/// may ask from a browser (Fetch Metadata): a page of a session must not reach another's ports.
fn refuse_other_origins(request: &Request) -> Result<(), Problem> {
    let mut sites = request.headers().get_all("sec-fetch-site").iter();
    if sites.all(|site| matches!(site.as_bytes(), b"none" | b"same-origin")) {
        return Ok(());
    }
    let detail = "requests from web pages of another origin are refused";
    Err(Problem::new(StatusCode::FORBIDDEN, "cross_origin", detail))
}
