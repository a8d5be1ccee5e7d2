//! The daemon that is measured: another process, started as a user would start it.

use std::fs::Permissions;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use hyper::Method;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::client::{Client, Url};

/// How long it may take to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// More than any series needs.
const CONFIG: &str = "[session]\nmax_sessions = 5000\nidle_timeout = \"1h\"\n";

/// Why there is no daemon to measure.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Its files could not be made.
    #[error("cannot prepare a daemon in {path}")]
    Prepare {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It could not be started or stopped.
    #[error("cannot run {program}")]
    Run {
        /// Which program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It did not answer in time; its log is on standard error.
    #[error("it was not ready within {0:?}")]
    NotReady(Duration),
}

/// A daemon of our own.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Child,
    url: Url,
    program: PathBuf,
    _directory: TempDir,
}

impl Daemon {
    /// Starts it and waits until it is ready.
    pub(super) async fn start() -> Result<Self, DaemonError> {
        let directory = tempfile::tempdir().map_err(prepare(std::env::temp_dir()))?;
        let path = directory.path();
        // Started as root it becomes somebody else, who has to get at what is in here.
        std::fs::set_permissions(path, Permissions::from_mode(0o711)).map_err(prepare(path))?;
        let config = path.join("vivarium.toml");
        let text = format!(
            "{CONFIG}[server]\nstate_dir = \"{0}/state\"\nruntime_dir = \"{0}/run\"\n",
            path.display()
        );
        std::fs::write(&config, text).map_err(prepare(&config))?;
        let address = free_address().map_err(prepare(path))?;
        let program = std::env::current_exe().map_err(prepare(path))?;
        let child = Command::new(&program)
            .args(["serve", "--config"])
            .arg(&config)
            .arg("--listen")
            .arg(&address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .env("VIVARIUM_LOG", "error")
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| DaemonError::Run { program: program.clone(), source })?;
        let url: Url = format!("http://{address}").parse().map_err(|error| {
            prepare(path)(io::Error::other(format!("the address {address}: {error}")))
        })?;
        let daemon = Self { child, url, program, _directory: directory };
        let ready = tokio::time::timeout(START_TIMEOUT, daemon.ready()).await;
        ready.map_err(|_| DaemonError::NotReady(START_TIMEOUT))?;
        Ok(daemon)
    }

    /// A new connection to it.
    pub(super) fn client(&self) -> Client {
        Client::new(self.url.clone())
    }

    /// Its proportional set size, in bytes: proc_pid_smaps(5).
    pub(super) fn pss_bytes(&self) -> u64 {
        let pid = self.child.id().unwrap_or(0);
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let kib = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kib = kib.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0).saturating_mul(1024)
    }

    /// Ends it in an orderly way.
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
fn free_address() -> io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.to_string())
}
