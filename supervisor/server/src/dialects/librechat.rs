//! The code API of LibreChat: code that keeps files from call to call but no variables, uploads and
//! downloads.
//!
//! Its `/mnt/data` is a link to the working directory in every session.

mod exec;
mod files;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::json;

use super::native::{Native, Refusal};
use super::place::Place;

pub use exec::exec;
pub use files::{download, info, list, upload};

/// Files of one upload.
pub const MAX_FILES: usize = 100;

/// The length of the ids that LibreChat takes.
const ID_CHARS: usize = 21;

/// The session of a call.
fn place<N: Native>(native: &N, session: Option<String>) -> Place<N> {
    Place::of(native, session, "lc-", ID_CHARS)
}

/// What a request was refused, in the form of the dialect.
#[must_use]
pub fn refused(refusal: &Refusal) -> Response {
    // Without an answer of the API there is no status.
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let text = refusal.text();
    // The code tool reads how long to wait from this form alone.
    let body = match refusal.retry_after_secs.filter(|_| status == StatusCode::TOO_MANY_REQUESTS) {
        Some(secs) => {
            json!({"error": "rate_limited", "message": text, "retry_after_seconds": secs})
        }
        None => json!({"error": text}),
    };
    let mut response = (status, Json(body)).into_response();
    if let Some(secs) = refusal.retry_after_secs {
        response.headers_mut().insert(header::RETRY_AFTER, secs.into());
    }
    response
}

fn bad(field: &str, detail: &str) -> Refusal {
    Refusal::invalid(Some(field.to_owned()), detail)
}

fn unknown_file(id: &str) -> Refusal {
    Refusal {
        code: "unknown_file".to_owned(),
        detail: format!("there is no file {id:?} in this session"),
        status: StatusCode::NOT_FOUND.as_u16(),
        ..Refusal::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(refusal: Refusal) -> (StatusCode, String) {
        let response = refused(&refusal);
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 10).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn waiting_is_told_as_the_code_tool_reads_it() {
        let full = Refusal { code: "queue_full".to_owned(), status: 429, ..Refusal::default() };
        let wait = Refusal { retry_after_secs: Some(7), ..full.clone() };
        let (status, body) = told(wait).await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status.as_u16(), &body["error"]), (429, &json!("rate_limited")));
        assert_eq!(body["retry_after_seconds"], 7);
        assert_eq!(told(full).await.1, r#"{"error":" (queue_full)"}"#);
        assert_eq!(told(Refusal::unreachable("gone")).await.0, StatusCode::BAD_GATEWAY);
        assert_eq!(told(bad("lang", "x")).await.0, StatusCode::BAD_REQUEST);
    }
}
