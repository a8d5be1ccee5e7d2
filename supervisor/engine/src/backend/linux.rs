//! Sessions made by `vivarium-agent launch` from the kernel's own mechanisms.
//!
//! No process of the agent's is forked from this one: a fork between tokio's threads can hang on a
//! lock that another thread held. What is executed gets one end of a socket pair as its standard
//! input and nothing else of ours: std opens every descriptor close-on-exec, and the environment is
//! empty. A launcher is forked from such a process ([`super::fork_server`]), and is handed one.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use vivarium_protocol::discard;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, encode};
use vivarium_protocol::message::LaunchOrder;

use super::fork_server::{self, ForkServer, Forked};
use super::spare::{Prepared, Spare};
use super::{
    Backend, Executed, Later, LaunchError, LaunchSpec, Launched, Outermost, TemplateParts,
};
use crate::settings::AgentBinary;

/// How long the launcher may take to follow its session's end before it is killed.
const FOLLOW_WITHIN: Duration = Duration::from_secs(2);

/// Bytes of a session's standard error that are logged; the rest is read and dropped.
const MAX_LOGGED_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub struct Linux(Arc<Launchers>);

/// What makes launchers.
#[derive(Debug)]
pub(super) struct Launchers {
    agent: AgentBinary,
    fork_server: ForkServer,
    pub(super) spare: Spare,
}

/// A launcher that waits for its session's policy.
#[derive(Debug)]
pub(super) struct ForkedLauncher {
    stream: UnixStream,
    stderr: pipe::Receiver,
    forked: Forked,
}

impl ForkedLauncher {
    /// Sends it an order before it has a session.
    pub(super) async fn ordered(
        mut self,
        order: &LaunchOrder,
        given: &[OwnedFd],
    ) -> io::Result<Self> {
        if !self.forked.begun().await {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let order = encode(order, MAX_FRAME_BYTES)?;
        fork_server::send(&self.stream, &order, given).await?;
        Ok(self)
    }

    /// Has it look at the host for what it has prepared, while the session is equipped.
    fn check_host(&self) {
        let order = encode(&LaunchOrder::Check, MAX_FRAME_BYTES).map_err(io::Error::from);
        let sent = order.and_then(|order| self.stream.try_write(&order));
        discard(sent, "it looks later, or is found to have ended by the order that follows");
    }

    /// Whether it has not ended.
    pub(super) fn runs(&self) -> bool {
        self.forked.runs()
    }

    /// Returns when nothing of it is left: whether that is certain.
    pub(super) async fn end(self) -> bool {
        drop(self.stream);
        self.forked.follow(FOLLOW_WITHIN).await
    }
}

impl Linux {
    pub fn new(agent: AgentBinary) -> Self {
        let (fork_server, spare) = (ForkServer::default(), Spare::default());
        let launchers = Arc::new(Launchers { agent, fork_server, spare });
        launchers.spare.keep(Arc::downgrade(&launchers));
        Self(launchers)
    }
}

impl Launchers {
    pub(super) async fn fork(&self) -> Result<ForkedLauncher, LaunchError> {
        let (stream, theirs) = pair()?;
        let (sender, stderr) = pipe::pipe().map_err(LaunchError::Socket)?;
        let sender = sender.into_blocking_fd().map_err(LaunchError::Socket)?;
        let start = || self.start("launch", "fork server".to_owned());
        let forked = self.fork_server.fork(start, theirs, sender).await?;
        Ok(ForkedLauncher { stream, stderr, forked })
    }

    /// Starts the agent's program with this command; `whose` it is, for the log.
    fn start(&self, command: &str, whose: String) -> Result<Executed, LaunchError> {
        let (ours, theirs) = pair()?;
        let mut child = Command::new(self.agent.exec_path())
            .arg(command)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal of an embedded supervisor is for the supervisor alone.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(self.failed())?;
        if let Some(stderr) = child.stderr.take() {
            let pipe = stderr.into_owned_fd().and_then(pipe::Receiver::from_owned_fd);
            let pipe = pipe.map_err(LaunchError::Socket)?;
            tokio::spawn(log_stderr(pipe, whose));
        }
        Ok(Executed { stream: ours, child })
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> LaunchError {
        let path: PathBuf = self.agent.path.clone();
        move |source| LaunchError::Execute { path, source }
    }
}

impl Backend for Linux {
    fn probe(&self) -> Result<(), LaunchError> {
        std::fs::metadata(self.0.agent.exec_path()).map(|_| ()).map_err(self.0.failed())
    }

    fn launch(&self, spec: LaunchSpec) -> Later<'_, Result<Launched, LaunchError>> {
        Box::pin(async move {
            let (launcher, lease) = match self.0.spare.take(&spec) {
                Some(Prepared { launcher, lease, .. }) => {
                    launcher.check_host();
                    (launcher, lease)
                }
                None => (self.0.fork().await?, None),
            };
            let ForkedLauncher { stream, stderr, forked } = launcher;
            tokio::spawn(log_stderr(stderr, spec.session_id));
            let outermost = Some(Outermost::Forked(forked));
            Ok(Launched { stream: Some(stream), outermost, lease })
        })
    }

    fn id_namespace(&self) -> Result<Option<Launched>, LaunchError> {
        self.0
            .start("range", "range of subordinate ids".to_owned())
            .map(|started| Some(started.into()))
    }

    fn storage(&self) -> Result<Option<Launched>, LaunchError> {
        self.0.start("storage", "storage".to_owned()).map(|started| Some(started.into()))
    }

    fn template(&self, environment: &str) -> Result<Option<TemplateParts>, LaunchError> {
        let Some(library) = &self.0.agent.library else { return Ok(None) };
        let library = library.try_clone().map_err(LaunchError::Socket)?;
        let started = self.0.start("template", format!("template {environment}"))?;
        Ok(Some(TemplateParts { launched: started.into(), library }))
    }

    fn stop(&self) -> Later<'_, ()> {
        Box::pin(self.0.spare.stop())
    }

    fn kill(&self, mut launched: Launched) -> Later<'static, bool> {
        Box::pin(async move {
            // End of file ends the agent, with it its pid namespace, and then the launcher.
            drop(launched.stream.take());
            match launched.outermost.take() {
                Some(Outermost::Forked(launcher)) => launcher.follow(FOLLOW_WITHIN).await,
                Some(Outermost::Executed(child)) => {
                    follow(child).await;
                    true
                }
                None => true,
            }
        })
    }
}

impl From<Executed> for Launched {
    fn from(Executed { stream, child }: Executed) -> Self {
        let outermost = Some(Outermost::Executed(child));
        Self { stream: Some(stream), outermost, lease: None }
    }
}

/// Returns when it has ended, which it was given a reason for before.
async fn follow(mut child: Child) {
    if timeout(FOLLOW_WITHIN, child.wait()).await.is_ok() {
        return;
    }
    tracing::warn!("a process did not follow the end of its socket: killing it");
    if let Err(error) = child.kill().await {
        tracing::error!(%error, "a process could not be killed");
    }
}

/// Our end of a socket, and one for a process that reads and writes it blocking, or polls; that is
/// its own decision to make.
fn pair() -> Result<(UnixStream, OwnedFd), LaunchError> {
    let (ours, theirs) = UnixStream::pair().map_err(LaunchError::Socket)?;
    let theirs = theirs.into_std().map_err(LaunchError::Socket)?;
    theirs.set_nonblocking(false).map_err(LaunchError::Socket)?;
    Ok((ours, theirs.into()))
}

/// Logs what launcher and agent say outside the protocol, until all who could have exited.
async fn log_stderr(pipe: pipe::Receiver, session: String) {
    let log = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        if !text.trim().is_empty() {
            tracing::warn!(session, "agent: {}", text.trim_end());
        }
    };
    let mut logged = 0;
    // The beginning of a line. Allocated only while there is one: idle sessions hold no buffer.
    let mut begun = Vec::new();
    while pipe.readable().await.is_ok() {
        let mut text = Vec::with_capacity(4096);
        match pipe.try_read_buf(&mut text) {
            Ok(0) => break,
            Ok(_) if logged >= MAX_LOGGED_BYTES => {}
            Ok(len) => {
                logged += len;
                begun.append(&mut text);
                // Whole lines together, as they were written.
                if let Some(end) = memchr::memrchr(b'\n', &begun) {
                    let rest = begun.split_off(end + 1);
                    log(&std::mem::replace(&mut begun, rest));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    log(&begun);
}
