//! The daemon that is measured: a process of its own, started as a user would start it.

use std::fs::Permissions;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use vivarium_api_types::{ListenAddr, Token};
use vivarium_client::{Client, Method, Remote, Url};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// More than any series needs. A line for each key, so that a scenario can add others.
const CONFIG: &str = "session.max_sessions = 5000\nsession.idle_timeout = \"1h\"\n\
                      server.max_connections = 5000\n";

/// Why a daemon to measure could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error("cannot prepare a daemon in {path}")]
    Prepare { path: PathBuf, source: io::Error },
    #[error("cannot run {program}")]
    Run { program: PathBuf, source: io::Error },
    #[error("it was not ready within {0:?}")]
    NotReady(Duration),
}

/// A running daemon, killed when dropped.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Child,
    /// On loopback.
    tcp: SocketAddr,
    /// In its runtime directory.
    unix: Url,
    program: PathBuf,
    directory: TempDir,
}

impl Daemon {
    /// Starts a daemon and waits until it is ready. `config` is lines of TOML, each with a whole
    /// key.
    pub(super) async fn start(config: &str) -> Result<Self, DaemonError> {
        let directory = tempfile::tempdir().map_err(prepare(std::env::temp_dir()))?;
        let path = directory.path();
        // A daemon started as root becomes another user, who needs the files in here.
        std::fs::set_permissions(path, Permissions::from_mode(0o711)).map_err(prepare(path))?;
        let file = path.join("vivarium.toml");
        let text = format!(
            "{CONFIG}server.state_dir = \"{0}/state\"\nserver.runtime_dir = \"{0}/run\"\n{config}",
            path.display()
        );
        std::fs::write(&file, text).map_err(prepare(&file))?;
        let tcp = free_address().map_err(prepare(path))?;
        let unix = ListenAddr::Unix(path.join("run/api.sock"));
        let own = std::env::current_exe().map_err(prepare(path))?;
        let program = own.with_file_name("vivarium");
        let child = Command::new(&program)
            .args(["serve", "--config"])
            .arg(&file)
            .args(["--listen", &ListenAddr::Tcp(tcp).to_string(), "--listen", &unix.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .env("VIVARIUM_LOG", "error")
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| DaemonError::Run { program: program.clone(), source })?;
        let daemon = Self { child, tcp, unix: Url::from(&unix), program, directory };
        let ready = tokio::time::timeout(START_TIMEOUT, daemon.ready()).await;
        ready.map_err(|_| DaemonError::NotReady(START_TIMEOUT))?;
        Ok(daemon)
    }

    /// A new connection to it, over loopback.
    pub(super) fn client(&self) -> Client {
        Client::new(Url::from(&ListenAddr::Tcp(self.tcp)))
    }

    /// The same for a tenant.
    pub(super) fn client_of(&self, token: Token) -> Client {
        let url = Url::from(&ListenAddr::Tcp(self.tcp));
        Client::new(Remote { url, token: Some(token) })
    }

    /// Its address on loopback.
    pub(super) const fn address(&self) -> SocketAddr {
        self.tcp
    }

    /// A new connection to it, over its Unix socket.
    pub(super) fn unix_client(&self) -> Client {
        Client::new(self.unix.clone())
    }

    pub(super) fn pid(&self) -> u32 {
        // None only after it has been waited for, which takes `self`.
        self.child.id().unwrap_or_default()
    }

    /// Where images are, in its state directory.
    pub(super) fn images(&self) -> PathBuf {
        self.directory.path().join("state/images")
    }

    /// Stops it in an orderly way.
    pub(super) async fn stop(mut self) -> Result<(), DaemonError> {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            // It may have ended by itself, which waiting then tells.
            let _gone = kill(Pid::from_raw(pid), Signal::SIGTERM).is_err();
        }
        let program = self.program.clone();
        self.child.wait().await.map(drop).map_err(|source| DaemonError::Run { program, source })
    }

    async fn ready(&self) {
        // There is nothing to wait on before it listens.
        while !self.is_ready().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn is_ready(&self) -> bool {
        let answer = self.client().send(Method::GET, "/readyz", Vec::new()).await;
        answer.is_ok_and(|(status, _)| status.is_success())
    }
}

fn prepare(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> DaemonError {
    let path = path.into();
    move |source| DaemonError::Prepare { path, source }
}

/// An address on loopback that nobody listens on right now.
pub(super) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
