//! Files of homes and volumes, whether or not a session has them.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::OwnedSemaphorePermit;
use vivarium_protocol::message::{
    FileEntry, FileOperation, FileProblem, FileReply, StorageOperation, StorageReply,
};

use super::{Store, StoreError, Stores};
use crate::backend::Launched;

/// Files of all homes and volumes that may be read at one time; each takes a process.
pub(super) const MAX_READS: usize = 32;

/// Bytes of a content that are read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// A file that is being read. Dropping it ends that.
#[derive(Debug)]
pub struct StoreDownload {
    launched: Launched,
    entry: FileEntry,
    left: u64,
    _permit: OwnedSemaphorePermit,
}

impl StoreDownload {
    pub const fn entry(&self) -> &FileEntry {
        &self.entry
    }

    /// How many bytes come.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes; `None` when all have come.
    /// Fails with `UnexpectedEof` if the file shrank before all had come.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Vec<u8>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let end = || io::Error::new(io::ErrorKind::UnexpectedEof, "the content ended early");
        let wanted = usize::try_from(self.left).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
        let Some(stream) = &self.launched.stream else { return Poll::Ready(Some(Err(end()))) };
        loop {
            if let Err(error) = ready!(stream.poll_read_ready(context)) {
                return Poll::Ready(Some(Err(error)));
            }
            let mut bytes = Vec::with_capacity(wanted);
            match stream.try_read_buf(&mut bytes) {
                Ok(0) => return Poll::Ready(Some(Err(end()))),
                Ok(_) => {
                    bytes.truncate(wanted);
                    self.left -= bytes.len() as u64;
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl Stores {
    /// An operation on files but reading one.
    pub async fn file(
        &self,
        store: &Store,
        operation: FileOperation,
    ) -> Result<Result<FileReply, FileProblem>, StoreError> {
        let permit = self.permit()?;
        if matches!(operation, FileOperation::Delete { .. }) {
            store.quota.stale();
        }
        let done = self.operate(&store.data(), StorageOperation::File(operation)).await;
        drop(permit);
        match done? {
            StorageReply::File(result) => Ok(result),
            _ => Err(out_of_turn()),
        }
    }

    /// Opens a file, or `length` bytes of it from `offset` on.
    pub async fn read(
        &self,
        store: &Store,
        path: String,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Result<StoreDownload, FileProblem>, StoreError> {
        let permit = self.permit()?;
        let operation = StorageOperation::File(FileOperation::Read { path, offset, length });
        let (reply, launched) = self.begin(&store.data(), operation).await?;
        match reply {
            StorageReply::File(Ok(FileReply::Content { entry, length })) => {
                Ok(Ok(StoreDownload { launched, entry, left: length, _permit: permit }))
            }
            StorageReply::File(Err(problem)) => Ok(Err(problem)),
            _ => Err(out_of_turn()),
        }
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        Arc::clone(&self.reads).try_acquire_owned().map_err(|_| StoreError::Busy)
    }
}

fn out_of_turn() -> StoreError {
    StoreError::Failed("read a home: an answer to something else".to_owned())
}
