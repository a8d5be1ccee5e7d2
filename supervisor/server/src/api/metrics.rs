//! `GET /metrics` and `/metrics/tenants`, and the counting of requests.

use std::sync::Arc;
use std::time::Instant;

use axum::Json as Answer;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use vivarium_api_types::TenantList;
use vivarium_metrics::{CONTENT_TYPE, Metrics};

use super::{Problem, Shared};
use crate::logging;

/// Metrics for Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "host",
    responses((status = 200, body = String, content_type = "text/plain; version=0.0.4"),
        (status = "default", body = Problem)))]
pub(super) async fn show(State(api): State<Shared>) -> Result<Response, Problem> {
    let engine = api.engine.clone();
    // A scrape reads files of /proc and of the cgroup tree.
    let text = match tokio::task::spawn_blocking(move || engine.scrape(logging::dropped())).await {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return Err(failed(&error)),
        Err(error) => return Err(failed(&error)),
    };
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// What every tenant uses
#[utoipa::path(get, path = "/metrics/tenants", operation_id = "list_tenants", tag = "host",
    responses((status = 200, body = TenantList), (status = "default", body = Problem)))]
pub(super) async fn tenants(State(api): State<Shared>) -> Result<Answer<TenantList>, Problem> {
    let engine = api.engine.clone();
    let tenants = tokio::task::spawn_blocking(move || engine.tenants()).await;
    tenants.map(Answer).map_err(|error| failed(&error))
}

fn failed(error: &dyn std::error::Error) -> Problem {
    let detail = vivarium_protocol::error_chain(error);
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
}

/// Counts a request when it has been answered.
pub(super) async fn count(
    State(metrics): State<Arc<Metrics>>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let response = next.run(request).await;
    let route = route.as_ref().map(MatchedPath::as_str);
    let status = response.status().as_u16();
    metrics.http.answered(route, method.as_str(), status, started.elapsed());
    response
}
