//! Changing a session while it lives: all of a patch, or nothing.

use std::sync::Arc;

use vivarium_api_types::{SessionInfo, SessionPatch};
use vivarium_protocol::error_chain;
use vivarium_protocol::policy::Limits;

use super::{Engine, EngineError, request};
use crate::cgroup::{LowerError, Scope};
use crate::session::Session;

impl Engine {
    /// Changes a session, and returns it when everything holds. It counts as a use.
    pub async fn adjust(
        &self,
        tenant: &str,
        id: &str,
        patch: SessionPatch,
    ) -> Result<SessionInfo, EngineError> {
        let (engine, session) = (self.clone(), self.find(tenant, id)?);
        // A task: if the caller goes away, what has begun is still finished.
        let task = tokio::spawn(async move { engine.adjust_session(&session, patch).await });
        task.await.unwrap_or_else(|error| Err(EngineError::Internal(error.to_string())))
    }

    async fn adjust_session(
        &self,
        session: &Session,
        patch: SessionPatch,
    ) -> Result<SessionInfo, EngineError> {
        // Until then the limits that it was made with are still being set.
        session.started().await.map_err(EngineError::NotStarted)?;
        let turn = session.adjusting().await;
        let (old, scope) = (session.adjustable(), session.scope());
        let held = scope.as_deref().map(Scope::holds).unwrap_or_default();
        let before = Arc::clone(&old.limits);
        let settings = self.settings_of(&session.identity.tenant);
        let new = request::patched(&settings, session.created_at(), old, &held, patch)?;
        if let Some(scope) = scope
            && before != new.limits
            && let Err(error) = lower(scope, before, Arc::clone(&new.limits)).await
        {
            // Its cgroup goes with it.
            return Err(if session.is_closed() {
                EngineError::UnknownSession(session.identity.id.clone())
            } else {
                error
            });
        }
        session.adjust(new);
        session.touch();
        drop(turn);
        self.inner.deadlines.notify_one();
        Ok(self.info(session))
    }
}

/// Waits in a thread of its own for the kernel to reclaim memory.
async fn lower(scope: Arc<Scope>, from: Arc<Limits>, to: Arc<Limits>) -> Result<(), EngineError> {
    let lowering = tokio::task::spawn_blocking(move || scope.lower(&from, &to));
    match lowering.await.map_err(|error| EngineError::Internal(error.to_string()))? {
        Ok(()) => Ok(()),
        Err(LowerError::InUse { limit, used, wanted }) => {
            let reason = format!("the session uses {used} now, more than {wanted}");
            Err(EngineError::LimitInUse { limit, reason })
        }
        Err(LowerError::Cgroup(error)) => {
            tracing::warn!(error = error_chain(&error), "limits were not lowered");
            Err(EngineError::Internal("the limits could not be lowered, and are as before".into()))
        }
    }
}
