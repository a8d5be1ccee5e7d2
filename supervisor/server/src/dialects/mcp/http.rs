//! MCP over streamable HTTP: one POST, one answer, as JSON or, with progress, as events.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::sleep;
use uuid::Uuid;

use super::in_flight::{Client, Entry, InFlight, SESSION};
use super::progress::Progress;
use super::revision::{self, Era};
use super::rpc::{self, Error, Id, Message, Request};
use super::{Answer, answer};
use crate::dialects::held;
use crate::dialects::native::Native;
use crate::off_thread::by_size;

/// How often a stream says that it is alive, for proxies that close silent connections.
pub(super) const ALIVE: Duration = Duration::from_secs(15);
pub(super) const STILL_THERE: &[u8] = b": alive\n\n";

/// Notifications that wait for a client.
const QUEUE: usize = 16;

/// Answers what was posted by a client of this tenant.
pub async fn respond<N: Native>(
    native: N,
    tenant: &str,
    in_flight: &InFlight,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response {
    let client = Client::of(in_flight, tenant, headers);
    let parse = {
        let body = body.clone();
        move || rpc::parse(&body)
    };
    let request = match by_size(body.len(), parse).await {
        Ok(Message::Request(request)) => request,
        Ok(other) => {
            if let Err(error) = revision::check_header(headers) {
                return refused(None, &error, Era::Stateless);
            }
            if let Message::Notification(notification) = other {
                client.cancel(super::cancelled(&notification).as_ref());
            }
            return StatusCode::ACCEPTED.into_response();
        }
        Err((id, error)) => return refused(id.as_ref(), &error, Era::Stateless),
    };
    let id = request.id.clone();
    let era = match revision::of(&request, Some(headers)) {
        Ok(era) => era,
        Err(error) => return refused(id.as_ref(), &error, Era::Stateless),
    };
    if let Err(error) = super::check(&request) {
        return refused(id.as_ref(), &error, era);
    }
    let entry = client.begin(id.as_ref());
    let (to, from) = mpsc::channel(QUEUE);
    if let Some(progress) = Progress::wanted(&request, &to)
        && takes_events(headers)
        && request.method == "tools/call"
    {
        drop(to);
        return events(native, era, request, progress, entry, from);
    }
    let answered = tokio::select! {
        answered = answer(&native, era, &request, None) => answered,
        () = entry.cancelled() => Err(Error::new(rpc::CANCELLED, "its client has cancelled it")),
    };
    match answered {
        Ok(Answer { result, room }) => {
            let mut response = held::json(&rpc::result(id.as_ref(), result), room);
            if request.method == "initialize" {
                let own = Uuid::new_v4().simple().to_string();
                // Of hexadecimal digits.
                let own = HeaderValue::try_from(own).unwrap_or(HeaderValue::from_static("0"));
                response.headers_mut().insert(SESSION, own);
            }
            response
        }
        Err(error) => refused(id.as_ref(), &error, era),
    }
}

fn takes_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/event-stream")
    })
}

/// The status of an error. Until 2025-11-25 an error is an answer like others, unless nothing could be
/// made of the request.
pub(super) fn refused(id: Option<&Id>, error: &Error, era: Era) -> Response {
    let status = match (error.code, era) {
        (rpc::PARSE_ERROR | rpc::INVALID_REQUEST, _) => StatusCode::BAD_REQUEST,
        (_, Era::Handshake) => StatusCode::OK,
        (rpc::METHOD_NOT_FOUND, Era::Stateless) => StatusCode::NOT_FOUND,
        (rpc::INVALID_PARAMS | rpc::HEADER_MISMATCH | rpc::UNSUPPORTED_VERSION, Era::Stateless) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    };
    (status, held::json(&error.message(id), None::<()>)).into_response()
}

pub(super) fn frame<R: Send + Sync + 'static>(message: &Value, room: Option<R>) -> Bytes {
    // Compact JSON contains no line ends.
    let bytes = format!("event: message\ndata: {message}\n\n").into_bytes();
    held::bytes(bytes, room)
}

/// A message with a result or an error, and its room; `None` if it was cancelled.
pub(super) type Answering<R> = Pin<Box<dyn Future<Output = Option<(Value, Option<R>)>> + Send>>;

/// Answers with progress, then the result. Dropped, it ends the call; cancelled, it ends without a result.
fn events<N: Native>(
    native: N,
    era: Era,
    request: Request,
    progress: Progress,
    entry: Entry,
    told: mpsc::Receiver<Value>,
) -> Response {
    let answering: Answering<N::Room> = Box::pin(async move {
        let id = request.id.as_ref();
        tokio::select! {
            answered = answer(&native, era, &request, Some(&progress)) => Some(match answered {
                Ok(Answer { result, room }) => (rpc::result(id, result), room),
                Err(error) => (error.message(id), None),
            }),
            () = entry.cancelled() => None,
        }
    });
    let frames = stream::unfold(Some((answering, told)), async |state| {
        let (mut answering, mut told) = state?;
        tokio::select! {
            biased;
            Some(message) = told.recv() => {
                let frame = frame(&message, None::<()>);
                Some((Ok::<_, Infallible>(frame), Some((answering, told))))
            }
            answered = &mut answering => {
                let (message, room) = answered?;
                Some((Ok(frame(&message, room)), None))
            }
            () = sleep(ALIVE) => {
                Some((Ok(Bytes::from_static(STILL_THERE)), Some((answering, told))))
            }
        }
    });
    event_stream(frames)
}

pub(super) fn event_stream(
    frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Body::from_stream(frames)).into_response()
}
