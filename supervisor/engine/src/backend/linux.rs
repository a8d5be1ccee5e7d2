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
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::fork_server::ForkServer;
use super::{
    Backend, Executed, Later, LaunchError, LaunchSpec, Launched, Outermost, TemplateParts,
};
use crate::settings::AgentBinary;

/// How long the launcher may take to follow its session's end before it is killed.
const FOLLOW_WITHIN: Duration = Duration::from_secs(2);

/// Bytes of a session's standard error that are logged; the rest is read and dropped.
const MAX_LOGGED_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub struct Linux {
    agent: AgentBinary,
    fork_server: ForkServer,
}

impl Linux {
    pub fn new(agent: AgentBinary) -> Self {
        Self { agent, fork_server: ForkServer::default() }
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
        std::fs::metadata(self.agent.exec_path()).map(|_| ()).map_err(self.failed())
    }

    fn launch(&self, spec: LaunchSpec) -> Later<'_, Result<Launched, LaunchError>> {
        Box::pin(async move {
            let (ours, theirs) = pair()?;
            let (stderr, pipe) = pipe::pipe().map_err(LaunchError::Socket)?;
            let stderr = stderr.into_blocking_fd().map_err(LaunchError::Socket)?;
            let start = || self.start("launch", "fork server".to_owned());
            let forked = self.fork_server.fork(start, theirs, stderr).await?;
            tokio::spawn(log_stderr(pipe, spec.session_id));
            Ok(Launched { stream: Some(ours), outermost: Some(Outermost::Forked(forked)) })
        })
    }

    fn id_namespace(&self) -> Result<Option<Launched>, LaunchError> {
        self.start("range", "range of subordinate ids".to_owned())
            .map(|started| Some(started.into()))
    }

    fn storage(&self) -> Result<Option<Launched>, LaunchError> {
        self.start("storage", "storage".to_owned()).map(|started| Some(started.into()))
    }

    fn template(&self, environment: &str) -> Result<Option<TemplateParts>, LaunchError> {
        let Some(library) = &self.agent.library else { return Ok(None) };
        let library = library.try_clone().map_err(LaunchError::Socket)?;
        let started = self.start("template", format!("template {environment}"))?;
        Ok(Some(TemplateParts { launched: started.into(), library }))
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
        Self { stream: Some(stream), outermost: Some(Outermost::Executed(child)) }
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
