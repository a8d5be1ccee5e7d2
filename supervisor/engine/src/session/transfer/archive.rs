//! A directory on its way from the agent, as a tar archive in chunks.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::net::UnixStream;
use vivarium_protocol::content::{Chunks, Piece};
use vivarium_protocol::message::FileEntry;

use super::{BUFFER_BYTES, Permit};
use crate::session::Session;

/// A directory that is being read. Dropping it ends the transfer.
#[derive(Debug)]
pub struct ArchiveDownload {
    session: Arc<Session>,
    stream: UnixStream,
    entry: FileEntry,
    chunks: Chunks,
    ended: bool,
    _permit: Permit,
}

impl ArchiveDownload {
    pub(super) fn new(
        session: Arc<Session>,
        stream: UnixStream,
        entry: FileEntry,
        permit: Permit,
    ) -> Self {
        let chunks = Chunks::default();
        Self { session, stream, entry, chunks, ended: false, _permit: permit }
    }

    /// The directory.
    pub const fn entry(&self) -> &FileEntry {
        &self.entry
    }

    /// The next bytes; `None` when all have come.
    /// Fails with `UnexpectedEof` if the agent broke off, or the session ended.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Vec<u8>>>> {
        while !self.ended {
            if let Err(error) = ready!(self.stream.poll_read_ready(context)) {
                return Poll::Ready(Some(Err(error)));
            }
            let mut bytes = Vec::with_capacity(BUFFER_BYTES);
            match self.stream.try_read_buf(&mut bytes) {
                Ok(0) => {
                    let error =
                        io::Error::new(io::ErrorKind::UnexpectedEof, "the archive broke off");
                    return Poll::Ready(Some(Err(error)));
                }
                Ok(_) => {
                    self.session.touch();
                    match self.decode(&bytes) {
                        Ok(content) if content.is_empty() => {}
                        content => return Poll::Ready(Some(content)),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        Poll::Ready(None)
    }

    /// As [`Self::poll_chunk`].
    pub async fn chunk(&mut self) -> Option<io::Result<Vec<u8>>> {
        std::future::poll_fn(|context| self.poll_chunk(context)).await
    }

    fn decode(&mut self, mut bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::with_capacity(bytes.len());
        loop {
            let piece = self.chunks.next(&mut bytes);
            match piece.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                Piece::Data(data) => content.extend_from_slice(data),
                Piece::Nothing => return Ok(content),
                Piece::End => {
                    self.ended = true;
                    return Ok(content);
                }
            }
        }
    }
}
