//! What makes sessions: something that gives a stream which speaks the agent's protocol.
//!
//! One file per backend. The session's code knows streams and frames only, so that another
//! kind of sandbox can stand behind it.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::process::Child;

use vivarium_protocol::policy::Policy;

use self::fork_server::Forked;
use self::ids::{IdPool, Lease};

#[cfg(any(test, feature = "testing"))]
pub(crate) mod fake;
pub mod fork_server;
pub mod id_namespace;
pub mod ids;
pub mod inspect;
pub mod linux;
pub mod program;
mod spare;
pub mod wasm;

pub trait Backend: std::fmt::Debug + Send + Sync {
    /// Whether this backend can work here at all.
    fn probe(&self) -> Result<(), LaunchError>;

    /// Starts a session. It does not wait for it: the session's first message tells how it went.
    fn launch(&self, spec: LaunchSpec) -> Later<'_, Result<Launched, LaunchError>>;

    /// Starts what makes the namespace of the subordinate ids ([`id_namespace`]), without waiting for it;
    /// `None` if this backend needs none.
    fn id_namespace(&self) -> Result<Option<Launched>, LaunchError>;

    /// Starts what works on one home or volume ([`crate::stores`]), without waiting for it; `None` if this
    /// backend has no such thing.
    fn storage(&self) -> Result<Option<Launched>, LaunchError>;

    /// Starts a template, for the log by this name, without waiting for it; `None` if this backend
    /// has none.
    fn template(&self, environment: &str) -> Result<Option<TemplateParts>, LaunchError>;

    /// Ends what it has started for sessions that are yet to come, of which there will be none.
    fn stop(&self) -> Later<'_, ()> {
        Box::pin(async {})
    }

    /// Ends what one of the others started, and returns when its outermost process is gone: whether
    /// it is certain that all the others are too.
    fn kill(&self, launched: Launched) -> Later<'static, bool>;
}

/// What a trait's async function gives, where the trait is used as an object.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a backend needs to know, besides the policy that goes over the stream.
#[derive(Debug)]
pub struct LaunchSpec {
    pub session_id: String,
    /// What the session's policy will be, but for its ids, variables and cgroup.
    pub policy: Policy,
    /// Where its ids come from, if it has some.
    pub ids: Option<Arc<IdPool>>,
}

#[derive(Debug)]
pub struct Launched {
    pub stream: Option<UnixStream>,
    pub outermost: Option<Outermost>,
    /// The ids that it has already.
    pub lease: Option<Lease>,
}

impl Launched {
    /// Waits until its outermost process is there; whether it is.
    pub async fn begun(&mut self) -> bool {
        match &mut self.outermost {
            Some(Outermost::Forked(launcher)) => launcher.begun().await,
            Some(Outermost::Executed(_)) | None => true,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Executed {
    stream: UnixStream,
    child: Child,
}

/// A child of ours, by how it came about.
#[derive(Debug)]
pub enum Outermost {
    Executed(Child),
    Forked(Forked),
}

#[derive(Debug)]
pub struct TemplateParts {
    pub launched: Launched,
    pub library: OwnedFd,
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("make a socket pair for the agent")]
    Socket(#[source] std::io::Error),
    #[error("ask the fork server for a launcher")]
    Ask(#[source] std::io::Error),
    #[error("execute {}", path.display())]
    Execute {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}
