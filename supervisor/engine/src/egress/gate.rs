//! A gate that runs: its socket, and its process if it is ours.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::libc;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use vivarium_egress::message::GATE_VERSION;
use vivarium_egress::wire::{MAX_GATE_FRAME_BYTES, encode};
use vivarium_egress::{FromGate, ToGate};
use vivarium_protocol::frame::Decoder;
use vivarium_protocol::stream::send_some;

use super::GateLaunch;
use crate::settings::GateSource;

/// This program, whatever has become of its file: proc_pid_exe(5).
const PROGRAM: &str = "/proc/self/exe";

/// Its subcommand that is the gate.
const SUBCOMMAND: &str = "gate";

/// How long a gate may take to confine itself and say so.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// What may wait to be sent. A gate that does not read is of no use.
const MAX_UNSENT_BYTES: usize = 32 << 20;

const READ_BYTES: usize = 16 << 10;

/// Why there is no gate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    #[error("start the egress gate: {0}")]
    Start(String),
    #[error("connect to the egress gate at {path}: {reason}")]
    Connect { path: String, reason: String },
    #[error("the egress gate was not ready within {} s", READY_WITHIN.as_secs())]
    NotReady,
    #[error("the egress gate speaks version {found}, and this daemon {GATE_VERSION}")]
    Version { found: u32 },
    #[error("the egress gate ended")]
    Ended,
    #[error("the egress gate is replaced by one that has other packages")]
    Outdated,
    #[error("the egress gate did not answer in time")]
    Silent,
    #[error("the egress gate: {0}")]
    Broken(String),
    #[error("the daemon is stopping")]
    Stopped,
}

#[derive(Debug)]
struct Unsent {
    bytes: Vec<u8>,
    socket: Option<OwnedFd>,
}

#[derive(Debug)]
pub(super) struct Gate {
    stream: UnixStream,
    decoder: Decoder,
    unsent: VecDeque<Unsent>,
    /// Bytes of the first that have been sent.
    sent: usize,
    unsent_bytes: usize,
    /// Killed, if it is still there, when this is dropped.
    _child: Option<Child>,
}

impl Gate {
    /// Starts or reaches a gate, and returns when it is confined.
    pub(super) async fn start(launch: &GateLaunch) -> Result<Self, GateError> {
        let (stream, child) = match &launch.source {
            GateSource::Process => {
                spawn(launch).map_err(|error| GateError::Start(error.to_string()))?
            }
            GateSource::Socket(path) => (connect(path).await?, None),
        };
        let mut gate = Self {
            stream,
            decoder: Decoder::new(MAX_GATE_FRAME_BYTES),
            unsent: VecDeque::new(),
            sent: 0,
            unsent_bytes: 0,
            _child: child,
        };
        match timeout(READY_WITHIN, gate.next()).await {
            Ok(Ok(FromGate::Ready { version: GATE_VERSION, confinement })) => {
                tracing::info!(confinement = confinement.join("; "), "egress gate is ready");
                Ok(gate)
            }
            Ok(Ok(FromGate::Ready { version, .. })) => Err(GateError::Version { found: version }),
            Ok(Ok(_)) => Err(GateError::Broken("it spoke out of turn".to_owned())),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(GateError::NotReady),
        }
    }

    /// Sends a message: now as far as the socket takes it, the rest while [`Self::next`] waits.
    pub(super) fn send(
        &mut self,
        message: &ToGate,
        socket: Option<OwnedFd>,
    ) -> Result<(), GateError> {
        let broken = |error: &dyn std::error::Error| GateError::Broken(error.to_string());
        let bytes = encode(message).map_err(|error| broken(&error))?;
        self.unsent_bytes = self.unsent_bytes.saturating_add(bytes.len());
        if self.unsent_bytes > MAX_UNSENT_BYTES {
            return Err(GateError::Silent);
        }
        self.unsent.push_back(Unsent { bytes, socket });
        self.flush().map_err(|error| broken(&error))
    }

    /// What it says next. Safe to cancel: nothing is lost.
    pub(super) async fn next(&mut self) -> Result<FromGate, GateError> {
        let broken = |error: &dyn std::error::Error| GateError::Broken(error.to_string());
        loop {
            if let Some(message) = self.decoder.next_message().map_err(|error| broken(&error))? {
                return Ok(message);
            }
            let wanted = if self.unsent.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            let ready = self.stream.ready(wanted).await.map_err(|error| broken(&error))?;
            if ready.is_writable() {
                self.flush().map_err(|error| broken(&error))?;
            }
            if ready.is_readable() {
                self.read()?;
            }
        }
    }

    fn read(&mut self) -> Result<(), GateError> {
        let mut buffer = [0; READ_BYTES];
        match self.stream.try_read(&mut buffer) {
            Ok(0) => Err(GateError::Ended),
            Ok(len) => {
                self.decoder.push(buffer.get(..len).unwrap_or_default());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ECONNRESET) => Err(GateError::Ended),
            Err(error) => Err(GateError::Broken(error.to_string())),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while let Some(first) = self.unsent.front_mut() {
            let rest = first.bytes.get(self.sent..).unwrap_or_default();
            let (stream, socket) = (&self.stream, first.socket.as_ref().map(AsFd::as_fd));
            let sent =
                stream.try_io(Interest::WRITABLE, || send_some(stream, rest, socket.as_slice()));
            match sent {
                Ok(len) => {
                    first.socket = None;
                    self.sent += len;
                    self.unsent_bytes = self.unsent_bytes.saturating_sub(len);
                    if self.sent >= first.bytes.len() {
                        self.unsent.pop_front();
                        self.sent = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Starts this program as a gate, with a socket as its standard input.
fn spawn(launch: &GateLaunch) -> io::Result<(UnixStream, Option<Child>)> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = theirs.into_std()?;
    theirs.set_nonblocking(false)?;
    let child = Command::new(PROGRAM)
        .arg(SUBCOMMAND)
        .args(launch.arguments())
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        // A Ctrl-C at the terminal of an embedded supervisor is for the supervisor alone.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    Ok((ours, Some(child)))
}

async fn connect(path: &Path) -> Result<UnixStream, GateError> {
    let failed = |reason: String| GateError::Connect { path: path.display().to_string(), reason };
    match timeout(READY_WITHIN, UnixStream::connect(path)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("it did not accept in time".to_owned())),
    }
}
