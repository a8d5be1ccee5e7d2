//! Running code, and asking about what runs or ran. Commands are in [`super::commands`],
//! questions about code in [`super::assist`].

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{Extensions, HeaderMap};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{
    ExecuteRequest, ExecutionPage, InterruptReply, OutcomeForm, Page, RunRequest,
};

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::events;
use crate::api::extract::{ExecutionId, Id};
use crate::api::query::Params;
use crate::api::run_body::{self, RunBody};
use crate::api::{Problem, Shared, reply};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(execute))
        .routes(routes!(run))
        .routes(routes!(show))
        .routes(routes!(list))
        .routes(routes!(interrupt))
}

/// Whether an execution makes its session.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ExecuteParams {
    /// Make the session if there is none of this id.
    create: bool,
}

/// Run code in a session
#[utoipa::path(post, path = "/v1/sessions/{id}/execute", tag = "executions",
    params(("id" = String, Path), ExecuteParams, run_body::Headers), request_body = ExecuteRequest,
    responses(run_body::OutcomeCallsOrEvents, (status = "default", body = Problem)))]
async fn execute(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Params(params): Params<ExecuteParams>,
    RunBody { request, options, answer }: RunBody<ExecuteRequest>,
) -> Result<Response, Problem> {
    let round = request.wait_for_calls.then(|| run_body::round_form(answer)).transpose()?;
    let handle = api.engine.start_code(&tenant, &id, request, params.create, options).await?;
    if let Some(form) = round {
        return run_body::respond_round(handle, form, &id, &api.engine, &tenant).await;
    }
    run_body::respond(handle, answer, &api.engine, &tenant).await
}

/// Run code or a command in a session of its own
#[utoipa::path(post, path = "/v1/run", tag = "executions",
    params(run_body::Headers), request_body = RunRequest,
    responses(run_body::OutcomeOrEvents, (status = "default", body = Problem)))]
async fn run(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    RunBody { request, options, answer }: RunBody<RunRequest>,
) -> Result<Response, Problem> {
    let handle = api.engine.start_run(&tenant, request, options).await?;
    run_body::respond(handle, answer, &api.engine, &tenant).await
}

/// Show an execution, or follow its events
#[utoipa::path(get, path = "/v1/sessions/{id}/executions/{execution_id}",
    operation_id = "show_execution", tag = "executions",
    params(("id" = String, Path), ("execution_id" = String, Path), OutcomeForm, events::Headers),
    responses(events::ShownOrFollowed, (status = "default", body = Problem)))]
async fn show(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    ExecutionId { id, execution_id }: ExecutionId,
    Params(form): Params<OutcomeForm>,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let after = events::last_read(&headers)?;
    if events::is_wanted(&headers) {
        events::check_form(form, "")?;
        run_body::end_with_client(&extensions);
        let reader = api.engine.follow(&tenant, &id, &execution_id, after)?;
        let account = api.engine.account(&tenant);
        return Ok(events::respond(reader, std::future::ready(()), account, form.content));
    }
    let info = api.engine.execution(&tenant, &id, &execution_id)?;
    let weight = info.outcome.as_ref().map_or(0, |outcome| outcome.weight_bytes());
    reply::json(&api.engine, &tenant, weight * form.copies(), move || info.in_form(form)).await
}

/// List the executions of a session
#[utoipa::path(get, path = "/v1/sessions/{id}/executions", operation_id = "list_executions",
    tag = "executions", params(("id" = String, Path), Page),
    responses((status = 200, body = ExecutionPage), (status = "default", body = Problem)))]
async fn list(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Params(page): Params<Page>,
) -> ApiResult<ExecutionPage> {
    Ok(Answer(api.engine.executions(&tenant, &id, &page)?))
}

/// Interrupt what is running
#[utoipa::path(post, path = "/v1/sessions/{id}/interrupt", tag = "executions",
    params(("id" = String, Path)),
    responses((status = 200, body = InterruptReply), (status = "default", body = Problem)))]
async fn interrupt(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<InterruptReply> {
    Ok(Answer(api.engine.interrupt(&tenant, &id, None).await?))
}
