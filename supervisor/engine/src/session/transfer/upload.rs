//! A content on its way to the agent: chunks, each with its length before it, and one of length
//! 0 at the end. An end of file without that says that the rest will not come.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use vivarium_protocol::frame::{PREFIX_BYTES, write_prefix};
use vivarium_protocol::message::FileReply;

use super::{Answer, BUFFER_BYTES, TransferError, outcome_of};
use crate::session::Session;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uploaded {
    pub files: u64,
    pub bytes: u64,
}

/// A file or archive that is being written. Dropping it before [`Self::finish`] takes it back:
/// nothing of it is left.
#[derive(Debug)]
pub struct UploadWriter {
    session: Arc<Session>,
    stream: UnixStream,
    answer: oneshot::Receiver<Answer>,
    /// The chunk that is being filled, room for its length first.
    chunk: Vec<u8>,
}

impl UploadWriter {
    pub(super) fn new(
        session: Arc<Session>,
        stream: UnixStream,
        answer: oneshot::Receiver<Answer>,
    ) -> Self {
        Self { session, stream, answer, chunk: vec![0; PREFIX_BYTES] }
    }

    /// Sends more, waiting for the agent to take it.
    /// On an error the transfer is over.
    pub async fn send(mut self, mut data: &[u8]) -> Result<Self, TransferError> {
        while !data.is_empty() {
            let room = PREFIX_BYTES + BUFFER_BYTES - self.chunk.len();
            let (now, later) = data.split_at(data.len().min(room));
            self.chunk.extend_from_slice(now);
            data = later;
            if now.len() == room {
                self.flush().await?;
            }
        }
        Ok(self)
    }

    /// Says that this was all, and waits until it is in its place.
    /// On an error nothing is in its place.
    pub async fn finish(mut self) -> Result<Uploaded, TransferError> {
        if self.chunk.len() > PREFIX_BYTES {
            self.flush().await?;
        }
        self.flush().await?;
        match outcome_of(self.answer.await)? {
            (FileReply::Written { files, bytes }, _) => Ok(Uploaded { files, bytes }),
            _ => Err(TransferError::OutOfTurn),
        }
    }

    /// Sends the chunk as it is.
    async fn flush(&mut self) -> Result<(), TransferError> {
        write_prefix(&mut self.chunk);
        let written = tokio::select! {
            biased;
            answer = &mut self.answer => return Err(too_early(answer)),
            written = self.stream.write_all(&self.chunk) => written,
        };
        if written.is_err() {
            // The agent has let go of its end, and says why.
            return Err(too_early((&mut self.answer).await));
        }
        self.chunk.truncate(PREFIX_BYTES);
        self.session.touch();
        Ok(())
    }
}

/// An answer to a content of which not all was sent.
fn too_early(answer: Result<Answer, oneshot::error::RecvError>) -> TransferError {
    outcome_of(answer).map_or_else(|error| error, |_| TransferError::OutOfTurn)
}
