//! Running code and commands in a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use vivarium_api_types::{ApprovalRule, ApprovalSpec, CommandRequest, ExecuteRequest, Outcome};
use vivarium_client::Execution;
use vivarium_engine::{DEFAULT_TENANT, Engine, ExecutionHandle, ExecutionOptions, ResponseMode};

use super::events::{EmbeddedEvents, EventStream};
use super::{Target, client};
use crate::exit::Failure;

#[derive(Debug, Clone)]
pub(crate) enum ExecutionRequest {
    Code(Box<ExecuteRequest>),
    Command(Box<CommandRequest>),
}

impl ExecutionRequest {
    /// Sets variables for it alone.
    pub(crate) fn set_env(&mut self, env: BTreeMap<String, String>) {
        match self {
            Self::Code(request) => request.env = env,
            Self::Command(request) => request.env = env,
        }
    }

    /// Sets the rule for it alone.
    pub(crate) fn set_approval(&mut self, executions: Option<ApprovalRule>) {
        let approval = executions.map(|_| ApprovalSpec { executions, egress: None });
        match self {
            Self::Code(request) => request.approval = approval,
            Self::Command(request) => request.approval = approval,
        }
    }

    /// Has a context run it, if it is code.
    pub(crate) fn set_context(&mut self, context: Option<String>) {
        if let Self::Code(request) = self {
            request.context = context;
        }
    }

    /// The context that is to run it, unless that is the main one.
    pub(crate) fn context(&self) -> Option<&str> {
        match self {
            Self::Code(request) => request.context.as_deref(),
            Self::Command(_) => None,
        }
    }

    /// A request to run this code, with no options.
    #[cfg(test)]
    pub(crate) fn code(code: String) -> Self {
        Self::Code(Box::new(ExecuteRequest { code, ..ExecuteRequest::default() }))
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
            Self::Daemon(remote) => Ok(match &request {
                ExecutionRequest::Code(code) => {
                    client(remote).execute(session, code, create).await?
                }
                ExecutionRequest::Command(command) => {
                    client(remote).command(session, command).await?
                }
            }),
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
                let client = client(remote);
                let execution = match &request {
                    ExecutionRequest::Code(code) => {
                        Execution::of_code(client, session, code, create).await?
                    }
                    ExecutionRequest::Command(command) => {
                        Execution::of_command(client, session, command).await?
                    }
                };
                Ok(EventStream::Daemon(Box::new(execution)))
            }
        }
    }
}

impl Target {
    /// Starts a command in the background, and returns its id.
    pub(crate) async fn start_background(
        &self,
        session: &str,
        command: CommandRequest,
    ) -> Result<String, Failure> {
        match self {
            Self::Embedded(engine) => {
                let request = ExecutionRequest::Command(Box::new(command));
                let handle = start_embedded(engine, session, request, false, false).await?;
                Ok(handle.execution_id().unwrap_or_default())
            }
            Self::Daemon(remote) => {
                Ok(client(remote).start_background(session, &command).await?.execution_id)
            }
        }
    }

    /// Kills a command, if it runs.
    pub(crate) async fn kill(&self, session: &str, id: &str) {
        let killed = match self {
            Self::Embedded(engine) => {
                engine.signal(DEFAULT_TENANT, session, id, "KILL").await.map_err(Failure::from)
            }
            Self::Daemon(remote) => {
                client(remote).signal(session, id, "KILL").await.map_err(Failure::from)
            }
        };
        if let Err(failure) = killed {
            tracing::debug!(?failure, "the command was not killed");
        }
    }
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
            engine.start_code(DEFAULT_TENANT, session, *code, create, options).await
        }
        ExecutionRequest::Command(command) => {
            engine.start_command(DEFAULT_TENANT, session, *command, options).await
        }
    };
    Ok(handle?)
}
