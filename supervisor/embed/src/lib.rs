//! Sandboxed Python in a program of your own: a policy built in code, sessions, and no HTTP.
//!
//! ```no_run
//! use vivarium_embed::{Policy, Sandbox};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::start(Policy::new().memory_mb(512)).await?;
//! let session = sandbox.session().await?;
//! session.execute("total = sum(range(10))").await?;
//! let outcome = session.execute("total").await?;
//! assert_eq!(outcome.result.as_ref().map(|value| value.repr.as_str()), Some("45"));
//! sandbox.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! A session has the same layers, limits and outcomes as one of the daemon. The program
//! `vivarium-agent` and its library have to be beside this program, or where `VIVARIUM_AGENT` says.
//! This crate's names stay what they are within a minor version; those of `vivarium-engine`, which
//! [`Sandbox::engine`] and [`Policy::adjust`] give, may change with each.

#![forbid(unsafe_code)]

mod policy;
mod session;

use std::sync::Arc;
use std::time::Duration;

use nix::unistd::Uid;
pub use vivarium_api_types::{
    CallAnswer, CallError, CallInfo, CommandRequest, ExecuteRequest, JsonText, Outcome,
    SessionInfo, SessionSpec, ToolSpec,
};
use vivarium_config::ConfigErrors;
pub use vivarium_engine::EngineError;
use vivarium_engine::{DEFAULT_TENANT, Engine};
use vivarium_privilege::PrivilegeError;
pub use vivarium_protocol::outcome::{State, Status};
pub use vivarium_protocol::policy::Network;

pub use policy::{Policy, PolicyError};
pub use session::{Session, SessionError};

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Root is given up before there are threads, which a program with a runtime has.
    #[error("this program runs as root, and sessions never do: start it as an ordinary user")]
    Root,
    /// What the policy asks for cannot be.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The defaults of this host could not be found out.
    #[error(transparent)]
    Defaults(#[from] ConfigErrors),
    /// The agent or a directory is missing.
    #[error(transparent)]
    Prepare(#[from] PrivilegeError),
    /// The host lacks a layer that the policy requires, or no interpreter can be used.
    #[error(transparent)]
    Engine(#[from] vivarium_engine::StartError),
}

/// Sessions of this program. Clones are the same.
#[derive(Debug, Clone)]
pub struct Sandbox {
    engine: Engine,
}

impl Sandbox {
    /// Prepares what sessions start from. This process becomes one that others of its user may not trace
    /// (`PR_SET_DUMPABLE(2const)`), and has its soft limit of descriptors raised to the hard one.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left then.
    pub async fn start(policy: Policy) -> Result<Self, StartError> {
        if Uid::effective().is_root() {
            return Err(StartError::Root);
        }
        let mut settings = policy.settings()?;
        vivarium_privilege::prepare(&mut settings)?;
        Ok(Self { engine: Engine::start(Arc::new(settings)).await? })
    }

    /// Makes a session, and returns when its kernel is ready.
    ///
    /// # Errors
    /// [`EngineError`] if the host has no room, or a layer could not be enforced.
    pub async fn session(&self) -> Result<Session, EngineError> {
        self.session_with(SessionSpec::default()).await
    }

    /// Makes a session with an id, limits or variables of its own. It can only be tighter than the policy.
    ///
    /// # Errors
    /// The same, and [`EngineError::Invalid`] for what the policy does not allow.
    pub async fn session_with(&self, spec: SessionSpec) -> Result<Session, EngineError> {
        let info = self.engine.create(DEFAULT_TENANT, spec).await?;
        Ok(Session::new(self.engine.clone(), info))
    }

    /// The engine, for what this crate has no name for. Its tenant is [`DEFAULT_TENANT`].
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Ends all sessions, and returns when nothing is left of them. A program that ends without this
    /// leaves no process behind either, since sessions end with their supervisor.
    pub async fn stop(self) {
        self.engine.shutdown(Duration::ZERO).await;
    }
}
