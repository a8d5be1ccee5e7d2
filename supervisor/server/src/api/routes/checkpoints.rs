//! Checkpoints of sessions, and going back to one.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{
    Checkpoint, CheckpointDiff, CheckpointList, CheckpointRequest, DiffParams, RollbackRequest,
    SessionInfo,
};

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::extract::{CheckpointName, Id, Json, OptionalJson};
use crate::api::query::Params;
use crate::api::{Problem, Shared};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(make, list))
        .routes(routes!(delete))
        .routes(routes!(diff))
        .routes(routes!(rollback))
}

/// Make a checkpoint: keep what a session is now, to go back to
#[utoipa::path(post, path = "/v1/sessions/{id}/checkpoints", operation_id = "make_checkpoint",
    tag = "images", params(("id" = String, Path)), request_body = Option<CheckpointRequest>,
    responses((status = 201, body = Checkpoint), (status = "default", body = Problem)))]
async fn make(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    OptionalJson(request, _reserved): OptionalJson<CheckpointRequest>,
) -> Result<Response, Problem> {
    let made = api.engine.make_checkpoint(&tenant, &id, request).await?;
    let location = format!("/v1/sessions/{id}/checkpoints/{}", made.name);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Answer(made)).into_response())
}

/// List the checkpoints of a session
#[utoipa::path(get, path = "/v1/sessions/{id}/checkpoints", operation_id = "list_checkpoints",
    tag = "images", params(("id" = String, Path)),
    responses((status = 200, body = CheckpointList), (status = "default", body = Problem)))]
async fn list(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<CheckpointList> {
    Ok(Answer(CheckpointList { checkpoints: api.engine.checkpoints(&tenant, &id).await? }))
}

/// Delete a checkpoint
#[utoipa::path(delete, path = "/v1/sessions/{id}/checkpoints/{name}",
    operation_id = "delete_checkpoint", tag = "images",
    params(("id" = String, Path), ("name" = String, Path, description = "Name of the checkpoint")),
    responses((status = 204), (status = "default", body = Problem)))]
async fn delete(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    CheckpointName { id, name }: CheckpointName,
) -> Result<StatusCode, Problem> {
    api.engine.delete_checkpoint(&tenant, &id, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Compare the variables of two checkpoints of a session, by name
#[utoipa::path(get, path = "/v1/sessions/{id}/checkpoints/{name}/diff",
    operation_id = "diff_checkpoints", tag = "images",
    params(("id" = String, Path), ("name" = String, Path, description = "Name of the checkpoint"),
        DiffParams),
    responses((status = 200, body = CheckpointDiff), (status = "default", body = Problem)))]
async fn diff(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    CheckpointName { id, name }: CheckpointName,
    Params(params): Params<DiffParams>,
) -> ApiResult<CheckpointDiff> {
    Ok(Answer(api.engine.diff_checkpoints(&tenant, &id, &name, params).await?))
}

/// Roll a session back: have it be what it was at a checkpoint; what runs in it ends
#[utoipa::path(post, path = "/v1/sessions/{id}/rollback", operation_id = "roll_back_session",
    tag = "images", params(("id" = String, Path)), request_body = RollbackRequest,
    responses((status = 200, body = SessionInfo), (status = "default", body = Problem)))]
async fn rollback(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Json(request, _reserved): Json<RollbackRequest>,
) -> ApiResult<SessionInfo> {
    Ok(Answer(api.engine.rollback(&tenant, &id, request).await?))
}
