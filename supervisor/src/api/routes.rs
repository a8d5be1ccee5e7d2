//! The routes. Each takes a request apart, calls the engine and puts the answer together.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::auth::Caller;
use super::extract::{Id, Json, OptionalJson, Params};
use super::{Problem, Shared};
use crate::engine::EngineError;
use crate::engine::types::{
    ExecuteRequest, HostInfo, InterruptReply, KeepaliveReply, Outcome, Page, ResetReply,
    RunRequest, SessionInfo, SessionPage, SessionSpec,
};

type Answered<T> = Result<Answer<T>, Problem>;

/// Whether an execution makes its session.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct ExecuteParams {
    /// Make the session if there is none of this id.
    create: bool,
}

/// The daemon is there.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`
    status: &'static str,
}

/// Make a session
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = SessionSpec,
    responses((status = 201, body = SessionInfo), (status = "default", body = Problem)))]
pub(super) async fn create(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    OptionalJson(spec): OptionalJson<SessionSpec>,
) -> Result<(StatusCode, Answer<SessionInfo>), Problem> {
    let info = api.engine.create(&tenant, spec).await?;
    Ok((StatusCode::CREATED, Answer(info)))
}

/// List sessions
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(Page),
    responses((status = 200, body = SessionPage), (status = "default", body = Problem)))]
pub(super) async fn list(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Params(page): Params<Page>,
) -> Answered<SessionPage> {
    Ok(Answer(api.engine.list(&tenant, &page)?))
}

/// Show a session
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = SessionInfo), (status = "default", body = Problem)))]
pub(super) async fn show(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> Answered<SessionInfo> {
    Ok(Answer(api.engine.get(&tenant, &id).await?))
}

/// End a session
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    responses((status = 204), (status = "default", body = Problem)))]
pub(super) async fn delete(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> Result<StatusCode, Problem> {
    api.engine.delete(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Run code in a session
#[utoipa::path(post, path = "/v1/sessions/{id}/execute", tag = "executions",
    params(("id" = String, Path), ExecuteParams), request_body = ExecuteRequest,
    responses((status = 200, body = Outcome), (status = "default", body = Problem)))]
pub(super) async fn execute(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    headers: HeaderMap,
    Params(params): Params<ExecuteParams>,
    Json(request): Json<ExecuteRequest>,
) -> Answered<Outcome> {
    refuse_streaming(&headers)?;
    Ok(Answer(api.engine.execute(&tenant, &id, request, params.create).await?))
}

/// Interrupt what is running
#[utoipa::path(post, path = "/v1/sessions/{id}/interrupt", tag = "executions",
    params(("id" = String, Path)),
    responses((status = 200, body = InterruptReply), (status = "default", body = Problem)))]
pub(super) async fn interrupt(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> Answered<InterruptReply> {
    Ok(Answer(api.engine.interrupt(&tenant, &id).await?))
}

/// Give a session a fresh kernel
#[utoipa::path(post, path = "/v1/sessions/{id}/reset", tag = "sessions",
    params(("id" = String, Path)),
    responses((status = 200, body = ResetReply), (status = "default", body = Problem)))]
pub(super) async fn reset(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> Answered<ResetReply> {
    Ok(Answer(api.engine.reset(&tenant, &id).await?))
}

/// Keep a session from being reaped
#[utoipa::path(post, path = "/v1/sessions/{id}/keepalive", tag = "sessions",
    params(("id" = String, Path)),
    responses((status = 200, body = KeepaliveReply), (status = "default", body = Problem)))]
pub(super) async fn keepalive(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> Answered<KeepaliveReply> {
    Ok(Answer(api.engine.keepalive(&tenant, &id)?))
}

/// Run code in a session of its own
#[utoipa::path(post, path = "/v1/run", tag = "executions", request_body = RunRequest,
    responses((status = 200, body = Outcome), (status = "default", body = Problem)))]
pub(super) async fn run(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    Json(request): Json<RunRequest>,
) -> Answered<Outcome> {
    refuse_streaming(&headers)?;
    Ok(Answer(api.engine.run(&tenant, request).await?))
}

/// This host and what it offers
#[utoipa::path(get, path = "/v1/host", tag = "host",
    responses((status = 200, body = HostInfo), (status = "default", body = Problem)))]
pub(super) async fn host(State(api): State<Shared>, Caller(tenant): Caller) -> Answer<HostInfo> {
    Answer(api.engine.host(&tenant))
}

/// Whether the daemon is there
#[utoipa::path(get, path = "/healthz", tag = "host", responses((status = 200, body = Health)))]
pub(super) async fn healthz() -> Answer<Health> {
    Answer(Health { status: "ok" })
}

/// Whether the daemon takes new work
#[utoipa::path(get, path = "/readyz", tag = "host",
    responses((status = 200, body = Health), (status = 503, body = Problem)))]
pub(super) async fn readyz(State(api): State<Shared>) -> Answered<Health> {
    if api.engine.is_draining() {
        return Err(EngineError::Draining.into());
    }
    Ok(Answer(Health { status: "ok" }))
}

/// This API as OpenAPI 3.1
pub(super) async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], super::openapi::json()).into_response()
}

/// A client that takes nothing but a stream of events can not be served yet.
fn refuse_streaming(headers: &HeaderMap) -> Result<(), Problem> {
    let mut kinds = Vec::new();
    for value in headers.get_all(header::ACCEPT) {
        let text = value.to_str().unwrap_or_default();
        kinds.extend(text.split(',').filter_map(|part| part.split(';').next()).map(str::trim));
    }
    let takes = |kind: &str| kinds.iter().any(|accepted| accepted.eq_ignore_ascii_case(kind));
    let takes_json = ["application/json", "application/*", "*/*"].into_iter().any(takes);
    if takes("text/event-stream") && !takes_json {
        let detail = "text/event-stream is not supported by this version, it comes later: \
                      use Accept: application/json";
        return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, "streaming_not_supported", detail));
    }
    Ok(())
}
