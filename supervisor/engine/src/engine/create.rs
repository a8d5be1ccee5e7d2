//! Making a session, and ending one that nobody was told of.
//!
//! The only name of a session without an id of the client's choice is in the answer. If the client
//! goes away before that, nobody can find the session, and it must not stay.

use std::sync::Arc;

use tokio::runtime::Handle;
use vivarium_api_types::{SessionInfo, SessionSpec};
use vivarium_protocol::outcome::Cause;

use super::execute::Claimed;
use super::idempotency::{IdempotencyKey, Product};
use super::{Engine, EngineError};
use crate::session::Session;

#[derive(Debug)]
pub struct Created {
    pub info: SessionInfo,
    /// Whether an earlier request with the same key made it.
    pub is_replay: bool,
    pub undelivered: Undelivered,
}

impl Engine {
    /// Makes a session, and returns when its kernel is ready.
    pub async fn create(
        &self,
        tenant: &str,
        spec: SessionSpec,
    ) -> Result<SessionInfo, EngineError> {
        let Created { info, undelivered, .. } = self.create_once(tenant, spec, None).await?;
        undelivered.delivered();
        Ok(info)
    }

    /// Makes a session unless an earlier request with the same key has, and returns when its
    /// kernel is ready. Dropped before that, it ends the session, unless the client can name it: by
    /// an id of its own, or by sending the same key again.
    pub async fn create_once(
        &self,
        tenant: &str,
        spec: SessionSpec,
        key: Option<IdempotencyKey>,
    ) -> Result<Created, EngineError> {
        let slot = match self.claim(tenant, key).await? {
            Claimed::First(slot) => slot,
            Claimed::Again(Product::Session(session)) => {
                started(&session).await?;
                let undelivered = Undelivered(None);
                return Ok(Created { info: self.info(&session), is_replay: true, undelivered });
            }
            Claimed::Again(Product::Execution(_)) => return Err(EngineError::KeyReused),
        };
        let can_be_named = spec.id.is_some() || slot.is_some();
        let session = self
            .add(tenant, spec)
            .await?
            .map_err(|existing| EngineError::Conflict(existing.identity.id.clone()))?;
        if let Some(slot) = slot {
            slot.made(&session);
        }
        let undelivered = Undelivered((!can_be_named).then(|| Arc::clone(&session)));
        match started(&session).await {
            Ok(()) => Ok(Created { info: self.info(&session), is_replay: false, undelivered }),
            Err(error) => {
                undelivered.delivered(); // It is gone.
                Err(error)
            }
        }
    }
}

async fn started(session: &Session) -> Result<(), EngineError> {
    if let Err(failure) = session.started().await {
        session.gone().await;
        return Err(EngineError::NotStarted(failure));
    }
    Ok(())
}

/// A session whose client does not know its name yet, if it is one. Dropped, it is ended.
#[derive(Debug)]
pub struct Undelivered(Option<Arc<Session>>);

impl Undelivered {
    /// The client has the answer.
    pub fn delivered(mut self) {
        self.0 = None;
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        let Some(session) = self.0.take() else { return };
        // Without a runtime the engine is at its end, and with it all sessions.
        let Ok(runtime) = Handle::try_current() else { return };
        let id = session.identity.id.as_str();
        tracing::info!(session = id, "ended: its client went away before the answer");
        runtime.spawn(async move { session.close(Cause::Deleted).await });
    }
}
