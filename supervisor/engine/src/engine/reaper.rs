//! Ending sessions that nobody uses any more, or that have lived as long as they may, and
//! forgetting results that were kept for long enough.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use vivarium_protocol::outcome::Cause;

use super::{Engine, EngineError, Inner};
use crate::session::Session;

/// The least time between two looks, unless somebody asks for one.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl Engine {
    /// Suspends a session that nobody uses any more, where that is wanted and can be, or ends it.
    async fn reap(self, session: Arc<Session>) {
        let id = &*session.identity.id;
        let can_be_spared =
            self.settings().images.suspend_expired && session.template_memory().is_some();
        if can_be_spared && session.spare() {
            match self.suspend_session(Arc::clone(&session)).await {
                // Or somebody else suspends it.
                Ok(_) | Err(EngineError::Suspended(_)) => return,
                Err(error) => tracing::info!(session = id, %error, "expired, and not suspended"),
            }
            // It may have been used again meanwhile.
            if !session.claim_expired() {
                return;
            }
        }
        tracing::info!(session = id, "reaping a session");
        self.inner.host.observer(&session.identity.tenant).session_reaped();
        session.close(Cause::Expired).await;
    }
}

/// Looks every `every`, and at each session's deadline, as long as the engine is there. `deadlines`
/// tells that there may be an earlier one.
pub(super) async fn run(engine: Weak<Inner>, every: Duration, deadlines: Arc<Notify>) {
    loop {
        let Some(engine) = engine.upgrade() else { return };
        engine.host.results.forget_expired();
        let is_due = |session: &Arc<Session>| {
            // Whoever follows a process in the background uses its session.
            if session.is_unused() && engine.host.results.is_followed(&session.identity) {
                session.touch();
            }
            session.claim_expired()
        };
        for session in engine.registry.all().into_iter().filter(is_due) {
            // Each on its own: one that dies slowly must not keep the others alive.
            tokio::spawn(Engine { inner: Arc::clone(&engine) }.reap(session));
        }
        Engine { inner: Arc::clone(&engine) }.tend_images();
        // One that has passed is being reaped; a moment more spares one that is about to.
        let (usual, soonest) = (Instant::now() + every, Instant::now() + LOOK_AGAIN);
        let first = engine.registry.all().iter().filter_map(|session| session.deadline()).min();
        let next = first.map_or(usual, |at| at.clamp(soonest, usual.max(soonest)));
        drop(engine);
        tokio::select! {
            () = sleep_until(next) => {}
            () = deadlines.notified() => {}
        }
    }
}
