//! The fork server of launchers, from the supervisor's side: executed with the first session, it
//! forks a launcher for each, and these are our children.
//!
//! All launchers and agents of one fork server have one layout of memory. So that nobody can find
//! it out by trying on one session after the other, another is executed after every
//! [`FORKS`] sessions, and where one has ended or hangs.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::timeout;
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::frame::{Decoder, MAX_SMALL_FRAME_BYTES, encode};
use vivarium_protocol::message::{ForkLauncher, LauncherForked};

use super::{Executed, LaunchError};
use crate::descriptors::send_some;
use crate::hear::hear;

/// How many launchers one forks.
const FORKS: u32 = 256;

/// How long it may take to take an order, behind as many others as its socket holds.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// How long it may take for those that it has when no more come.
const RETIRED_WITHIN: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ForkServer(Mutex<Option<Server>>);

/// One that runs.
#[derive(Debug)]
struct Server {
    process: Executed,
    /// How many launchers it is to fork yet.
    left: u32,
    /// Whether a session has ended that it was asked for and has not forked.
    hangs: Arc<AtomicBool>,
}

impl From<Executed> for Server {
    fn from(process: Executed) -> Self {
        Self { process, left: FORKS, hangs: Arc::default() }
    }
}

impl ForkServer {
    /// Has a launcher forked that gets these: its end of the session's socket, and its standard
    /// error. `start` executes a fork server.
    ///
    /// # Errors
    /// If there is none that takes the order.
    pub(super) async fn fork(
        &self,
        start: impl Fn() -> Result<Executed, LaunchError> + Send + Sync,
        control: OwnedFd,
        stderr: OwnedFd,
    ) -> Result<Forked, LaunchError> {
        let (told, tells) = UnixStream::pair().map_err(LaunchError::Socket)?;
        let tells = tells.into_std().map_err(LaunchError::Socket)?;
        let order = ForkLauncher { protocol_version: PROTOCOL_VERSION };
        let order = encode(&order, MAX_SMALL_FRAME_BYTES)
            .map_err(|error| LaunchError::Ask(error.into()))?;
        let given = [control, stderr, tells.into()];
        let mut current = self.0.lock().await;
        loop {
            if let Some(server) = current.take_if(|server| server.hangs.load(Ordering::Relaxed)) {
                tracing::warn!("the launchers' fork server hangs: another is started");
                retire(server.process);
            }
            // It stays in its place meanwhile: it may have others' orders.
            let server = match &mut *current {
                Some(used) => used,
                none => none.insert(start()?.into()),
            };
            let sent = timeout(TAKEN_WITHIN, send(&server.process.stream, &order, &given)).await;
            match sent.unwrap_or_else(|late| Err(late.into())) {
                Ok(()) => server.left -= 1,
                // As many orders wait as its socket holds.
                Err(error) if error.kind() == io::ErrorKind::TimedOut && server.left < FORKS => {
                    server.hangs.store(true, Ordering::Relaxed);
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
            let hangs = Arc::clone(&server.hangs);
            if let Some(server) = current.take_if(|server| server.left == 0) {
                retire(server.process);
            }
            return Ok(Forked { told: Some(told), hangs });
        }
    }
}

async fn send(orders: &UnixStream, order: &[u8], given: &[OwnedFd]) -> io::Result<()> {
    let sent = orders.async_io(Interest::WRITABLE, || send_some(orders, order, given)).await?;
    // So few bytes go at once or not at all: they are one buffer of the socket's.
    if sent == order.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Whether an order was refused since nobody is there to take it.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Lets go of one, which then does what it was ordered, and ends; killed, if it does not.
fn retire(Executed { stream, mut child }: Executed) {
    drop(stream);
    tokio::spawn(async move {
        let ended = match timeout(RETIRED_WITHIN, child.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_) => child.kill().await,
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "waiting for a fork server's end");
        }
    });
}

/// A launcher, which has to be waited for: [`Forked::follow`]. One that is dropped is waited for all
/// the same, for as long as there is a runtime.
#[derive(Debug)]
pub struct Forked {
    told: Option<UnixStream>,
    hangs: Arc<AtomicBool>,
}

impl Forked {
    /// Returns when it has ended, which it is given a reason for before; killed, if it does not
    /// follow `within` this time. One that does not even begin is the fork server's fault.
    pub(super) async fn follow(mut self, within: Duration) {
        let Some(mut told) = self.told.take() else { return };
        if let Ok(heard) = timeout(within, hear_pid(&mut told)).await {
            return wait(told, heard, within).await;
        }
        self.hangs.store(true, Ordering::Relaxed);
        tokio::spawn(late(told));
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if let (Some(told), Ok(runtime)) = (self.told.take(), Handle::try_current()) {
            runtime.spawn(late(told));
        }
    }
}

/// Waits for one that nobody else waits for.
async fn late(mut told: UnixStream) {
    let heard = hear_pid(&mut told).await;
    wait(told, heard, Duration::from_secs(60)).await;
}

async fn wait(mut told: UnixStream, heard: io::Result<Option<Pid>>, within: Duration) {
    let ended = async {
        let Some(pid) = heard? else { return Ok(()) };
        // Nobody has the other end once launcher and agent are gone; what an agent says there is
        // nothing to go by.
        if timeout(within, tokio::io::copy(&mut told, &mut tokio::io::sink())).await.is_err() {
            tracing::warn!("a launcher did not follow the end of its session: killing it");
            // The pid is nobody else's before we have waited.
            kill(pid, Signal::SIGKILL)?;
        }
        let flags = WaitPidFlag::WEXITED;
        if waitid(Id::Pid(pid), flags | WaitPidFlag::WNOHANG)? == WaitStatus::StillAlive {
            tokio::task::spawn_blocking(move || waitid(Id::Pid(pid), flags)).await??;
        }
        io::Result::Ok(())
    };
    if let Err(error) = ended.await {
        tracing::error!(%error, "waiting for a launcher's end");
    }
}

/// Its pid; `None` if there is none, as the fork server could not, or is gone.
async fn hear_pid(told: &mut UnixStream) -> io::Result<Option<Pid>> {
    let heard: io::Result<Option<LauncherForked>> =
        hear(told, &mut Decoder::new(MAX_SMALL_FRAME_BYTES)).await;
    Ok(heard?.map(|LauncherForked { pid }| Pid::from_raw(pid)))
}
