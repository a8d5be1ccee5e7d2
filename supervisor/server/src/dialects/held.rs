//! Bytes whose memory stays reserved as long as anybody has them: bodies that are read on another thread, and answers until they are
//! sent.

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde_json::Value;

/// Bytes, and the room that they have.
struct Held<B, R> {
    bytes: B,
    #[expect(dead_code, reason = "held, and given back when it is dropped")]
    room: R,
}

impl<B: AsRef<[u8]>, R> AsRef<[u8]> for Held<B, R> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

pub(crate) fn bytes<B, R>(bytes: B, room: R) -> Bytes
where
    B: AsRef<[u8]> + Send + Sync + 'static,
    R: Send + Sync + 'static,
{
    Bytes::from_owner(Held { bytes, room })
}

pub(super) fn json<R: Send + Sync + 'static>(value: &Value, room: R) -> Response {
    let body = Body::from(bytes(value.to_string().into_bytes(), room));
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
