//! `vivarium-agent storage`: a process for each operation on a directory that belongs, or belonged, to a
//! session's ids.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, PREFIX_BYTES, announced_len, decode, encode};
use vivarium_protocol::message::{StorageOperation, StorageReply, StorageRequest};
use vivarium_protocol::stream;

use crate::backend::ids::IdPool;
use crate::backend::{Backend, LaunchError, Launched};

/// How long an operation may take. A removal of millions of files takes longest.
const WITHIN: Duration = Duration::from_secs(300);

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelperError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("there is no program that works on homes and environments")]
    None,
    #[error("work on a directory of sessions: {0}")]
    Exchange(#[from] io::Error),
    /// What the program said.
    #[error("{0}")]
    Failed(String),
}

/// Starts the program, in the namespace of these ids.
#[derive(Debug, Clone)]
pub(crate) struct StorageHelper {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) ids: Option<Arc<IdPool>>,
}

impl StorageHelper {
    /// Has an operation done, and waits for the answer.
    pub(crate) async fn operate(
        &self,
        data: &Path,
        operation: StorageOperation,
    ) -> Result<StorageReply, HelperError> {
        let (reply, launched) = self.begin(data, operation).await?;
        self.backend.kill(launched).await;
        Ok(reply)
    }

    /// Has an operation done, and waits for the answer; content may follow it.
    pub(crate) async fn begin(
        &self,
        data: &Path,
        operation: StorageOperation,
    ) -> Result<(StorageReply, Launched), HelperError> {
        let mut launched = self.backend.storage()?.ok_or(HelperError::None)?;
        let directory = open(data)?;
        let namespace = match &self.ids {
            Some(pool) => pool.namespace()?,
            None => None,
        };
        let exchanged = timeout(WITHIN, exchange(&mut launched, operation, directory, namespace));
        match exchanged.await {
            Ok(Ok(StorageReply::Failed(failure))) => Err(HelperError::Failed(failure.to_string())),
            Ok(Ok(reply)) => Ok((reply, launched)),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
    }
}
/// Opens the directory to name it: the daemon has no right to what is in it.
fn open(data: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    Ok(OpenOptions::new().read(true).custom_flags(flags.bits()).open(data)?.into())
}

async fn exchange(
    launched: &mut Launched,
    operation: StorageOperation,
    directory: OwnedFd,
    namespace: Option<OwnedFd>,
) -> io::Result<StorageReply> {
    let closed = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let socket = launched.stream.as_mut().ok_or_else(closed)?;
    let request = StorageRequest { protocol_version: PROTOCOL_VERSION, operation };
    let bytes = encode(&request, MAX_FRAME_BYTES).map_err(io::Error::other)?;
    let fds: Vec<BorrowedFd<'_>> = [Some(directory.as_fd()), namespace.as_ref().map(AsFd::as_fd)]
        .into_iter()
        .flatten()
        .collect();
    socket.writable().await?;
    // Empty until now, it takes a message of this size as a whole.
    if stream::send_some(&*socket, &bytes, &fds)? != bytes.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    // No more than the message: what follows may be content.
    let mut prefix = [0; PREFIX_BYTES];
    socket.read_exact(&mut prefix).await?;
    let length = announced_len(prefix, MAX_FRAME_BYTES).map_err(io::Error::other)?;
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await?;
    decode(&body).map_err(io::Error::other)
}
