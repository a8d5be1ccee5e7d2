//! The operations that only repl uses.

use vivarium_api_types::{CompleteReply, InspectReply, ProbeRequest};
use vivarium_client::Method;
use vivarium_engine::DEFAULT_TENANT;

use super::{Target, daemon, session_path};
use crate::exit::Failure;

impl Target {
    /// Gives a session a fresh kernel.
    pub(crate) async fn reset(&self, session: &str) -> Result<(), Failure> {
        match self {
            Self::Embedded(engine) => Ok(engine.reset(DEFAULT_TENANT, session).await.map(drop)?),
            Self::Daemon(remote) => daemon::act(remote, Method::POST, session, "/reset").await,
        }
    }

    /// Restarts a session's idle time.
    pub(crate) async fn keepalive(&self, session: &str) -> Result<(), Failure> {
        match self {
            Self::Embedded(engine) => Ok(engine.keepalive(DEFAULT_TENANT, session).map(drop)?),
            Self::Daemon(remote) => daemon::act(remote, Method::POST, session, "/keepalive").await,
        }
    }

    /// Completions at a position in code.
    pub(crate) async fn complete(
        &self,
        session: &str,
        request: ProbeRequest,
    ) -> Result<CompleteReply, Failure> {
        match self {
            Self::Embedded(engine) => Ok(engine.complete(DEFAULT_TENANT, session, request).await?),
            Self::Daemon(remote) => {
                daemon::post(remote, &format!("{}/complete", session_path(session)), &request).await
            }
        }
    }

    /// What the name at a position in code is.
    pub(crate) async fn inspect(
        &self,
        session: &str,
        request: ProbeRequest,
    ) -> Result<InspectReply, Failure> {
        match self {
            Self::Embedded(engine) => Ok(engine.inspect(DEFAULT_TENANT, session, request).await?),
            Self::Daemon(remote) => {
                daemon::post(remote, &format!("{}/inspect", session_path(session)), &request).await
            }
        }
    }
}
