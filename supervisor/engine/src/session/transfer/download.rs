//! A file's content on its way from the agent.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::net::UnixStream;
use vivarium_protocol::message::FileEntry;

use super::{BUFFER_BYTES, Permit};
use crate::session::Session;

/// A file that is being read. Dropping it ends the transfer.
#[derive(Debug)]
pub struct Download {
    session: Arc<Session>,
    stream: UnixStream,
    entry: FileEntry,
    length: u64,
    left: u64,
    _permit: Permit,
}

impl Download {
    pub(super) const fn new(
        session: Arc<Session>,
        stream: UnixStream,
        entry: FileEntry,
        length: u64,
        permit: Permit,
    ) -> Self {
        Self { session, stream, entry, length, left: length, _permit: permit }
    }

    pub const fn entry(&self) -> &FileEntry {
        &self.entry
    }

    /// How many bytes come in all.
    pub const fn length(&self) -> u64 {
        self.length
    }

    pub const fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes; `None` when all have come.
    /// Fails with `UnexpectedEof` if the file shrank or the session ended before all had come.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Vec<u8>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let wanted = usize::try_from(self.left).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
        loop {
            if let Err(error) = ready!(self.stream.poll_read_ready(context)) {
                return Poll::Ready(Some(Err(error)));
            }
            // Not a field: it goes on to the client.
            let mut bytes = Vec::with_capacity(wanted);
            match self.stream.try_read_buf(&mut bytes) {
                Ok(0) => {
                    let why = "the content ended before its announced length";
                    let error = io::Error::new(io::ErrorKind::UnexpectedEof, why);
                    return Poll::Ready(Some(Err(error)));
                }
                Ok(_) => {
                    // An allocation may be larger than what was asked for.
                    bytes.truncate(wanted);
                    self.left -= bytes.len() as u64;
                    self.session.touch();
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    /// As [`Self::poll_chunk`].
    pub async fn chunk(&mut self) -> Option<io::Result<Vec<u8>>> {
        std::future::poll_fn(|context| self.poll_chunk(context)).await
    }
}
