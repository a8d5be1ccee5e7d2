//! Changes of files on their way from the agent.

use std::io;

use tokio::net::UnixStream;
use vivarium_protocol::frame::Decoder;
use vivarium_protocol::message::{FileEvent, WATCH_FRAME_BYTES};

use super::Permit;

/// How much is read at one time.
const READ_BYTES: usize = 64 << 10;

/// A directory that is being watched. Dropping it ends that.
#[derive(Debug)]
pub struct FileWatch {
    stream: UnixStream,
    decoder: Decoder,
    _permit: Permit,
}

impl FileWatch {
    pub(super) const fn new(stream: UnixStream, permit: Permit) -> Self {
        Self { stream, decoder: Decoder::new(WATCH_FRAME_BYTES), _permit: permit }
    }

    /// The next events; `None` when the session or the directory is gone. May be cancelled.
    pub async fn next(&mut self) -> Option<io::Result<Vec<FileEvent>>> {
        loop {
            match self.decoder.next_message() {
                Ok(Some(events)) => return Some(Ok(events)),
                Ok(None) => {}
                Err(error) => return Some(Err(error.into())),
            }
            if let Err(error) = self.stream.readable().await {
                return Some(Err(error));
            }
            let mut bytes = Vec::with_capacity(READ_BYTES);
            match self.stream.try_read_buf(&mut bytes) {
                Ok(0) => return None,
                Ok(_) => self.decoder.push(&bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
