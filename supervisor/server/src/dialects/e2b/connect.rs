//! The Connect protocol with its JSON codec: answers and errors.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::envelope;
use crate::dialects::native::Refusal;

/// The content type of streams.
pub const STREAM_TYPE: &str = "application/connect+json";

/// A message in its envelope.
#[must_use]
pub fn envelope(message: &Value) -> Bytes {
    envelope::message(message).into()
}

/// The end of a stream, with the error that it ends with.
#[must_use]
pub fn end(error: Option<&Failure>) -> Bytes {
    let message = error.map_or_else(|| json!({}), |error| json!({"error": error.value()}));
    envelope::end(&message).into()
}

/// An error of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub code: &'static str,
    pub message: String,
}

impl Failure {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn invalid(error: &impl std::fmt::Display) -> Self {
        Self::new("invalid_argument", error.to_string())
    }

    fn value(&self) -> Value {
        json!({"code": self.code, "message": self.message})
    }

    fn status(&self) -> StatusCode {
        match self.code {
            "invalid_argument" | "failed_precondition" => StatusCode::BAD_REQUEST,
            "unauthenticated" => StatusCode::UNAUTHORIZED,
            "permission_denied" => StatusCode::FORBIDDEN,
            "not_found" => StatusCode::NOT_FOUND,
            "already_exists" => StatusCode::CONFLICT,
            "resource_exhausted" => StatusCode::TOO_MANY_REQUESTS,
            "unimplemented" => StatusCode::NOT_IMPLEMENTED,
            "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
            "deadline_exceeded" => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let code = match (refusal.code.as_str(), refusal.status) {
            ("unauthenticated" | "token_expired", _) | (_, 401) => "unauthenticated",
            ("bad_path" | "scope_required" | "file_refused", _) | (_, 403) => "permission_denied",
            ("unknown_file" | "unknown_execution" | "not_running", _) => "not_found",
            ("file_exists", _) => "already_exists",
            ("not_a_file" | "no_stdin" | "no_terminal", _) => "failed_precondition",
            ("no_space", _) | (_, 429) => "resource_exhausted",
            ("unknown_session" | "suspended", _) | (_, 503) => "unavailable",
            (_, 400..=422) => "invalid_argument",
            _ => "internal",
        };
        let message = match refusal.code.as_str() {
            "unknown_session" | "suspended" => super::errors::GONE.to_owned(),
            _ => refusal.text(),
        };
        Self { code, message }
    }
}

/// The answer to a call without a stream.
#[must_use]
pub fn answered(answer: Result<Value, Failure>) -> Response {
    let (status, value) = match answer {
        Ok(value) => (StatusCode::OK, value),
        Err(failure) => (failure.status(), failure.value()),
    };
    let kind = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, kind)], value.to_string()).into_response()
}

/// The answer of a stream that fails before it begins.
#[must_use]
pub fn failed(failure: &Failure) -> Response {
    let kind = HeaderValue::from_static(STREAM_TYPE);
    ([(header::CONTENT_TYPE, kind)], end(Some(failure))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_has_the_error_of_the_protocol() {
        let failure = Failure::new("not_found", "no");
        let text = end(Some(&failure));
        assert_eq!(text.first(), Some(&2));
        assert_eq!(&text[5..], br#"{"error":{"code":"not_found","message":"no"}}"#);
    }
}
