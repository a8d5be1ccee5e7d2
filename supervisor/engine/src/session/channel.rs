//! Frames to and from the agent, without ever blocking on either direction.
//!
//! What an agent does not read waits here, bounded by there being one execution and a few
//! transfers at a time; what it says is bounded by the protocol's maximum before anything is
//! allocated for it. A message to the agent may carry descriptors; none is ever received here.
//!
//! The socket is registered for reading alone: whenever the agent reads, the host's kernel wakes whoever
//! waits to write (`unix_write_space` in net/unix/af_unix.c).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use rustix::buffer::spare_capacity;
use serde::Serialize;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};
use vivarium_protocol::frame::{self, Decoder, FrameError, MAX_FRAME_BYTES};
use vivarium_protocol::message::Connect;
use vivarium_protocol::message::{
    FileOperation, FileProblem, FileProblemKind, FromAgent, ToAgent, TransferNumber,
};
use vivarium_protocol::stream::send_some;

use crate::budget::{Account, Reservation};

#[cfg(test)]
mod tests;

/// A message that is larger has its room before it is read.
const LARGE_BYTES: usize = 256 << 10;

const READ_BYTES: usize = 64 << 10;

const RETRY_AFTER: Duration = Duration::from_millis(10);

/// Why nothing more can be heard.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChannelError {
    #[error("the agent is gone")]
    Closed,
    #[error("the agent's socket failed: {0}")]
    Io(#[from] io::Error),
    #[error("the agent sent {0}")]
    Frame(#[from] FrameError),
}

/// What a message to the agent is for.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    /// The session can not do without it.
    Session,
    Transfer(TransferNumber),
    /// Whoever waits has the other end of its descriptor, and finds it closed.
    Port,
}

#[derive(Debug)]
struct Unsent {
    bytes: Vec<u8>,
    /// What goes with its first byte. Let go of when that is sent.
    descriptors: Vec<OwnedFd>,
    /// What ends if they are refused.
    purpose: Purpose,
}

#[derive(Debug)]
pub(super) struct Channel {
    socket: AsyncFd<StdUnixStream>,
    /// The same socket, while it takes no more of what is unsent.
    full: Option<AsyncFd<OwnedFd>>,
    decoder: Decoder,
    /// Whether the decoder may still hold a whole frame.
    fresh: bool,
    unsent: VecDeque<Unsent>,
    /// Bytes of the first unsent frame that have been sent.
    sent: usize,
    /// What the agent would say of transfers that could not be handed to it.
    refused: VecDeque<FromAgent>,
    /// Why a message that the agent can not do without was not sent.
    failed: Option<io::Error>,
    /// What the message that is coming, or came last, takes of the daemon's memory.
    paid: Option<Reservation>,
    /// Since when there has been no room for what comes next.
    short_since: Option<Instant>,
}

impl Channel {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        Ok(Self {
            socket: register(stream.into_std()?, Interest::READABLE)?,
            full: None,
            decoder: Decoder::new(MAX_FRAME_BYTES),
            fresh: false,
            unsent: VecDeque::new(),
            sent: 0,
            refused: VecDeque::new(),
            failed: None,
            paid: None,
            short_since: None,
        })
    }

    /// What the last message takes of the daemon's memory, if it is large.
    pub(super) const fn take_paid(&mut self) -> Option<Reservation> {
        self.paid.take()
    }

    /// Sends a message, with descriptors: now as far as the socket takes it, the rest while [`Self::next`]
    /// waits. If the system refuses the descriptors, the channel has failed.
    pub(super) fn send_with<T: Serialize>(
        &mut self,
        message: &T,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), FrameError> {
        self.enqueue(message, descriptors, Purpose::Session)
    }

    /// Sends an operation on files with the agent's end of its socket, where it has one.
    pub(super) fn send_file(
        &mut self,
        transfer: TransferNumber,
        operation: FileOperation,
        socket: Option<OwnedFd>,
    ) -> Result<(), FrameError> {
        let message = ToAgent::File { transfer, operation };
        self.enqueue(&message, socket.into_iter().collect(), Purpose::Transfer(transfer))
    }

    /// Has the agent connect to a port, and answer over the other end of `reply`.
    pub(super) fn send_connect(
        &mut self,
        request: Connect,
        reply: OwnedFd,
    ) -> Result<(), FrameError> {
        self.enqueue(&ToAgent::Connect(request), vec![reply], Purpose::Port)
    }

    /// Has the agent hand the egress gate's socket out over the other end of `reply`.
    pub(super) fn send_egress(&mut self, reply: OwnedFd) -> Result<(), FrameError> {
        self.enqueue(&ToAgent::Egress, vec![reply], Purpose::Port)
    }

    fn enqueue<T: Serialize>(
        &mut self,
        message: &T,
        descriptors: Vec<OwnedFd>,
        purpose: Purpose,
    ) -> Result<(), FrameError> {
        let bytes = frame::encode(message, MAX_FRAME_BYTES)?;
        self.unsent.push_back(Unsent { bytes, descriptors, purpose });
        // A socket that fails is found by the next read.
        self.flush().unwrap_or_else(|error| tracing::debug!(%error, "writing to an agent"));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        while let Some(first) = self.unsent.front_mut() {
            let rest = first.bytes.get(self.sent..).unwrap_or_default();
            match send_some(self.socket.get_ref(), rest, &first.descriptors) {
                Ok(len) => {
                    first.descriptors.clear();
                    self.sent += len;
                    if self.sent >= first.bytes.len() {
                        self.unsent.pop_front();
                        self.sent = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_for_the_descriptor(&error) => self.refuse(error),
                Err(error) => {
                    self.unsent.clear();
                    (self.sent, self.full) = (0, None);
                    return Err(error);
                }
            }
        }
        self.full = None;
        Ok(())
    }

    /// Gives up the first message, nothing of which has been sent: one of a transfer is answered in
    /// the agent's place, without one of the session's the channel is of no use.
    fn refuse(&mut self, error: io::Error) {
        match self.unsent.pop_front().map(|first| first.purpose) {
            Some(Purpose::Transfer(transfer)) => {
                let detail = format!("hand the transfer's socket to the agent: {error}");
                let reply = Err(FileProblem { kind: FileProblemKind::Aborted, detail });
                self.refused.push_back(FromAgent::FileDone { transfer, reply });
            }
            Some(Purpose::Port) => tracing::debug!(%error, "hand a port's socket to an agent"),
            Some(Purpose::Session) | None => self.failed = Some(error),
        }
    }

    /// Whether the agent has said nothing that was not heard, and is there. Asks the system without
    /// waiting, since what it knows reaches us a moment later.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.has_no_rest() && matches!(peek(self.socket.get_ref()), Err(Errno::EAGAIN))
    }

    /// Resolves when [`Self::is_quiet`] is no more true. Nothing is heard.
    pub(super) fn poll_disquiet(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_no_rest() {
            return Poll::Ready(());
        }
        while let Ok(mut ready) = ready!(self.socket.poll_read_ready(cx)) {
            // What is said to be readable may have been read; then this notes that it was.
            if ready.try_io(|socket| peek(socket.get_ref()).map_err(io::Error::from)).is_ok() {
                break;
            }
        }
        Poll::Ready(())
    }

    /// Whether nothing is left of what was read last that is a message, or can be none.
    fn has_no_rest(&mut self) -> bool {
        if self.fresh {
            match self.decoder.next_message::<FromAgent>() {
                Ok(None) => self.fresh = false,
                Ok(Some(_)) | Err(_) => return false,
            }
        }
        true
    }

    /// The next message, for which there is to be room: it is waited for, but only for so long.
    /// Safe to cancel: nothing is lost.
    pub(super) async fn next_within(
        &mut self,
        account: &Account,
        max_wait: Duration,
    ) -> Result<FromAgent, ChannelError> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(message);
            }
            self.wait_for_budget(account, max_wait).await?;
            self.progress().await?;
        }
    }

    /// Waits until what comes next may be read: until no more is in use than may be, and a large
    /// message has its own room, before it is read. Without max_wait a small one is read as it is,
    /// and large ones one at a time.
    async fn wait_for_budget(
        &mut self,
        account: &Account,
        max_wait: Duration,
    ) -> Result<(), ChannelError> {
        let announced = self.decoder.announced().map_err(FrameError::from)?;
        if announced > LARGE_BYTES {
            if self.paid.is_none() {
                // As it comes, and as it is then.
                let bytes = announced.saturating_mul(2);
                let left = self.left(max_wait);
                self.paid = Some(match account.take_within(bytes, left).await {
                    Ok(paid) => paid,
                    Err(_) => account.overdraw(bytes).await,
                });
                self.short_since = None;
            }
        } else if account.excess().is_none() {
            self.short_since = None;
        } else {
            let left = self.left(max_wait);
            if timeout(left, account.settled()).await.is_ok() {
                self.short_since = None;
            }
        }
        Ok(())
    }

    /// What is left of the max_wait since it was first needed.
    fn left(&mut self, max_wait: Duration) -> Duration {
        let since = *self.short_since.get_or_insert_with(Instant::now);
        max_wait.saturating_sub(since.elapsed())
    }

    /// The next message. Safe to cancel: nothing is lost.
    pub(super) async fn next(&mut self) -> Result<FromAgent, ChannelError> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(message);
            }
            self.progress().await?;
        }
    }

    /// The next message, if all of it is there.
    fn whole(&mut self) -> Result<Option<FromAgent>, ChannelError> {
        if let Some(refused) = self.refused.pop_front() {
            return Ok(Some(refused));
        }
        if let Some(error) = self.failed.take() {
            return Err(ChannelError::Io(error));
        }
        if self.fresh {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(Some(message));
            }
            self.fresh = false;
        }
        Ok(None)
    }

    /// Sends and reads what can be, waiting for something to be.
    async fn progress(&mut self) -> Result<(), ChannelError> {
        if self.unsent.is_empty() {
            let read = read(self.socket.readable().await)?;
            self.push_read(read);
            return Ok(());
        }
        if self.full.is_none() {
            let socket = self.socket.get_ref().as_fd().try_clone_to_owned();
            match socket.and_then(|socket| register(socket, Interest::WRITABLE)) {
                Ok(full) => self.full = Some(full),
                Err(error) => tracing::debug!(%error, "waiting for room in a socket"),
            }
        }
        let read = tokio::select! {
            ready = self.socket.readable() => read(ready)?,
            () = room(self.full.as_ref()) => None,
        };
        self.flush().unwrap_or_else(|error| tracing::debug!(%error, "writing to an agent"));
        self.push_read(read);
        Ok(())
    }

    fn push_read(&mut self, read: Option<Vec<u8>>) {
        if let Some(bytes) = read {
            self.decoder.push(&bytes);
            self.fresh = true;
        }
    }
}

/// What a socket has that is said to be readable; `None` if it has nothing.
fn read(
    ready: io::Result<AsyncFdReadyGuard<'_, StdUnixStream>>,
) -> Result<Option<Vec<u8>>, ChannelError> {
    // Not kept: an idle session is not to hold 64 KiB.
    let mut bytes = Vec::with_capacity(READ_BYTES);
    let read = |socket: &AsyncFd<StdUnixStream>| {
        Ok(rustix::io::read(socket.get_ref(), spare_capacity(&mut bytes))?)
    };
    match ready?.try_io(read) {
        Ok(Ok(0)) => Err(ChannelError::Closed),
        Ok(Ok(_)) => Ok(Some(bytes)),
        // The agent died with unread bytes of ours in its socket.
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
            Err(ChannelError::Closed)
        }
        Ok(Err(error)) if error.kind() != io::ErrorKind::Interrupted => {
            Err(ChannelError::Io(error))
        }
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

/// Waits until there may be room, for a moment where no descriptor is left to wait with.
async fn room(full: Option<&AsyncFd<OwnedFd>>) {
    match full {
        Some(full) => match full.writable().await {
            Ok(mut ready) => ready.clear_ready(),
            Err(error) => tracing::debug!(%error, "waiting for room in a socket"),
        },
        None => sleep(RETRY_AFTER).await,
    }
}

fn peek(socket: &StdUnixStream) -> Result<usize, Errno> {
    recv(socket.as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT)
}

#[expect(
    deprecated,
    reason = "the replacement is unsafe for the sake of types whose as_raw_fd lies; a socket's does not"
)]
fn register<T: AsRawFd>(socket: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(socket, interest)
}

/// Whether the socket is well and only the descriptor was refused: the descriptors under way of
/// one user are bounded (unix(7), `ETOOMANYREFS`), and sessions may share one.
fn is_for_the_descriptor(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ETOOMANYREFS as i32)
}
