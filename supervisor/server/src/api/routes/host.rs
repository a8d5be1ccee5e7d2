//! The daemon and its host.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::HostInfo;
use vivarium_engine::EngineError;

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::{Problem, Shared, metrics};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(host))
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(metrics::show))
        .routes(routes!(metrics::tenants))
        .routes(routes!(openapi))
}

/// The daemon is there.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// `ok`
    status: &'static str,
}

/// This host and what it offers
#[utoipa::path(get, path = "/v1/host", tag = "host",
    responses((status = 200, body = HostInfo), (status = "default", body = Problem)))]
async fn host(State(api): State<Shared>, Caller(tenant): Caller) -> Answer<HostInfo> {
    Answer(api.engine.host(&tenant))
}

/// Whether the daemon is there
#[utoipa::path(get, path = "/healthz", tag = "host", responses((status = 200, body = Health)))]
async fn healthz() -> Answer<Health> {
    Answer(Health { status: "ok" })
}

/// Whether the daemon takes new work
#[utoipa::path(get, path = "/readyz", tag = "host",
    responses((status = 200, body = Health), (status = 503, body = Problem)))]
async fn readyz(State(api): State<Shared>) -> ApiResult<Health> {
    if api.engine.is_draining() {
        return Err(EngineError::Draining.into());
    }
    if let Some(paused) = api.engine.paused() {
        return Err(EngineError::Paused(paused.reason).into());
    }
    Ok(Answer(Health { status: "ok" }))
}

/// This API as OpenAPI 3.1
#[utoipa::path(get, path = "/openapi.json", tag = "host",
    responses((status = 200, description = "This document", content_type = "application/json",
        body = Object)))]
async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], crate::api::openapi::json()).into_response()
}
