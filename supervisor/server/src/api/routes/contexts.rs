//! Contexts: the kernels of a session.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{ContextInfo, ContextList, ContextSpec, InterruptReply, ResetReply};

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::extract::{ContextId, Id, OptionalJson};
use crate::api::{Problem, Shared};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(open, list))
        .routes(routes!(show, close))
        .routes(routes!(reset))
        .routes(routes!(interrupt))
}

/// Open a context
#[utoipa::path(post, path = "/v1/sessions/{id}/contexts", operation_id = "open_context",
    tag = "contexts", params(("id" = String, Path)), request_body = Option<ContextSpec>,
    responses((status = 201, body = ContextInfo), (status = "default", body = Problem)))]
async fn open(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    OptionalJson(spec, _reserved): OptionalJson<ContextSpec>,
) -> Result<Response, Problem> {
    let context = api.engine.open_context(&tenant, &id, spec).await?;
    let location = format!("/v1/sessions/{id}/contexts/{}", context.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Answer(context)).into_response())
}

/// List the contexts of a session
#[utoipa::path(get, path = "/v1/sessions/{id}/contexts", operation_id = "list_contexts",
    tag = "contexts", params(("id" = String, Path)),
    responses((status = 200, body = ContextList), (status = "default", body = Problem)))]
async fn list(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<ContextList> {
    Ok(Answer(api.engine.contexts(&tenant, &id).await?))
}

/// Show a context
#[utoipa::path(get, path = "/v1/sessions/{id}/contexts/{context}", operation_id = "show_context",
    tag = "contexts", params(("id" = String, Path), ("context" = String, Path)),
    responses((status = 200, body = ContextInfo), (status = "default", body = Problem)))]
async fn show(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    ContextId { id, context }: ContextId,
) -> ApiResult<ContextInfo> {
    Ok(Answer(api.engine.context(&tenant, &id, &context).await?))
}

/// Delete a context
#[utoipa::path(delete, path = "/v1/sessions/{id}/contexts/{context}",
    operation_id = "delete_context", tag = "contexts",
    params(("id" = String, Path), ("context" = String, Path)),
    responses((status = 204), (status = "default", body = Problem)))]
async fn close(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    ContextId { id, context }: ContextId,
) -> Result<StatusCode, Problem> {
    api.engine.close_context(&tenant, &id, &context).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a context a fresh kernel
#[utoipa::path(post, path = "/v1/sessions/{id}/contexts/{context}/reset",
    operation_id = "reset_context", tag = "contexts",
    params(("id" = String, Path), ("context" = String, Path)),
    responses((status = 200, body = ResetReply), (status = "default", body = Problem)))]
async fn reset(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    ContextId { id, context }: ContextId,
) -> ApiResult<ResetReply> {
    Ok(Answer(api.engine.reset(&tenant, &id, Some(context)).await?))
}

/// Interrupt what a context runs
#[utoipa::path(post, path = "/v1/sessions/{id}/contexts/{context}/interrupt",
    operation_id = "interrupt_context", tag = "contexts",
    params(("id" = String, Path), ("context" = String, Path)),
    responses((status = 200, body = InterruptReply), (status = "default", body = Problem)))]
async fn interrupt(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    ContextId { id, context }: ContextId,
) -> ApiResult<InterruptReply> {
    Ok(Answer(api.engine.interrupt(&tenant, &id, Some(context)).await?))
}
