//! The server of a sandbox that runs code: executions as lines of JSON, and contexts.

pub(super) mod contexts;
mod execute;
mod results;

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode, header};
use serde::Deserialize;

use super::errors::{self, bad};
use super::{Client, paths};
use crate::dialects::native::{Native, Refusal};
use crate::dialects::parsed;

/// The language that sandboxes have.
const PYTHON: &str = "python";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NewContext {
    language: Option<String>,
    cwd: Option<String>,
}

/// Answers a request.
pub async fn respond<N: Native>(
    client: Client<N>,
    method: &Method,
    path: &str,
    body: &Bytes,
) -> Response {
    let id = client.sandbox.id.clone();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let answered = match (method.as_str(), parts.as_slice()) {
        ("GET", ["health"]) => Ok("OK".into_response()),
        ("POST", ["execute"]) => execute::run(client, body).await,
        ("GET", ["contexts"]) => contexts::list(&client).await,
        ("POST", ["contexts"]) => open(&client, body).await,
        ("DELETE", ["contexts", context]) => contexts::remove(&client, context).await,
        ("POST", ["contexts", context, "restart"]) => contexts::restart(&client, context).await,
        _ => return (StatusCode::NOT_FOUND, "there is no such path").into_response(),
    };
    answered.unwrap_or_else(|refusal| refused(&refusal, &id))
}

async fn open<N: Native>(client: &Client<N>, body: &Bytes) -> Result<Response, Refusal> {
    let asked: NewContext = parsed(body).await.map_err(|error| bad("body", error.to_string()))?;
    if let Some(other) = other_language(asked.language.as_deref()) {
        return Ok(other);
    }
    let cwd = paths::absolute(asked.cwd.as_deref().unwrap_or_default());
    contexts::open(client, &cwd).await
}

/// The answer to who wants another language.
fn other_language(language: Option<&str>) -> Option<Response> {
    let language = language.filter(|name| !matches!(*name, "" | PYTHON | "python3"))?;
    let text = format!("language {language} is not offered here: only {PYTHON} is");
    Some((StatusCode::NOT_IMPLEMENTED, text).into_response())
}

/// SDKs show the text of an error as it is.
fn refused(refusal: &Refusal, sandbox: &str) -> Response {
    let mut response = errors::inside(refusal, sandbox);
    if response.status() != StatusCode::BAD_GATEWAY {
        response.headers_mut().remove(header::CONTENT_TYPE);
        *response.body_mut() = refusal.text().into();
    }
    response
}
