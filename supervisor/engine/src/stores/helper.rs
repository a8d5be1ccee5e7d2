//! `vivarium-agent storage`: a process for each operation on a home or volume.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use nix::fcntl::OFlag;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, PREFIX_BYTES, announced_len, decode, encode};
use vivarium_protocol::message::{StorageOperation, StorageReply, StorageRequest};
use vivarium_protocol::stream;

use super::{StoreError, Stores};
use crate::backend::Launched;

/// How long an operation may take. A removal of millions of files takes longest.
const WITHIN: Duration = Duration::from_secs(300);

impl Stores {
    /// Has an operation done, and waits for the answer.
    pub(super) async fn operate(
        &self,
        data: &Path,
        operation: StorageOperation,
    ) -> Result<StorageReply, StoreError> {
        let (reply, launched) = self.begin(data, operation).await?;
        self.backend.kill(launched).await;
        Ok(reply)
    }

    /// Has an operation done, and waits for the answer; content may follow it.
    pub(super) async fn begin(
        &self,
        data: &Path,
        operation: StorageOperation,
    ) -> Result<(StorageReply, Launched), StoreError> {
        let failed = |error: io::Error| StoreError::Failed(format!("work on a home: {error}"));
        let none = || StoreError::Failed("there is no program that works on homes".to_owned());
        let started = self.backend.storage();
        let started = started.map_err(|error| StoreError::Failed(error.to_string()))?;
        let mut launched = started.ok_or_else(none)?;
        let directory = open(data).map_err(failed)?;
        let namespace = match &self.ids {
            Some(pool) => pool.namespace().map_err(failed)?,
            None => None,
        };
        let exchanged = timeout(WITHIN, exchange(&mut launched, operation, directory, namespace));
        match exchanged.await {
            Ok(Ok(StorageReply::Failed(failure))) => Err(StoreError::Failed(failure.to_string())),
            Ok(Ok(reply)) => Ok((reply, launched)),
            Ok(Err(error)) => Err(failed(error)),
            Err(_) => Err(failed(io::ErrorKind::TimedOut.into())),
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
