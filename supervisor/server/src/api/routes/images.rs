//! Suspending and resuming sessions, and making sessions from others.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{BranchReply, BranchRequest, ImageableReply, SessionInfo};

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::extract::{Id, OptionalJson};
use crate::api::{Problem, Shared};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(suspend))
        .routes(routes!(resume))
        .routes(routes!(branch))
        .routes(routes!(imageable))
}

/// Suspend a session: write its memory and files to disk, and end its processes
#[utoipa::path(post, path = "/v1/sessions/{id}/suspend", operation_id = "suspend_session",
    tag = "images", params(("id" = String, Path)),
    responses((status = 200, body = SessionInfo), (status = "default", body = Problem)))]
async fn suspend(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<SessionInfo> {
    Ok(Answer(api.engine.suspend(&tenant, &id).await?))
}

/// Resume a suspended session; one that is not suspended stays as it is
#[utoipa::path(post, path = "/v1/sessions/{id}/resume", operation_id = "resume_session",
    tag = "images", params(("id" = String, Path)),
    responses((status = 200, body = SessionInfo), (status = "default", body = Problem)))]
async fn resume(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<SessionInfo> {
    Ok(Answer(api.engine.resume_session(&tenant, &id).await?))
}

/// Branch a session: make others from its state, or a checkpoint's, and leave it as it is
#[utoipa::path(post, path = "/v1/sessions/{id}/branch", operation_id = "branch_session",
    tag = "images", params(("id" = String, Path)), request_body = Option<BranchRequest>,
    responses((status = 201, body = BranchReply), (status = "default", body = Problem)))]
async fn branch(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    OptionalJson(request, _reserved): OptionalJson<BranchRequest>,
) -> Result<Response, Problem> {
    let sessions = api.engine.branch(&tenant, &id, request).await?;
    Ok((StatusCode::CREATED, Answer(BranchReply { sessions })).into_response())
}

/// Say whether a session can be suspended now, and what is in the way
#[utoipa::path(get, path = "/v1/sessions/{id}/imageable", operation_id = "session_imageable",
    tag = "images", params(("id" = String, Path)),
    responses((status = 200, body = ImageableReply), (status = "default", body = Problem)))]
async fn imageable(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<ImageableReply> {
    Ok(Answer(api.engine.imageable(&tenant, &id).await?))
}
