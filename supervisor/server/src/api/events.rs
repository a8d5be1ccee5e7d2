//! Executions as streams of server-sent events (WHATWG HTML, 9.2).
//!
//! A client's stream reads from the execution's log only when the connection can take more, so a slow
//! client holds no events of its own here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::openapi::content::{Content as MediaType, ContentBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Response as Described, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses};
use vivarium_api_types::{
    AwaitingApprovalEvent, CallEndedEvent, CallEvent, Content, DisplayEvent, DoneEvent, MimeBundle,
    OutcomeForm, OutputEvent, StartedEvent, ValueInfo,
};
use vivarium_engine::budget::{Account, Full, Reserved};
use vivarium_engine::session::execution_log::{
    Batch, Event, EventKind, EventNumber, EventSubscription,
};
use vivarium_protocol::message::Stream;
use vivarium_protocol::outcome::Exception;

use super::{Problem, reply};

pub(super) const EVENT_STREAM: &str = "text/event-stream";

const LAST_EVENT_ID: &str = "last-event-id";

/// A comment is sent after so long without events, to keep proxies from closing the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The initial room for an event besides its text, in bytes.
const FRAME_BYTES: usize = 128;

/// Whether a client prefers a stream to JSON (RFC 9110, 12.5.1): the higher weight wins, and of equal
/// weights the first.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut best: Option<(bool, f32)> = None;
    for range in accepts.flat_map(|text| text.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let is_stream = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            EVENT_STREAM => true,
            "application/json" | "application/*" | "*/*" => false,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let weight = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        if weight > best.map_or(0.0, |(_, weight)| weight) {
            best = Some((is_stream, weight));
        }
    }
    best.is_some_and(|(is_stream, _)| is_stream)
}

/// The header `Last-Event-ID`.
pub(super) fn last_read(headers: &HeaderMap) -> Result<Option<EventNumber>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    // As large as the document says: a signed number of 64 bits.
    let number: Option<i64> = value.to_str().ok().and_then(|text| text.parse().ok());
    let number = number.and_then(|number| EventNumber::try_from(number).ok());
    number.map(Some).ok_or_else(|| {
        let detail = "Last-Event-ID: it is the number of an event";
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Problem::new(status, "invalid_field", detail).field("Last-Event-ID")
    })
}

/// Refuses a form that only outcomes have. `prefix` leads to the fields of `answer`.
pub(super) fn check_form(form: OutcomeForm, prefix: &str) -> Result<(), Problem> {
    let field = match form.of_outcomes() {
        None => return Ok(()),
        Some("format") => format!("{prefix}format"),
        Some(field) => field.to_owned(),
    };
    let detail =
        format!("a stream has events as they happen: {field} is for Accept: application/json");
    Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_field", detail).field(field))
}

/// The headers of a request that follows an execution.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "described here, read as a header")]
pub(super) struct Headers {
    /// The last event that was read.
    #[serde(rename = "Last-Event-ID")]
    last_event_id: Option<u64>,
}

/// The response of such a request, for the OpenAPI document.
pub(super) struct ShownOrFollowed;

impl IntoResponses for ShownOrFollowed {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let info = ContentBuilder::new().schema(Some(Ref::from_schema_name("ExecutionInfo")));
        let response = ResponseBuilder::new()
            .description("How far it has come, or its events")
            .content("application/json", info.build())
            .content(EVENT_STREAM, described())
            .build();
        BTreeMap::from([("200".to_owned(), RefOr::T(response))])
    }
}

/// A stream of events, for the OpenAPI document.
pub(super) fn described() -> MediaType {
    let text = ObjectBuilder::new().schema_type(Type::String).description(Some(
        "Server-sent events, each with its number as `id`, its name as `event`, and JSON as \
         `data`: `awaiting_approval` (AwaitingApprovalEvent), `started` (StartedEvent), `stdout` and `stderr` (OutputEvent), `display` \
         (DisplayEvent), `call` (CallEvent), `call_ended` (CallEndedEvent), `result` (ValueInfo), `error` (the `exception` of an Outcome), and as \
         the last `done` (DoneEvent).",
    ));
    ContentBuilder::new().schema(Some(text)).build()
}

/// Streams a subscription's events up to the execution's last one, and ends once `gone` resolves.
///
/// Events under way count towards the account; large ones wait for room in it.
pub(super) fn respond(
    reader: EventSubscription,
    gone: impl Future<Output = ()> + Send + 'static,
    account: Account,
    content: Content,
) -> Response {
    let frames =
        futures_util::stream::unfold(Some((reader, gone, account)), move |state| async move {
            let (mut reader, gone, account) = state?;
            let frame = match timeout(KEEP_ALIVE, reader.next()).await {
                Err(_) => Bytes::from_static(b": keep-alive\n\n"),
                Ok(Batch::Events(events)) => match encode(&events, content, &account).await {
                    Ok(frame) => frame,
                    Err(_) => {
                        return Some((Ok::<_, Infallible>(Bytes::from_static(NO_ROOM)), None));
                    }
                },
                Ok(Batch::End) => {
                    gone.await;
                    return None;
                }
                Ok(Batch::CutOff) => {
                    let why =
                        ": cut off: this client was too slow; Last-Event-ID goes on from here\n\n";
                    return Some((Ok(Bytes::from_static(why.as_bytes())), None));
                }
            };
            Some((Ok(frame), Some((reader, gone, account))))
        });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

#[derive(Serialize)]
#[serde(untagged)]
enum Data<'a> {
    AwaitingApproval(&'a AwaitingApprovalEvent),
    Call(&'a CallEvent),
    CallEnded(&'a CallEndedEvent),
    Started(StartedEvent<'a>),
    Output(OutputEvent<'a>),
    Display(DisplayEvent<'a>),
    Value(Cow<'a, ValueInfo>),
    Exception(&'a Exception),
    Done(DoneEvent<'a>),
}

/// Sent before a stream is cut off because the account has no room.
const NO_ROOM: &[u8] =
    b": cut off: the daemon has no room for more; Last-Event-ID goes on from here\n\n";

async fn encode(events: &[Arc<Event>], content: Content, account: &Account) -> Result<Bytes, Full> {
    let weight = events.iter().map(|event| event.bytes()).sum();
    let mut reservation = if weight > reply::LARGE_BYTES {
        account.take_within(weight, reply::ROOM_WITHIN).await?
    } else {
        account.hold(weight)
    };
    let text = |event: &Arc<Event>| match &event.kind {
        EventKind::Output(_, text) => text.len() + text.len() / 8,
        _ => 0,
    };
    let size = events.iter().map(|event| text(event) + FRAME_BYTES).sum();
    let mut frame = Vec::with_capacity(size);
    for event in events {
        encode_one(event, content, &mut frame);
    }
    // Escapes and base64 may take more.
    reservation.set(frame.capacity());
    Ok(Bytes::from_owner(Reserved { bytes: frame, reservation }))
}

fn encode_one(event: &Event, content: Content, frame: &mut Vec<u8>) {
    let (name, data) = match &event.kind {
        EventKind::Started { execution_id, session_id } => (
            "started",
            Data::Started(StartedEvent {
                execution_id: Cow::Borrowed(execution_id),
                session_id: Cow::Borrowed(session_id),
            }),
        ),
        EventKind::AwaitingApproval(awaiting) => {
            ("awaiting_approval", Data::AwaitingApproval(awaiting))
        }
        EventKind::Call(call) => ("call", Data::Call(call)),
        EventKind::CallEnded(ended) => ("call_ended", Data::CallEnded(ended)),
        EventKind::Output(stream, text) => {
            let name = match stream {
                Stream::Stdout => "stdout",
                Stream::Stderr => "stderr",
            };
            (name, Data::Output(OutputEvent { text: Cow::Borrowed(text) }))
        }
        EventKind::Display(display) => (
            "display",
            Data::Display(DisplayEvent {
                kind: display.kind,
                id: display.id.as_deref().map(Cow::Borrowed),
                sizes: vivarium_engine::session::mime_sizes(&display.mime),
                mime: match content {
                    Content::Full => vivarium_engine::session::mime_bundle(&display.mime),
                    Content::Sizes => MimeBundle::new(),
                },
            }),
        ),
        EventKind::Value(value) => match content {
            Content::Full => ("result", Data::Value(Cow::Borrowed(value))),
            Content::Sizes => ("result", Data::Value(Cow::Owned(value.sizes_only()))),
        },
        EventKind::Exception(exception) => ("error", Data::Exception(exception)),
        EventKind::Done { outcome, stdout_truncated, stderr_truncated } => {
            ("done", Data::Done(DoneEvent::new(outcome, *stdout_truncated, *stderr_truncated)))
        }
    };
    frame.extend_from_slice(format!("id: {}\nevent: {name}\ndata: ", event.number).as_bytes());
    // Compact JSON contains no line ends, and these types always serialise.
    if let Err(error) = serde_json::to_writer(&mut *frame, &data) {
        tracing::error!(%error, "an event that is no JSON");
    }
    frame.extend_from_slice(b"\n\n");
}
