//! Assistance with code that is being typed.

use vivarium_api_types::{CompleteReply, InspectReply, ProbeRequest};
use vivarium_engine::DEFAULT_TENANT;

use super::{Target, daemon, engine_failure, session_path};
use crate::exit::Failure;

impl Target {
    /// Completions at a position in code.
    pub(crate) async fn complete(
        &self,
        session: &str,
        request: ProbeRequest,
    ) -> Result<CompleteReply, Failure> {
        match self {
            Self::Embedded(engine) => engine
                .complete(DEFAULT_TENANT, session, request)
                .await
                .map_err(|e| engine_failure(&e)),
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
            Self::Embedded(engine) => engine
                .inspect(DEFAULT_TENANT, session, request)
                .await
                .map_err(|e| engine_failure(&e)),
            Self::Daemon(remote) => {
                daemon::post(remote, &format!("{}/inspect", session_path(session)), &request).await
            }
        }
    }
}
