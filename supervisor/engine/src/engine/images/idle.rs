//! Suspending sessions that nobody uses, for room, as the daemon ends; and what becomes of them in time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::Engine;
use super::AT_ONCE;

/// How long it may take to suspend a session as the daemon ends.
const LAST_WITHIN: Duration = Duration::from_secs(60);

impl Engine {
    /// Suspends the session that nobody has used for longest, if that is long enough. Whether there was one.
    pub(in crate::engine) async fn make_room(&self) -> bool {
        let Some(after) = self.settings().images.suspend_for_room else { return false };
        let Ok(images) = self.images() else { return false };
        let mut sessions = self.inner.registry.all();
        sessions.retain(|session| session.template_memory().is_some());
        sessions.sort_by_cached_key(|session| session.last_used());
        for session in sessions {
            let (tenant, id) = (&session.identity.tenant, session.identity.id.clone());
            // Whoever asks may hold a place, and so must not wait for another.
            let Some(place) = images.try_hold(tenant, &id) else { continue };
            if !session.claim_unused(after) {
                continue;
            }
            match self.suspend_held(Arc::clone(&images), session, place).await {
                Ok(_) => return true,
                Err(error) => tracing::info!(session = id, %error, "unused, and not suspended"),
            }
        }
        false
    }

    /// Suspends what can be, as the daemon ends; what can not be is ended after this.
    pub(in crate::engine) async fn suspend_all(&self) {
        if self.inner.host.images.is_err() {
            return;
        }
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut suspending = JoinSet::new();
        for session in self.inner.registry.all() {
            let (engine, turns) = (self.clone(), Arc::clone(&turns));
            suspending.spawn(async move {
                let turn = turns.acquire().await;
                let id = session.identity.id.clone();
                if session.template_memory().is_none() {
                    return;
                }
                match timeout(LAST_WITHIN, engine.suspend_session(session)).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => {
                        tracing::warn!(session = id, %error, "not suspended, and ended");
                    }
                    Err(_) => tracing::warn!(session = id, "not suspended in time, and ended"),
                }
                drop(turn);
            });
        }
        while suspending.join_next().await.is_some() {}
    }

    /// Suspends sessions that nobody has used for a while, and removes images whose time is over.
    pub(in crate::engine) fn tend_images(&self) {
        let Ok(images) = &self.inner.host.images else { return };
        let settings = self.settings();
        for (tenant, id) in images.expired(settings.images.expire_after) {
            let engine = self.clone();
            tokio::spawn(async move {
                tracing::info!(tenant, session = id, "a suspended session has expired");
                engine.delete_image(&tenant, &id, "expired").await;
            });
        }
        for (tenant, id) in images.checkpoints.sessions() {
            if self.exists(&tenant, &id).is_err() && images.try_hold(&tenant, &id).is_some() {
                images.checkpoints.end(&tenant, &id);
            }
        }
        if self.is_draining() {
            return;
        }
        let engine = self.clone();
        tokio::spawn(async move { engine.end_unused_templates().await });
        let Some(after) = settings.images.suspend_after else { return };
        for session in self.inner.registry.all() {
            if session.template_memory().is_some() && session.claim_unused(after) {
                let engine = self.clone();
                tokio::spawn(async move {
                    let id = session.identity.id.clone();
                    if let Err(error) = engine.suspend_session(session).await {
                        tracing::info!(session = id, %error, "unused, and not suspended");
                    }
                });
            }
        }
    }
}
