//! The fork server of launchers, from the supervisor's side: executed with the first session, it
//! forks a launcher for each, and these are our children.
//!
//! All launchers and agents of one fork server have one layout of memory. So that nobody can find
//! it out by trying on one session after the other, another is executed after every
//! [`FORKS`] sessions, and where one has ended or hangs. Each order is its own question whether it is
//! there: one that forks nothing [`FORKED_WITHIN`] is killed, and its orders go to the next.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;
use vivarium_protocol::frame::{Decoder, MAX_SMALL_FRAME_BYTES, encode};
use vivarium_protocol::message::{ForkLauncher, LauncherForked};
use vivarium_protocol::stream::send_some;
use vivarium_protocol::{PROTOCOL_VERSION, discard};

use super::{Executed, LaunchError};
use crate::recv::recv;

const FORKS: u32 = 256;

/// How long it may take to take an order, behind as many others as its socket holds.
const TAKEN_WITHIN: Duration = Duration::from_secs(1);

/// How long it may take to fork once it has an order: some thousand times what it takes.
const FORKED_WITHIN: Duration = Duration::from_secs(1);

/// How long it may take for those that it has when no more come.
const RETIRED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct ForkServer(Mutex<Option<Server>>);

#[derive(Debug)]
struct Server {
    orders: UnixStream,
    left: u32,
    fate: Arc<watch::Sender<Fate>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Serves,
    /// It does what it was ordered, and ends.
    Retires,
    /// It hangs, and is killed.
    Hangs,
}

impl From<Executed> for Server {
    fn from(Executed { stream, child }: Executed) -> Self {
        let fate = Arc::new(watch::Sender::new(Fate::Serves));
        tokio::spawn(keep(child, fate.subscribe()));
        Self { orders: stream, left: FORKS, fate }
    }
}

impl ForkServer {
    /// Has a launcher forked that gets these: its end of the session's socket, and its standard
    /// error. `start` executes a fork server.
    pub(super) async fn fork(
        &self,
        start: impl Fn() -> Result<Executed, LaunchError> + Send + Sync,
        control: OwnedFd,
        stderr: OwnedFd,
    ) -> Result<Forked, LaunchError> {
        let (launcher, launcher_end) = UnixStream::pair().map_err(LaunchError::Socket)?;
        let launcher_end = launcher_end.into_std().map_err(LaunchError::Socket)?;
        let order = ForkLauncher { protocol_version: PROTOCOL_VERSION };
        let order = encode(&order, MAX_SMALL_FRAME_BYTES)
            .map_err(|error| LaunchError::Ask(error.into()))?;
        let given = [control, stderr, launcher_end.into()];
        let mut current = self.0.lock().await;
        loop {
            if current.take_if(|server| *server.fate.borrow() == Fate::Hangs).is_some() {
                tracing::warn!("the launchers' fork server hangs: another is started");
            }
            // It stays in its place meanwhile: it may have others' orders.
            let server = match &mut *current {
                Some(used) => used,
                none => none.insert(start()?.into()),
            };
            let sent = timeout(TAKEN_WITHIN, send(&server.orders, &order, &given)).await;
            match sent.unwrap_or_else(|late| Err(late.into())) {
                Ok(()) => server.left -= 1,
                // As many orders wait as its socket holds.
                Err(error) if error.kind() == io::ErrorKind::TimedOut && server.left < FORKS => {
                    server.fate.send_replace(Fate::Hangs);
                    continue;
                }
                // Nothing of it was taken, and another may.
                Err(error) if has_ended(&error) && server.left < FORKS => {
                    tracing::warn!(%error, "the launchers' fork server has ended: another is started");
                    *current = None;
                    continue;
                }
                Err(error) => {
                    current.take_if(|_| has_ended(&error));
                    return Err(LaunchError::Ask(error));
                }
            }
            let fate = Arc::clone(&server.fate);
            if current.take_if(|server| server.left == 0).is_some() {
                fate.send_replace(Fate::Retires);
            }
            return Ok(Forked { launcher: Some(launcher), pid: None, fate });
        }
    }
}

/// Sends an order whole.
pub(super) async fn send(orders: &UnixStream, order: &[u8], given: &[OwnedFd]) -> io::Result<()> {
    let sent = orders.async_io(Interest::WRITABLE, || send_some(orders, order, given)).await?;
    // So few bytes go at once or not at all: they are one buffer of the socket's.
    if sent == order.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Whether an order was refused since nobody is there to take it.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Waits for one's end, and kills it where it hangs, or does not end when no more orders come.
async fn keep(mut child: Child, mut fate: watch::Receiver<Fate>) {
    let hangs = async {
        match fate.wait_for(|fate| *fate != Fate::Serves).await.map(|fate| *fate) {
            Ok(Fate::Hangs) => {}
            _ => {
                // Until somebody finds that it hangs.
                let hangs = fate.wait_for(|fate| *fate == Fate::Hangs);
                let found = timeout(RETIRED_WITHIN, async { hangs.await.is_ok() }).await;
                discard(found, "it is killed in any case");
            }
        }
    };
    let ended = tokio::select! {
        ended = child.wait() => ended.map(drop),
        () = hangs => child.kill().await,
    };
    if let Err(error) = ended {
        tracing::warn!(%error, "waiting for a fork server's end");
    }
}

/// A launcher, which has to be waited for: [`Forked::follow`]. One that is dropped is waited for all
/// the same, for as long as there is a runtime.
#[derive(Debug)]
pub struct Forked {
    launcher: Option<UnixStream>,
    /// Its pid, once the fork server has sent it.
    pid: Option<Pid>,
    fate: Arc<watch::Sender<Fate>>,
}

impl Forked {
    /// Waits until it is there; whether it is. Where it is not, its fork server has ended, or could
    /// not fork, or hung and is killed for it: there is none, and none will be.
    pub(crate) async fn begun(&mut self) -> bool {
        if self.pid.is_some() {
            return true;
        }
        let Some(launcher) = &mut self.launcher else { return false };
        let received = match timeout(FORKED_WITHIN, recv_pid(launcher)).await {
            Ok(received) => received,
            Err(_) => {
                self.fate.send_replace(Fate::Hangs);
                recv_pid(launcher).await
            }
        };
        self.pid = received.unwrap_or_else(|error| {
            tracing::error!(%error, "receiving the pid of a launcher");
            None
        });
        self.pid.is_some()
    }

    /// Whether it is there and has not ended.
    pub(super) fn runs(&self) -> bool {
        let launcher = self.launcher.as_ref().filter(|_| self.pid.is_some());
        let said = launcher.map(|launcher| launcher.try_read(&mut [0]));
        said.is_some_and(|said| said.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
    }

    /// Returns when it has ended, which it is given a reason for before, and with it its session:
    /// whether that is certain. One that does not follow `within` this time is told to kill its
    /// agent, and killed itself if it does not follow that.
    pub(super) async fn follow(mut self, within: Duration) -> bool {
        if !self.begun().await {
            return true;
        }
        match (self.launcher.take(), self.pid) {
            (Some(launcher), Some(pid)) => wait(launcher, pid, within).await,
            _ => true,
        }
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if let (Some(launcher), Ok(runtime)) = (self.launcher.take(), Handle::try_current()) {
            runtime.spawn(late(launcher, self.pid));
        }
    }
}

async fn late(mut launcher: UnixStream, pid: Option<Pid>) {
    let pid = match pid {
        Some(pid) => Some(pid),
        None => recv_pid(&mut launcher).await.unwrap_or_default(),
    };
    if let Some(pid) = pid {
        wait(launcher, pid, Duration::from_secs(60)).await;
    }
}

/// Waits for the end of a launcher; whether its session has ended with it for certain. A launcher
/// that exits has waited for its agent, and the host's kernel reports the end of an agent, PID 1,
/// only after that of every process in its namespace. One that was killed has waited for nobody.
async fn wait(mut launcher: UnixStream, pid: Pid, within: Duration) -> bool {
    let ended = async {
        if !is_silent(&mut launcher, within).await {
            tracing::warn!("an agent did not follow the end of its session: it is killed");
            launcher.shutdown().await?;
            // Both pids are nobody else's before we have waited. It may have been stopped.
            kill(pid, Signal::SIGCONT)?;
            if !is_silent(&mut launcher, within).await {
                tracing::warn!("a launcher did not follow the end of its session: it is killed");
                kill(pid, Signal::SIGKILL)?;
            }
        }
        let flags = WaitPidFlag::WEXITED;
        let status = match waitid(Id::Pid(pid), flags | WaitPidFlag::WNOHANG)? {
            WaitStatus::StillAlive => {
                // No thread waits for it: one may not be had where a tenant has all processes that
                // the daemon's id may have. It is readable once the process has ended (pidfd_open(2)).
                let pid = rustix::process::Pid::from_raw(pid.as_raw())
                    .ok_or(io::ErrorKind::InvalidInput)?;
                let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
                #[expect(
                    deprecated,
                    reason = "the replacement is unsafe for the sake of types whose as_raw_fd lies; OwnedFd's does not"
                )]
                let pidfd = AsyncFd::with_interest(pidfd, Interest::READABLE)?;
                pidfd.readable().await?.retain_ready();
                waitid(Id::PIDFd(pidfd.get_ref().as_fd()), flags)?
            }
            ended => ended,
        };
        io::Result::Ok(matches!(status, WaitStatus::Exited(..)))
    };
    ended.await.unwrap_or_else(|error| {
        tracing::error!(%error, "waiting for a launcher's end");
        false
    })
}

/// Whether nobody has the other end any more, as launcher and agent are gone. What an agent says
/// there is nothing to go by.
async fn is_silent(launcher: &mut UnixStream, within: Duration) -> bool {
    timeout(within, tokio::io::copy(launcher, &mut tokio::io::sink())).await.is_ok()
}

/// Its pid; `None` if there is none, as the fork server could not, or is gone.
async fn recv_pid(launcher: &mut UnixStream) -> io::Result<Option<Pid>> {
    let received: io::Result<Option<LauncherForked>> =
        recv(launcher, &mut Decoder::new(MAX_SMALL_FRAME_BYTES)).await;
    Ok(received?.map(|LauncherForked { pid }| Pid::from_raw(pid)))
}
