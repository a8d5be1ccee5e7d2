//! Operations on a session's files, and the content that goes with them.
//!
//! The actor hands an operation to the agent and the answer back ([`Transfers`]), and that is
//! all. Content goes over a socket of the transfer's own, the other end of which the agent gets:
//! it waits in that socket and in one buffer and nowhere else, so that whoever is slow holds up
//! the other side and nobody's memory grows.
//!
//! No file of a session is ever opened here. This must never let part of a content count as
//! the whole, nor pass on more than was announced.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use vivarium_protocol::discard;
use vivarium_protocol::message::{
    FileEntry, FileOperation, FileProblem, FileReply, TransferNumber,
};

use super::{Command, Session};

mod archive;
mod download;
#[cfg(test)]
mod tests;
mod upload;
mod watch;

pub use archive::ArchiveDownload;
pub use download::Download;
pub use upload::{UploadWriter, Uploaded};
pub use watch::FileWatch;

/// Operations of one session that may be under way at one time.
pub const MAX_TRANSFERS: u32 = 8;

/// Operations of one tenant, and of all, that may be under way at one time.
const MAX_TRANSFERS_OF_TENANT: usize = 64;
const MAX_TRANSFERS_OF_ALL: usize = 128;

/// Watchers of one session that may be there at one time, of one tenant, and of all.
pub const MAX_WATCHERS: u32 = 4;
const MAX_WATCHERS_OF_TENANT: usize = 16;
const MAX_WATCHERS_OF_ALL: usize = 64;

/// Bytes of a content that are held between client and agent.
const BUFFER_BYTES: usize = 256 << 10;

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("as many transfers are under way as may be")]
    TooMany,
    #[error("the session ended")]
    Over,
    #[error("the session is being suspended or resumed")]
    Suspended,
    #[error("{}", .0.detail)]
    Refused(FileProblem),
    #[error("the agent's answer to an operation on files is that of another one")]
    OutOfTurn,
    #[error("make a socket pair for a file's content: {0}")]
    Socket(io::Error),
}

/// Limits the transfers of a session, a tenant and the daemon. Clones are the same limiter.
#[derive(Debug, Clone)]
pub struct TransferLimiter {
    all: Arc<Semaphore>,
    tenants: Arc<Mutex<BTreeMap<String, Arc<Semaphore>>>>,
    max_of_tenant: usize,
    /// Whether it is for watchers, which stay until their client leaves: nothing waits for their end.
    of_watchers: bool,
}

impl Default for TransferLimiter {
    fn default() -> Self {
        Self::new(MAX_TRANSFERS_OF_ALL, MAX_TRANSFERS_OF_TENANT, false)
    }
}

impl TransferLimiter {
    pub(crate) fn of_watchers() -> Self {
        Self::new(MAX_WATCHERS_OF_ALL, MAX_WATCHERS_OF_TENANT, true)
    }

    fn new(max: usize, max_of_tenant: usize, of_watchers: bool) -> Self {
        let all = Arc::new(Semaphore::new(max));
        Self { all, tenants: Arc::default(), max_of_tenant, of_watchers }
    }

    /// The right to one more transfer of this session.
    fn permit(&self, session: &Session) -> Result<Permit, TransferError> {
        if session.is_asleep() {
            return Err(TransferError::Suspended);
        }
        let of_tenant = {
            let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(self.max_of_tenant));
            Arc::clone(tenants.entry(session.identity.tenant.clone()).or_insert_with(new))
        };
        let take = |from: &Arc<Semaphore>| Arc::clone(from).try_acquire_owned();
        let of_session = if self.of_watchers { &session.watchers } else { &session.transfers };
        let taken = [take(of_session), take(&of_tenant), take(&self.all)];
        let [Ok(of_session), Ok(of_tenant), Ok(of_all)] = taken else {
            return Err(TransferError::TooMany);
        };
        Ok(Permit { _all: [of_session, of_tenant, of_all] })
    }
}

/// The right to one transfer, held until nobody is busy with it any more.
#[derive(Debug)]
pub struct Permit {
    _all: [OwnedSemaphorePermit; 3],
}

/// What the agent said, and the permit again.
type Answer = (Result<FileReply, FileProblem>, Permit);

#[derive(Debug)]
pub struct FileCommand {
    pub(super) operation: FileOperation,
    /// The agent's end of the content's socket.
    pub(super) socket: Option<OwnedFd>,
    /// Where the answer goes, and the permit with it: an operation counts until the agent is
    /// done with it, whether or not its client still waits.
    pub(super) waiting: Waiting,
}

#[derive(Debug)]
pub(super) struct Waiting {
    reply: oneshot::Sender<Answer>,
    permit: Permit,
}

/// The operations that an agent has not answered yet. Bounded by their permits.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    last: TransferNumber,
    waiting: BTreeMap<TransferNumber, Waiting>,
}

impl Transfers {
    /// A number for an operation that is sent now.
    pub(super) fn begin(&mut self, waiting: Waiting) -> TransferNumber {
        self.last += 1;
        self.waiting.insert(self.last, waiting);
        self.last
    }

    /// Passes an answer on; `false` if nobody has asked for it.
    pub(super) fn answer(
        &mut self,
        transfer: TransferNumber,
        reply: Result<FileReply, FileProblem>,
    ) -> bool {
        let Some(Waiting { reply: to, permit }) = self.waiting.remove(&transfer) else {
            return false;
        };
        discard(to.send((reply, permit)), "the client may be gone; the permit is free again");
        true
    }
}

impl Session {
    /// Has the agent list a directory. The flag says whether there is more.
    pub async fn list_files(
        &self,
        limiter: &TransferLimiter,
        operation: FileOperation,
    ) -> Result<(Vec<FileEntry>, bool), TransferError> {
        match self.operate(limiter, operation).await? {
            FileReply::Listed { entries, more } => Ok((entries, more)),
            _ => Err(TransferError::OutOfTurn),
        }
    }

    /// Has the agent remove what is at a path.
    pub async fn delete_file(
        &self,
        limiter: &TransferLimiter,
        path: String,
    ) -> Result<(), TransferError> {
        match self.operate(limiter, FileOperation::Delete { path }).await? {
            FileReply::Deleted => Ok(()),
            _ => Err(TransferError::OutOfTurn),
        }
    }

    /// Opens a file, or `length` bytes of it from `offset` on.
    pub async fn read_file(
        self: &Arc<Self>,
        limiter: &TransferLimiter,
        path: String,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Download, TransferError> {
        let operation = FileOperation::Read { path, offset, length };
        let (stream, answer) = self.begin(limiter, operation).await?;
        match outcome_of(answer.await)? {
            (FileReply::Content { entry, length }, permit) => {
                Ok(Download::new(Arc::clone(self), stream, entry, length, permit))
            }
            _ => Err(TransferError::OutOfTurn),
        }
    }

    /// Opens a directory as an archive.
    pub async fn read_archive(
        self: &Arc<Self>,
        limiter: &TransferLimiter,
        path: String,
    ) -> Result<ArchiveDownload, TransferError> {
        let (stream, answer) = self.begin(limiter, FileOperation::Archive { path }).await?;
        match outcome_of(answer.await)? {
            (FileReply::Archive(entry), permit) => {
                Ok(ArchiveDownload::new(Arc::clone(self), stream, entry, permit))
            }
            _ => Err(TransferError::OutOfTurn),
        }
    }

    /// Waits until no transfer is under way. None begins in a session that is being suspended.
    pub(crate) async fn transfers_idle(&self) {
        drop(self.transfers.acquire_many(MAX_TRANSFERS).await);
    }

    /// Watches a directory.
    pub async fn watch(
        &self,
        limiter: &TransferLimiter,
        path: String,
        recursive: bool,
    ) -> Result<FileWatch, TransferError> {
        let (stream, answer) =
            self.begin(limiter, FileOperation::Watch { path, recursive }).await?;
        match outcome_of(answer.await)? {
            (FileReply::Watching, permit) => Ok(FileWatch::new(stream, permit)),
            _ => Err(TransferError::OutOfTurn),
        }
    }

    /// Begins to send the content of an [`FileOperation::Write`] or [`FileOperation::Unpack`].
    pub async fn write_file(
        self: &Arc<Self>,
        limiter: &TransferLimiter,
        operation: FileOperation,
    ) -> Result<UploadWriter, TransferError> {
        let (stream, answer) = self.begin(limiter, operation).await?;
        Ok(UploadWriter::new(Arc::clone(self), stream, answer))
    }

    /// Whether an operation on its files is under way.
    pub(crate) fn is_transferring(&self) -> bool {
        self.transfers.available_permits() < MAX_TRANSFERS as usize
    }

    /// Waits until no transfer is under way, and lets none begin.
    pub async fn transfers_ended(&self) {
        if let Ok(_all) = self.transfers.acquire_many(MAX_TRANSFERS).await {
            self.transfers.close();
        }
    }

    /// An operation without content.
    pub async fn operate(
        &self,
        limiter: &TransferLimiter,
        operation: FileOperation,
    ) -> Result<FileReply, TransferError> {
        let permit = limiter.permit(self)?;
        let answer = self.send_operation(operation, None, permit).await?;
        outcome_of(answer.await).map(|(reply, _)| reply)
    }

    /// An operation with content: our end of its socket, and where the answer comes.
    async fn begin(
        &self,
        limiter: &TransferLimiter,
        operation: FileOperation,
    ) -> Result<(UnixStream, oneshot::Receiver<Answer>), TransferError> {
        let permit = limiter.permit(self)?;
        let (ours, theirs) = pair().map_err(TransferError::Socket)?;
        let answer = self.send_operation(operation, Some(theirs), permit).await?;
        Ok((ours, answer))
    }

    async fn send_operation(
        &self,
        operation: FileOperation,
        socket: Option<OwnedFd>,
        permit: Permit,
    ) -> Result<oneshot::Receiver<Answer>, TransferError> {
        self.touch();
        let (reply, answer) = oneshot::channel();
        let command = FileCommand { operation, socket, waiting: Waiting { reply, permit } };
        let command = Command::File(Box::new(command));
        if self.send(command).await { Ok(answer) } else { Err(TransferError::Over) }
    }
}

/// Our end, for the runtime, and the agent's, which blocks as long as the agent does not want
/// it otherwise.
fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    for end in [&ours, &theirs] {
        // Room for a whole chunk, as far as the host's kernel allows it (`net.core.wmem_max`): by
        // default there is less, and the two sides would work by turns and not at one time.
        setsockopt(end, sockopt::SndBuf, &BUFFER_BYTES)?;
    }
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}

/// What became of an operation. Without an answer the session is over.
fn outcome_of(
    answer: Result<Answer, oneshot::error::RecvError>,
) -> Result<(FileReply, Permit), TransferError> {
    match answer {
        Ok((Ok(reply), permit)) => Ok((reply, permit)),
        Ok((Err(problem), _)) => Err(TransferError::Refused(problem)),
        Err(_) => Err(TransferError::Over),
    }
}
