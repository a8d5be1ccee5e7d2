//! Running code and commands in a session.

use std::sync::Arc;

use vivarium_api_types::{CommandRequest, ExecuteRequest, Outcome};
use vivarium_client::{ApiRequest, Client, Execution, Method};
use vivarium_engine::{DEFAULT_TENANT, Engine, ExecutionHandle, ExecutionOptions, ResponseMode};

use super::events::{EmbeddedEvents, EventStream};
use super::{Target, session_path};
use crate::exit::{Exit, Failure};

#[derive(Debug, Clone)]
pub(crate) enum ExecutionRequest {
    Code(ExecuteRequest),
    Command(CommandRequest),
}

impl ExecutionRequest {
    /// A request to run this code, with no options.
    #[cfg(test)]
    pub(crate) fn code(code: String) -> Self {
        Self::Code(ExecuteRequest { code, ..ExecuteRequest::default() })
    }

    /// The last component of its path.
    const fn route(&self) -> &'static str {
        match self {
            Self::Code(_) => "execute",
            Self::Command(_) => "commands",
        }
    }

    fn json(&self) -> Result<Vec<u8>, serde_json::Error> {
        match self {
            Self::Code(code) => serde_json::to_vec(code),
            Self::Command(command) => serde_json::to_vec(command),
        }
    }
}

impl Target {
    /// Runs code or a command in a session, and returns its outcome as a whole.
    pub(crate) async fn execute(
        &self,
        session: &str,
        request: ExecutionRequest,
        create: bool,
    ) -> Result<Outcome, Failure> {
        match self {
            Self::Embedded(engine) => {
                let ticket = start_embedded(engine, session, request, create, false).await?;
                Ok(Arc::unwrap_or_clone(ticket.outcome().await?))
            }
            Self::Daemon(remote) => {
                let (path, body) = daemon_request(session, &request, create)?;
                let mut client = Client::new(remote.clone());
                let answer =
                    client.call(ApiRequest::new(Method::POST, &path).json_bytes(body)).await;
                Ok(answer?)
            }
        }
    }

    /// Starts an execution in a session, which is created first if `create` says so and it does not
    /// exist.
    pub(crate) async fn start(
        &self,
        session: &str,
        request: ExecutionRequest,
        create: bool,
    ) -> Result<EventStream, Failure> {
        match self {
            Self::Embedded(engine) => {
                let ticket = start_embedded(engine, session, request, create, true).await?;
                let events = EmbeddedEvents::new(engine, ticket)?;
                Ok(EventStream::Embedded(Box::new(events)))
            }
            Self::Daemon(remote) => {
                let (path, body) = daemon_request(session, &request, create)?;
                let execution = Execution::start(Client::new(remote.clone()), path, body).await?;
                Ok(EventStream::Daemon(Box::new(execution)))
            }
        }
    }
}

/// The path and the body of the request that starts an execution.
fn daemon_request(
    session: &str,
    request: &ExecutionRequest,
    create: bool,
) -> Result<(String, Vec<u8>), Failure> {
    let query = if create { "?create=true" } else { "" };
    let path = format!("{}/{}{query}", session_path(session), request.route());
    let body = request.json().map_err(|error| Failure::new(Exit::Error, &error))?;
    Ok((path, body))
}

async fn start_embedded(
    engine: &Engine,
    session: &str,
    request: ExecutionRequest,
    create: bool,
    streamed: bool,
) -> Result<ExecutionHandle, Failure> {
    let response = if streamed { ResponseMode::Events(None) } else { ResponseMode::Outcome };
    let options = ExecutionOptions { response, ..ExecutionOptions::default() };
    let handle = match request {
        ExecutionRequest::Code(code) => {
            engine.start_code(DEFAULT_TENANT, session, code, create, options).await
        }
        ExecutionRequest::Command(command) => {
            engine.start_command(DEFAULT_TENANT, session, command, options).await
        }
    };
    Ok(handle?)
}
