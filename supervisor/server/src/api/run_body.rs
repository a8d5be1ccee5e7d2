//! Requests that run something: how they are read, and how their result is delivered.
//!
//! The response is one outcome, or a stream of events for a client that prefers it. With an
//! `Idempotency-Key` it is the result of the first request with that key.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderName, HeaderValue, Method, Uri};
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr, Response as Described, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses};
use vivarium_api_types::{
    Answered, CommandRequest, ExecuteRequest, OutcomeForm, RunRequest, SessionSpec, WaitingReply,
    WaitingStatus,
};
use vivarium_engine::budget::Reservation;
use vivarium_engine::{
    Engine, EngineError, ExecutionHandle, ExecutionOptions, IdempotencyKey, ResponseMode, Round,
};

use super::connections::Activity;
use super::{Problem, Shared, events, extract, reply};
use crate::off_thread::by_size;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Marks the response of an earlier request with the same key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The headers of a request that runs something.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "described here, read as headers")]
pub(super) struct Headers {
    /// 1 to 255 visible ASCII characters. Further requests with the same key and the same method,
    /// path and body are not carried out: they get what came, or comes, of the first.
    #[serde(rename = "Idempotency-Key")]
    idempotency_key: Option<String>,
    /// Of a request that is sent again: the last event that was read.
    #[serde(rename = "Last-Event-ID")]
    last_event_id: Option<u64>,
}

/// The headers of a request that creates a session.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "described here, read as a header")]
pub(super) struct KeyHeader {
    /// 1 to 255 visible ASCII characters. Further requests with the same key and the same body are
    /// not carried out: they get the session of the first.
    #[serde(rename = "Idempotency-Key")]
    idempotency_key: Option<String>,
}

/// A request for a session: its specification, its idempotency key, and its reservation of the
/// daemon's memory.
pub(super) struct Keyed<T>(pub(super) T, pub(super) Option<IdempotencyKey>, pub(super) Reservation);

/// A request that may end when its client leaves.
pub(super) trait Attended {
    fn ends_with_client(&self) -> bool;
}

impl Attended for SessionSpec {
    /// Nobody knows the id of a session before the answer, unless the client chose it.
    fn ends_with_client(&self) -> bool {
        self.id.is_none()
    }
}

impl Attended for ExecuteRequest {
    fn ends_with_client(&self) -> bool {
        self.cancel_on_disconnect
    }
}

impl Attended for CommandRequest {
    fn ends_with_client(&self) -> bool {
        self.cancel_on_disconnect
    }
}

impl Attended for RunRequest {
    fn ends_with_client(&self) -> bool {
        self.cancel_on_disconnect
    }
}

/// Ends a request when its client leaves.
pub(super) fn end_with_client(extensions: &Extensions) {
    if let Some(activity) = extensions.get::<Activity>() {
        activity.end_with_client();
    }
}

impl<T: DeserializeOwned + Default + Attended + Send + 'static> FromRequest<Shared> for Keyed<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let (body, reservation) = extract::read_optional_json(&mut parts, body, state).await?;
        let parse = |body: &[u8]| match body {
            [] => Ok(T::default()),
            body => extract::parse(body),
        };
        let (key, spec, reservation) = read(&parts, body, reservation, parse).await?;
        if key.is_none() && spec.ends_with_client() {
            end_with_client(&parts.extensions);
        }
        Ok(Self(spec, key, reservation))
    }
}

/// How an execution is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    mode: ResponseMode,
    form: OutcomeForm,
}

/// A request to run something: the parsed body, the options from its headers, and how to answer.
pub(super) struct RunBody<T> {
    pub(super) request: T,
    pub(super) options: ExecutionOptions,
    pub(super) answer: Answer,
}

impl<T: DeserializeOwned + Attended + Answered + Send + 'static> FromRequest<Shared>
    for RunBody<T>
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let (body, reservation) = extract::read_json(&mut parts, body, state).await?;
        let last_read = events::last_read(&parts.headers)?;
        let is_streamed = events::is_wanted(&parts.headers);
        let (key, request, reservation): (_, T, _) =
            read(&parts, body, reservation, extract::parse).await?;
        if is_streamed || request.ends_with_client() {
            end_with_client(&parts.extensions);
        }
        let mode =
            if is_streamed { ResponseMode::Events(last_read) } else { ResponseMode::Outcome };
        let form = request.outcome_form();
        if is_streamed {
            events::check_form(form, "answer.")?;
        }
        let options = ExecutionOptions {
            response: mode,
            idempotency_key: key,
            reservation: Some(reservation),
        };
        Ok(Self { request, options, answer: Answer { mode, form } })
    }
}

/// Marks a response as that of an earlier request.
pub(super) fn replayed(mut response: Response, is_replay: bool) -> Response {
    if is_replay {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// What is parsed of a body, with the request's key. Gives back the reservation.
async fn read<T: Send + 'static>(
    parts: &Parts,
    body: Bytes,
    reservation: Reservation,
    parse: fn(&[u8]) -> Result<T, Problem>,
) -> Result<(Option<IdempotencyKey>, T, Reservation), Problem> {
    let keyed = KeyedBy::of(parts);
    by_size(body.len(), move || Ok((keyed.key(&body)?, parse(&body)?, reservation))).await
}

/// The key that a request has, and what that stands for besides the body.
struct KeyedBy(Option<(HeaderValue, Method, Uri)>);

impl KeyedBy {
    fn of(parts: &Parts) -> Self {
        let key = parts.headers.get(IDEMPOTENCY_KEY);
        Self(key.map(|key| (key.clone(), parts.method.clone(), parts.uri.clone())))
    }

    /// The key, with a hash of the request's method, path and body.
    fn key(self, body: &[u8]) -> Result<Option<IdempotencyKey>, Problem> {
        let Some((key, method, uri)) = self.0 else { return Ok(None) };
        let path = uri.path_and_query().map_or(uri.path(), |path| path.as_str());
        let mut hash = Sha256::new();
        for part in [method.as_str().as_bytes(), path.as_bytes(), body] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let key = String::from_utf8_lossy(key.as_bytes());
        Ok(Some(IdempotencyKey::new(&key, hash.finalize().into())?))
    }
}

/// Answers with the outcome or the events of an execution.
pub(super) async fn respond(
    handle: ExecutionHandle,
    answer: Answer,
    engine: &Engine,
    tenant: &str,
) -> Result<Response, Problem> {
    let is_replay = handle.is_replay;
    let response = match answer.mode {
        ResponseMode::Events(last_read) => {
            // No client can have read events of an execution that has only just begun.
            let (reader, gone) = handle.follow(last_read.filter(|_| is_replay))?;
            events::respond(reader, gone, engine.account(tenant), answer.form.content)
        }
        ResponseMode::Outcome => {
            let outcome = handle.outcome().await?;
            let weight = outcome.weight_bytes() * answer.form.copies();
            reply::json(engine, tenant, weight, move || outcome.in_form(answer.form)).await?
        }
    };
    Ok(replayed(response, is_replay))
}

/// Answers with the outcome of an execution, or with its calls that wait.
pub(super) async fn respond_round(
    handle: ExecutionHandle,
    form: OutcomeForm,
    session_id: &str,
    engine: &Engine,
    tenant: &str,
) -> Result<Response, Problem> {
    let is_replay = handle.is_replay;
    let response = match handle.round().await {
        Round::Over => {
            let outcome = handle.outcome().await?;
            let weight = outcome.weight_bytes() * form.copies();
            reply::json(engine, tenant, weight, move || outcome.in_form(form)).await?
        }
        Round::Waiting { execution_id, calls } => {
            let weight = calls.iter().map(|call| call.arguments.as_str().len()).sum();
            let (session_id, status) = (session_id.to_owned(), WaitingStatus::Waiting);
            let waiting = WaitingReply { execution_id, session_id, status, calls };
            reply::json(engine, tenant, weight, move || waiting).await?
        }
    };
    Ok(replayed(response, is_replay))
}

/// How code that waits for answers in rounds is answered.
pub(super) fn round_form(answer: Answer) -> Result<OutcomeForm, Problem> {
    match answer.mode {
        ResponseMode::Outcome => Ok(answer.form),
        ResponseMode::Events(_) => Err(Problem::from(EngineError::Invalid {
            field: "wait_for_calls".to_owned(),
            reason: "events tell of calls: answer those, and follow on".to_owned(),
        })),
    }
}

/// The response of code that is run in rounds, for the OpenAPI document.
pub(super) struct OutcomeOrCalls;

impl IntoResponses for OutcomeOrCalls {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let response = ResponseBuilder::new()
            .description("What became of it, or the calls that it waits for")
            .content("application/json", outcome_or_calls())
            .build();
        BTreeMap::from([("200".to_owned(), RefOr::T(response))])
    }
}

/// The response of code, for the OpenAPI document.
pub(super) struct OutcomeCallsOrEvents;

impl IntoResponses for OutcomeCallsOrEvents {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let response = ResponseBuilder::new()
            .description(
                "What became of it, its events as they happen, or the calls that it waits for",
            )
            .content("application/json", outcome_or_calls())
            .content(events::EVENT_STREAM, events::described())
            .header("Idempotent-Replayed", replayed_header())
            .build();
        BTreeMap::from([("200".to_owned(), RefOr::T(response))])
    }
}

fn outcome_or_calls() -> Content {
    let either = OneOfBuilder::new()
        .item(Ref::from_schema_name("Outcome"))
        .item(Ref::from_schema_name("WaitingReply"))
        .build();
    ContentBuilder::new().schema(Some(Schema::OneOf(either))).build()
}

/// The response of such a request, for the OpenAPI document.
pub(super) struct OutcomeOrEvents;

impl IntoResponses for OutcomeOrEvents {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let outcome = ContentBuilder::new().schema(Some(Ref::from_schema_name("Outcome"))).build();
        let response = ResponseBuilder::new()
            .description("What became of it, or its events as they happen")
            .content("application/json", outcome)
            .content(events::EVENT_STREAM, events::described())
            .header("Idempotent-Replayed", replayed_header())
            .build();
        BTreeMap::from([("200".to_owned(), RefOr::T(response))])
    }
}

/// The response of a request for a session, for the OpenAPI document.
pub(super) struct Made;

impl IntoResponses for Made {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let info = ContentBuilder::new().schema(Some(Ref::from_schema_name("SessionInfo"))).build();
        let response = ResponseBuilder::new()
            .description("The session")
            .content("application/json", info)
            .header("Idempotent-Replayed", replayed_header())
            .build();
        BTreeMap::from([("201".to_owned(), RefOr::T(response))])
    }
}

fn replayed_header() -> Header {
    HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .description(Some("An earlier request with the same Idempotency-Key was carried out."))
        .build()
}
