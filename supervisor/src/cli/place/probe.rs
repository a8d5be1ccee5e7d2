//! Questions about code that is being typed.

use hyper::Method;

use super::{Place, refused, session_path, unanswered};
use crate::cli::exit::Failure;
use crate::client::Client;
use crate::engine::DEFAULT_TENANT;
use crate::engine::types::{CompleteReply, InspectReply, ProbeRequest};

impl Place {
    /// What could follow at a place in code.
    pub(in crate::cli) async fn complete(
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
    pub(in crate::cli) async fn inspect(
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
