//! The operations that only repl uses.

use vivarium_api_types::{
    AssistReply, BranchRequest, Checkpoint, CheckpointRequest, ResetReply, RollbackRequest,
    SessionInfo,
};
use vivarium_engine::DEFAULT_TENANT;

use super::{Target, client};
use crate::exit::{Exit, Failure};

impl Target {
    /// Gives a context a fresh kernel, by default the main one.
    pub(crate) async fn reset(
        &self,
        session: &str,
        context: Option<&str>,
    ) -> Result<ResetReply, Failure> {
        Ok(match self {
            Self::Embedded(engine) => {
                engine.reset(DEFAULT_TENANT, session, context.map(str::to_owned)).await?
            }
            Self::Daemon(remote) => match context {
                None => client(remote).reset(session).await?,
                Some(context) => client(remote).reset_context(session, context).await?,
            },
        })
    }

    /// Restarts a session's idle time.
    pub(crate) async fn keepalive(&self, session: &str) -> Result<(), Failure> {
        match self {
            Self::Embedded(engine) => Ok(engine.keepalive(DEFAULT_TENANT, session).map(drop)?),
            Self::Daemon(remote) => Ok(client(remote).keepalive(session).await.map(drop)?),
        }
    }

    /// Suspends a session of a daemon.
    pub(crate) async fn suspend(&self, session: &str) -> Result<SessionInfo, Failure> {
        match self {
            Self::Embedded(_) => Err(needs_daemon("a session that is to be suspended")),
            Self::Daemon(remote) => Ok(client(remote).suspend_session(session).await?),
        }
    }

    /// Makes sessions from the state of one of a daemon.
    pub(crate) async fn branch(
        &self,
        session: &str,
        count: u32,
    ) -> Result<Vec<SessionInfo>, Failure> {
        match self {
            Self::Embedded(_) => Err(needs_daemon("a session that is to be branched")),
            Self::Daemon(remote) => Ok(client(remote)
                .branch_session(session, &BranchRequest { count, checkpoint: None })
                .await?
                .sessions),
        }
    }

    /// Keeps what a session of a daemon is now, to go back to.
    pub(crate) async fn make_checkpoint(
        &self,
        session: &str,
        name: Option<&str>,
    ) -> Result<Checkpoint, Failure> {
        let request = CheckpointRequest { name: name.map(str::to_owned) };
        match self {
            Self::Embedded(_) => Err(needs_daemon("a session that is to have checkpoints")),
            Self::Daemon(remote) => Ok(client(remote).make_checkpoint(session, &request).await?),
        }
    }

    /// The checkpoints of a session of a daemon, the oldest first.
    pub(crate) async fn checkpoints(&self, session: &str) -> Result<Vec<Checkpoint>, Failure> {
        match self {
            Self::Embedded(_) => Err(needs_daemon("a session that is to have checkpoints")),
            Self::Daemon(remote) => Ok(client(remote).list_checkpoints(session).await?.checkpoints),
        }
    }

    /// Has a session of a daemon be what it was at a checkpoint.
    pub(crate) async fn roll_back(
        &self,
        session: &str,
        checkpoint: &str,
    ) -> Result<SessionInfo, Failure> {
        let request = RollbackRequest { checkpoint: checkpoint.to_owned() };
        match self {
            Self::Embedded(_) => Err(needs_daemon("a session that is to be rolled back")),
            Self::Daemon(remote) => Ok(client(remote).roll_back(session, &request).await?),
        }
    }

    /// Asks a session's kernel about code.
    pub(crate) async fn assist<T: AssistReply>(
        &self,
        session: &str,
        request: T::Request,
    ) -> Result<T, Failure> {
        match self {
            Self::Embedded(engine) => Ok(engine.assist(DEFAULT_TENANT, session, request).await?),
            Self::Daemon(remote) => Ok(client(remote).assist(session, &request).await?),
        }
    }
}

/// An embedded session ends with this program, and nothing else reaches it.
fn needs_daemon(what: &str) -> Failure {
    Failure::says(Exit::Usage, format!("{what} needs a daemon: --url or VIVARIUM_URL"))
}
