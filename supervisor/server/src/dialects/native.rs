//! The native API as a dialect sees it: requests go in, answers or refusals come out.

use std::fmt::Write;

pub use axum::body::Body;
use axum::body::Bytes;
use http::{HeaderMap, StatusCode, header};
pub use http::{Method, Response};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::off_thread::by_size;

/// The largest answer that is read as a whole, in bytes. More than any outcome can have.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// The body of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Content {
    #[default]
    None,
    Json(Vec<u8>),
    Bytes(Vec<u8>),
}

/// A request of the native API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    pub method: Method,
    /// With the query.
    pub path: String,
    pub content: Content,
    /// Whether events are to come as they happen.
    pub is_streamed: bool,
    /// The first byte and how many, of a file.
    pub range: Option<(u64, u64)>,
    /// The last event that was read of what is streamed.
    pub last_event_id: Option<u64>,
}

impl Call {
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), ..Self::default() }
    }

    /// Sets a body of JSON.
    #[must_use]
    pub fn json(self, body: &impl Serialize) -> Self {
        // Requests have neither maps with other keys than strings nor numbers that JSON lacks.
        let content = Content::Json(serde_json::to_vec(body).unwrap_or_default());
        Self { content, ..self }
    }

    /// The value of the `Range` header.
    #[must_use]
    pub fn range_header(&self) -> Option<String> {
        let (first, count) = self.range?;
        Some(format!("bytes={first}-{}", first.saturating_add(count).saturating_sub(1)))
    }
}

/// Where the requests of a dialect go.
pub trait Native: Clone + Send + Sync + 'static {
    /// Memory that is set aside for an answer until it is sent.
    type Room: Send + Sync + 'static;

    /// Sends a request. Dropped before the answer's end, it ends what `cancel_on_disconnect` says.
    fn call(&self, call: Call) -> impl Future<Output = Result<Response<Body>, Refusal>> + Send;

    /// Room for so many bytes of an answer in another form.
    fn room(&self, bytes: usize) -> impl Future<Output = Result<Self::Room, Refusal>> + Send;
}

/// Why the native API did not do something: a problem (RFC 9457), or no answer at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    pub code: String,
    #[serde(default)]
    pub detail: String,
    #[serde(default)]
    pub field: Option<String>,
    #[serde(default)]
    pub fix: Option<String>,
    /// Of the answer; 0 if there was none.
    #[serde(default)]
    pub status: u16,
    #[serde(skip)]
    pub retry_after_secs: Option<u64>,
}

impl Refusal {
    /// What a client has sent is not what the dialect takes.
    #[must_use]
    pub fn invalid(field: Option<String>, detail: impl Into<String>) -> Self {
        Self {
            code: "invalid_arguments".to_owned(),
            detail: detail.into(),
            field,
            status: StatusCode::BAD_REQUEST.as_u16(),
            ..Self::default()
        }
    }

    /// A session that there is, and that is no kernel or sandbox, is as one that there is not.
    #[must_use]
    pub fn unknown_session(what: &str, id: &str) -> Self {
        Self {
            code: "unknown_session".to_owned(),
            detail: format!("there is no {what} {id}"),
            status: StatusCode::NOT_FOUND.as_u16(),
            ..Self::default()
        }
    }

    /// There was no answer of the API.
    #[must_use]
    pub fn unreachable(detail: impl Into<String>) -> Self {
        Self { code: "unreachable".to_owned(), detail: detail.into(), ..Self::default() }
    }

    /// The refusal that a response is.
    fn read(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let retry_after_secs = headers
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.parse().ok());
        match serde_json::from_slice::<Self>(body) {
            Ok(refusal) => Self { retry_after_secs, ..refusal },
            Err(_) => Self::unreachable(format!("the daemon answered {status}")),
        }
    }

    /// What a model or a person is told.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.detail.clone();
        if let Some(field) = &self.field
            && !text.contains(field.as_str())
        {
            text = format!("{field}: {text}");
        }
        if self.code == "unknown_session" {
            text.push_str(". It may have ended. Call again without `session` to start a new one");
        }
        if let Some(fix) = &self.fix {
            write!(text, ". {fix}").unwrap_or_default();
        }
        if let Some(secs) = self.retry_after_secs {
            write!(text, ". Try again in {secs} s").unwrap_or_default();
        }
        write!(text, " ({})", self.code).unwrap_or_default();
        text
    }
}

/// A successful answer, and the room that was set aside for it and what is made of it.
#[derive(Debug)]
pub struct Whole<R> {
    pub headers: HeaderMap,
    pub body: Bytes,
    pub room: R,
}

/// Sends a request and reads the whole answer.
///
/// # Errors
/// [`Refusal`] unless the answer is a success.
pub async fn whole<N: Native>(native: &N, call: Call) -> Result<Whole<N::Room>, Refusal> {
    let (head, body) = native.call(call).await?.into_parts();
    let body = match Limited::new(body, MAX_ANSWER_BYTES).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => return Err(Refusal::unreachable(format!("the answer broke off: {error}"))),
    };
    if !head.status.is_success() {
        return Err(Refusal::read(head.status, &head.headers, &body));
    }
    // It is there once parsed, and once more as the dialect's answer.
    let room = native.room(body.len() * 2).await?;
    Ok(Whole { headers: head.headers, body, room })
}

/// Sends a request and reads the answer as JSON; an empty one is `null`.
///
/// # Errors
/// As [`whole`].
pub async fn json<N: Native, T: DeserializeOwned + Send + 'static>(
    native: &N,
    call: Call,
) -> Result<(T, N::Room), Refusal> {
    let Whole { body, room, .. } = whole(native, call).await?;
    let text = if body.is_empty() { Bytes::from_static(b"null") } else { body };
    let (value, room) = by_size(text.len(), move || (serde_json::from_slice(&text), room)).await;
    let value = value
        .map_err(|error| Refusal::unreachable(format!("not an answer of this version: {error}")))?;
    Ok((value, room))
}

/// Sends a request whose answer comes as a stream.
///
/// # Errors
/// As [`whole`].
pub async fn streamed<N: Native>(native: &N, call: Call) -> Result<Body, Refusal> {
    body(native, Call { is_streamed: true, ..call }).await
}

/// Sends a request and gives the answer's body as it comes.
///
/// # Errors
/// As [`whole`].
pub async fn body<N: Native>(native: &N, call: Call) -> Result<Body, Refusal> {
    let response = native.call(call).await?;
    if response.status().is_success() {
        return Ok(response.into_body());
    }
    Err(refusal(response).await)
}

/// The refusal that an answer is.
pub async fn refusal(response: Response<Body>) -> Refusal {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Refusal::read(head.status, &head.headers, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_names_field_wait_and_code() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, "7".parse().unwrap());
        let body = br#"{"code": "quota_exceeded", "detail": "too many", "field": "code"}"#;
        let refusal = Refusal::read(StatusCode::TOO_MANY_REQUESTS, &headers, body);
        assert_eq!(refusal.text(), "code: too many. Try again in 7 s (quota_exceeded)");
        let refusal = Refusal::read(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>");
        assert_eq!(refusal.text(), "the daemon answered 502 Bad Gateway (unreachable)");
    }

    #[test]
    fn range_is_of_bytes_that_are_counted() {
        let call = Call { range: Some((10, 5)), ..Call::default() };
        assert_eq!(call.range_header().as_deref(), Some("bytes=10-14"));
        let far = Call { range: Some((u64::MAX, u64::MAX)), ..Call::default() };
        assert_eq!(far.range_header(), Some(format!("bytes={}-{}", u64::MAX, u64::MAX - 1)));
    }
}
