//! Questions to a session's kernel about code that is being written.

use axum::Json as Answer;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{
    AssistReply, CompleteReply, InspectReply, IsCompleteReply, IsCompleteRequest, ProbeRequest,
};

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::extract::{Id, Json};
use crate::api::{Problem, Shared};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(complete))
        .routes(routes!(inspect))
        .routes(routes!(is_complete))
}

/// What could follow at a place in code
#[utoipa::path(post, path = "/v1/sessions/{id}/complete", tag = "executions",
    params(("id" = String, Path)), request_body = ProbeRequest,
    responses((status = 200, body = CompleteReply), (status = "default", body = Problem)))]
async fn complete(
    api: State<Shared>,
    caller: Caller,
    id: Id,
    request: Json<ProbeRequest>,
) -> ApiResult<CompleteReply> {
    ask(api, caller, id, request).await
}

/// What stands at a place in code
#[utoipa::path(post, path = "/v1/sessions/{id}/inspect", tag = "executions",
    params(("id" = String, Path)), request_body = ProbeRequest,
    responses((status = 200, body = InspectReply), (status = "default", body = Problem)))]
async fn inspect(
    api: State<Shared>,
    caller: Caller,
    id: Id,
    request: Json<ProbeRequest>,
) -> ApiResult<InspectReply> {
    ask(api, caller, id, request).await
}

/// Whether code can be executed or needs another line
#[utoipa::path(post, path = "/v1/sessions/{id}/is_complete", tag = "executions",
    params(("id" = String, Path)), request_body = IsCompleteRequest,
    responses((status = 200, body = IsCompleteReply), (status = "default", body = Problem)))]
async fn is_complete(
    api: State<Shared>,
    caller: Caller,
    id: Id,
    request: Json<IsCompleteRequest>,
) -> ApiResult<IsCompleteReply> {
    ask(api, caller, id, request).await
}

async fn ask<T: AssistReply>(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Json(request, _reserved): Json<T::Request>,
) -> ApiResult<T> {
    Ok(Answer(api.engine.assist(&tenant, &id, request).await?))
}
