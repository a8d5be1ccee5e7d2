//! Responses that may be large, whose bytes count towards the tenant's budget until they are sent.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use vivarium_engine::budget::{Reservation, Reserved};
use vivarium_engine::{Engine, EngineError};

use super::Problem;
use crate::off_thread::by_size;

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
    value: impl FnOnce() -> T + Send + 'static,
) -> Result<Response, Problem> {
    let mut reservation = room(engine, tenant, weight_bytes).await?;
    let write = move || {
        let written = serde_json::to_vec(&value());
        // Escapes may have taken more than the estimate.
        reservation.set(written.as_ref().map_or(0, Vec::capacity));
        (written, reservation)
    };
    let (written, reservation) = by_size(weight_bytes, write).await;
    let bytes = written.map_err(|error| {
        Problem::from(EngineError::Internal(format!("write an answer as JSON: {error}")))
    })?;
    Ok(([(header::CONTENT_TYPE, "application/json")], reserved(bytes, reservation)).into_response())
}

/// Room in the tenant's budget for a response. A large one waits for it.
pub(super) async fn room(
    engine: &Engine,
    tenant: &str,
    bytes: usize,
) -> Result<Reservation, Problem> {
    let account = engine.account(tenant);
    if bytes <= LARGE_BYTES {
        return Ok(account.hold(bytes));
    }
    account.take_within(bytes, ROOM_WITHIN).await.map_err(|full| {
        let mut problem = Problem::from(engine.no_room(tenant, full));
        let kept = "what came of the request is kept: ask for the execution";
        problem.detail = format!("{}; {kept}", problem.detail).into();
        problem
    })
}

/// A body whose bytes count until they are sent.
pub(super) fn reserved(bytes: Vec<u8>, reservation: Reservation) -> Body {
    Body::from(Bytes::from_owner(Reserved { bytes, reservation }))
}
