//! Answers whose memory stays reserved until they are sent.

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde_json::Value;

/// Bytes, and the room that they have until they are sent.
struct Held<R> {
    bytes: Vec<u8>,
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    room: R,
}

impl<R> AsRef<[u8]> for Held<R> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

pub(super) fn bytes<R: Send + Sync + 'static>(bytes: Vec<u8>, room: R) -> Bytes {
    Bytes::from_owner(Held { bytes, room })
}

pub(super) fn json<R: Send + Sync + 'static>(value: &Value, room: R) -> Response {
    let body = Body::from(bytes(value.to_string().into_bytes(), room));
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
