//! What a request was refused, in the forms that E2B's servers have.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::json;

use crate::dialects::native::Refusal;

/// SDKs know by these words that a sandbox is not there any more.
pub(super) const GONE: &str = "The sandbox was not found";

/// An error as the API, and the HTTP routes of a sandbox, have it.
#[must_use]
pub fn answer(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"code": status.as_u16(), "message": message}))).into_response()
}

/// What E2B has and Vivarium has not.
#[must_use]
pub fn not_offered(what: &str) -> Response {
    answer(StatusCode::NOT_IMPLEMENTED, &format!("{what}: this is not offered here"))
}

/// There is no such sandbox, or it is paused.
#[must_use]
pub fn gone(sandbox: &str) -> Response {
    let status = StatusCode::BAD_GATEWAY;
    let body = json!({"sandboxId": sandbox, "message": GONE, "code": status.as_u16()});
    (status, Json(body)).into_response()
}

/// Nothing in the sandbox listens on this port.
#[must_use]
pub fn port_closed(sandbox: &str, port: u16) -> Response {
    let status = StatusCode::BAD_GATEWAY;
    let message = "The sandbox is running but port is not open";
    let code = status.as_u16();
    let body = json!({"sandboxId": sandbox, "message": message, "port": port, "code": code});
    (status, Json(body)).into_response()
}

/// A refusal of the API beside the sandboxes.
#[must_use]
pub fn control(refusal: &Refusal) -> Response {
    with_wait(answer(status(refusal), &refusal.text()), refusal)
}

/// A refusal in a sandbox.
#[must_use]
pub fn inside(refusal: &Refusal, sandbox: &str) -> Response {
    match refusal.code.as_str() {
        "unknown_session" | "suspended" => gone(sandbox),
        _ => control(refusal),
    }
}

fn with_wait(mut response: Response, refusal: &Refusal) -> Response {
    if let Some(secs) = refusal.retry_after_secs {
        response.headers_mut().insert(header::RETRY_AFTER, secs.into());
    }
    response
}

fn status(refusal: &Refusal) -> StatusCode {
    match (refusal.code.as_str(), refusal.status) {
        ("unauthenticated" | "token_expired", _) => StatusCode::UNAUTHORIZED,
        ("unknown_session" | "unknown_file" | "unknown_context", _) => StatusCode::NOT_FOUND,
        ("bad_path", _) => StatusCode::FORBIDDEN,
        // To the SDKs a conflict is a sandbox that is paused already, which is no error.
        ("not_imageable" | "image_failed" | "busy", _) | (_, 422) => StatusCode::BAD_REQUEST,
        // They would be tried again, or taken for a sandbox that is gone.
        (_, 0 | 502) => StatusCode::INTERNAL_SERVER_ERROR,
        (_, status) => StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// A refusal of what the dialect itself cannot read.
pub(super) fn bad(field: &str, detail: impl Into<String>) -> Refusal {
    Refusal {
        code: "invalid_field".to_owned(),
        detail: detail.into(),
        field: Some(field.to_owned()),
        status: StatusCode::BAD_REQUEST.as_u16(),
        ..Refusal::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_cannot_be_paused_is_no_conflict() {
        let of = |code: &str, code_of_http| {
            status(&Refusal { code: code.to_owned(), status: code_of_http, ..Refusal::default() })
        };
        assert_eq!(of("not_imageable", 409), StatusCode::BAD_REQUEST);
        assert_eq!(of("too_many_sessions", 429), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(of("invalid_field", 422), StatusCode::BAD_REQUEST);
        assert_eq!(of("unreachable", 0), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
