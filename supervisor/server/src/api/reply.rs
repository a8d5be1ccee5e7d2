//! Responses that may be large, whose bytes count towards the tenant's budget until they are sent.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use vivarium_engine::budget::Reserved;
use vivarium_engine::{Engine, EngineError};

use super::Problem;

/// A larger response waits for room. The smaller ones of all connections together are few bytes.
pub(super) const LARGE_BYTES: usize = 64 << 10;

/// How long a large response waits for room.
pub(super) const ROOM_WITHIN: Duration = Duration::from_secs(30);

/// A JSON response; it and what it is made of take about `weight_bytes`. If there is no room, the result is kept for a later
/// request.
pub(super) async fn json<T: Serialize>(
    engine: &Engine,
    tenant: &str,
    weight_bytes: usize,
    value: impl FnOnce() -> T,
) -> Result<Response, Problem> {
    let account = engine.account(tenant);
    let within = if weight_bytes > LARGE_BYTES { Some(ROOM_WITHIN) } else { None };
    let mut reservation = match within {
        Some(within) => account.take_within(weight_bytes, within).await.map_err(|full| {
            let mut problem = Problem::from(engine.no_room(tenant, full));
            problem.detail.push_str("; what came of the request is kept: ask for the execution");
            problem
        })?,
        None => account.hold(weight_bytes),
    };
    let bytes = serde_json::to_vec(&value()).map_err(|error| {
        Problem::from(EngineError::Internal(format!("write an answer as JSON: {error}")))
    })?;
    // Escapes may have taken more than the estimate.
    reservation.set(bytes.capacity());
    let body = Body::from(Bytes::from_owner(Reserved { bytes, reservation }));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}
