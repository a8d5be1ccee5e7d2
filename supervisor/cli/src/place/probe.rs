//! Questions about code that is being typed.

use vivarium_api_types::{CompleteReply, InspectReply, ProbeRequest};
use vivarium_client::{Client, Method};
use vivarium_engine::DEFAULT_TENANT;

use super::{Place, refused, session_path, unanswered};
use crate::exit::Failure;

impl Place {
    /// What could follow at a place in code.
    pub(crate) async fn complete(
        &self,
        session: &str,
        request: ProbeRequest,
    ) -> Result<CompleteReply, Failure> {
        match self {
            Self::Embedded(engine) => {
                engine.complete(DEFAULT_TENANT, session, request).await.map_err(|e| refused(&e))
            }
            Self::Daemon(remote) => {
                let path = format!("{}/complete", session_path(session));
                let mut client = Client::new(remote.clone());
                let answer = client.json(Method::POST, &path, Some(&request)).await;
                answer.map_err(|error| unanswered(&error))
            }
        }
    }

    /// What stands at a place in code.
    pub(crate) async fn inspect(
        &self,
        session: &str,
        request: ProbeRequest,
    ) -> Result<InspectReply, Failure> {
        match self {
            Self::Embedded(engine) => {
                engine.inspect(DEFAULT_TENANT, session, request).await.map_err(|e| refused(&e))
            }
            Self::Daemon(remote) => {
                let path = format!("{}/inspect", session_path(session));
                let mut client = Client::new(remote.clone());
                let answer = client.json(Method::POST, &path, Some(&request)).await;
                answer.map_err(|error| unanswered(&error))
            }
        }
    }
}
