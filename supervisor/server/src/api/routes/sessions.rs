//! Sessions.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as Answer};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{
    KeepaliveReply, Page, ResetReply, SessionFilters, SessionInfo, SessionPage, SessionPatch,
    SessionSpec,
};
use vivarium_engine::Created;

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::delivery::Delivery;
use crate::api::extract::{Id, Json};
use crate::api::query::Sessions;
use crate::api::run_body::{self, Keyed};
use crate::api::{Problem, Shared};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(show, delete, change))
        .routes(routes!(reset))
        .routes(routes!(keepalive))
}

/// Make a session
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", params(run_body::KeyHeader),
    request_body = Option<SessionSpec>,
    responses(run_body::Made, (status = "default", body = Problem)))]
async fn create(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Extension(delivery): Extension<Delivery>,
    Keyed(spec, key, _reserved): Keyed<SessionSpec>,
) -> Result<Response, Problem> {
    let created = api.engine.create_once(&tenant, spec, key).await?;
    let Created { info, is_replay, undelivered } = created;
    delivery.delivers(undelivered);
    Ok(run_body::replayed((StatusCode::CREATED, Answer(info)).into_response(), is_replay))
}

/// List sessions
#[utoipa::path(get, path = "/v1/sessions", operation_id = "list_sessions",
    tag = "sessions", params(Page, SessionFilters),
    responses((status = 200, body = SessionPage), (status = "default", body = Problem)))]
async fn list(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Sessions(query): Sessions,
) -> ApiResult<SessionPage> {
    Ok(Answer(api.engine.list(&tenant, &query)?))
}

/// Change a session
#[utoipa::path(patch, path = "/v1/sessions/{id}", operation_id = "change_session",
    tag = "sessions", params(("id" = String, Path)),
    request_body(content(
        (SessionPatch = "application/merge-patch+json"),
        (SessionPatch = "application/json")
    )),
    responses((status = 200, body = SessionInfo), (status = "default", body = Problem)))]
async fn change(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Json(patch, _reserved): Json<SessionPatch>,
) -> ApiResult<SessionInfo> {
    Ok(Answer(api.engine.adjust(&tenant, &id, patch).await?))
}

/// Show a session
#[utoipa::path(get, path = "/v1/sessions/{id}", operation_id = "show_session",
    tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = SessionInfo), (status = "default", body = Problem)))]
async fn show(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<SessionInfo> {
    Ok(Answer(api.engine.get(&tenant, &id).await?))
}

/// End a session
#[utoipa::path(delete, path = "/v1/sessions/{id}", operation_id = "delete_session",
    tag = "sessions", params(("id" = String, Path)),
    responses((status = 204), (status = "default", body = Problem)))]
async fn delete(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> Result<StatusCode, Problem> {
    api.engine.delete(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a session a fresh kernel
#[utoipa::path(post, path = "/v1/sessions/{id}/reset", tag = "sessions",
    params(("id" = String, Path)),
    responses((status = 200, body = ResetReply), (status = "default", body = Problem)))]
async fn reset(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<ResetReply> {
    Ok(Answer(api.engine.reset(&tenant, &id, None).await?))
}

/// Keep a session from being reaped
#[utoipa::path(post, path = "/v1/sessions/{id}/keepalive", tag = "sessions",
    params(("id" = String, Path)),
    responses((status = 200, body = KeepaliveReply), (status = "default", body = Problem)))]
async fn keepalive(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<KeepaliveReply> {
    Ok(Answer(api.engine.keepalive(&tenant, &id)?))
}
