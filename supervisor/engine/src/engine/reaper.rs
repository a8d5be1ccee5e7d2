//! Ending sessions that nobody uses any more, or that have lived as long as they may, and
//! forgetting results that were kept for long enough.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use vivarium_protocol::outcome::Cause;

use super::Inner;
use crate::observe::Observer;

/// Looks every `every`, as long as the engine is there.
pub(super) async fn run(engine: Weak<Inner>, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(engine) = engine.upgrade() else { return };
        engine.host.results.forget_expired();
        for session in engine.registry.all().into_iter().filter(|session| session.claim_expired()) {
            tracing::info!(session = session.identity.id, "reaping a session");
            Observer::of(&engine.host.metrics, &session.identity.tenant).session_reaped();
            // Each on its own: one that dies slowly must not keep the others alive.
            tokio::spawn(async move { session.close(Cause::Deleted).await });
        }
    }
}
