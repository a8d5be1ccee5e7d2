//! Answers to calls of clients' functions by code: one by one for clients that follow events or ask for
//! what waits, and in rounds for those that only send requests.

use axum::Json as Answer;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{CallAnswer, CallList, ContinueRequest, OutcomeForm};
use vivarium_engine::EngineError;

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::extract::{ExecutionId, Json};
use crate::api::query::Params;
use crate::api::{Problem, Shared, run_body};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_calls))
        .routes(routes!(answer_call))
        .routes(routes!(continue_execution))
}

/// The ids of a session, of an execution and of a call in a path.
struct CallId {
    id: String,
    execution_id: String,
    call_id: String,
}

impl FromRequestParts<Shared> for CallId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        Path::<(String, String, String)>::from_request_parts(parts, state)
            .await
            .map(|Path((id, execution_id, call_id))| Self { id, execution_id, call_id })
            .map_err(|_| EngineError::UnknownCall("?".to_owned()).into())
    }
}

/// List the calls that wait for an answer
#[utoipa::path(get, path = "/v1/sessions/{id}/executions/{execution_id}/calls", tag = "executions",
    params(("id" = String, Path), ("execution_id" = String, Path)),
    responses((status = 200, body = CallList), (status = "default", body = Problem)))]
async fn list_calls(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    ExecutionId { id, execution_id }: ExecutionId,
) -> ApiResult<CallList> {
    Ok(Answer(CallList { calls: api.engine.calls(&tenant, &id, &execution_id)? }))
}

/// Answer a call
///
/// The same answer again changes nothing. Another one gets 409 `call_answered`, and one to a call that waits
/// no more 410 `call_over`.
#[utoipa::path(post, path = "/v1/sessions/{id}/executions/{execution_id}/calls/{call_id}",
    tag = "executions",
    params(("id" = String, Path), ("execution_id" = String, Path), ("call_id" = String, Path)),
    request_body = CallAnswer,
    responses((status = 204, description = "The code has it"), (status = "default", body = Problem)))]
async fn answer_call(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    CallId { id, execution_id, call_id }: CallId,
    Json(answer, _): Json<CallAnswer>,
) -> Result<StatusCode, Problem> {
    api.engine.answer_call(&tenant, &id, &execution_id, &call_id, &answer)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Answer calls, and wait for the next or for the end
///
/// For code that was run with `wait_for_calls`. Answers as that: with the outcome, or with the calls that wait.
#[utoipa::path(post, path = "/v1/sessions/{id}/executions/{execution_id}/continue",
    tag = "executions",
    params(("id" = String, Path), ("execution_id" = String, Path), OutcomeForm),
    request_body = ContinueRequest,
    responses(run_body::OutcomeOrCalls, (status = "default", body = Problem)))]
async fn continue_execution(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    ExecutionId { id, execution_id }: ExecutionId,
    Params(form): Params<OutcomeForm>,
    Json(request, _): Json<ContinueRequest>,
) -> Result<Response, Problem> {
    let handle = api.engine.go_on(&tenant, &id, &execution_id, &request.answers)?;
    run_body::respond_round(handle, form, &id, &api.engine, &tenant).await
}
