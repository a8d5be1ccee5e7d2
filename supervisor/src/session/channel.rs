//! Frames to and from the agent, without ever blocking on either direction.
//!
//! What an agent does not read waits here, bounded by there being one execution at a time; what
//! it says is bounded by the protocol's maximum before anything is allocated for it.

use std::collections::VecDeque;
use std::io;

use serde::Serialize;
use tokio::io::Interest;
use tokio::net::UnixStream;
use vivarium_protocol::frame::{self, Decoder, FrameError, MAX_FRAME_BYTES};
use vivarium_protocol::message::FromAgent;

/// Bytes asked for in one read.
const READ_BYTES: usize = 64 << 10;

/// Why nothing more can be heard.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChannelError {
    /// End of file.
    #[error("the agent is gone")]
    Closed,
    /// The socket failed.
    #[error("the agent's socket failed: {0}")]
    Io(io::Error),
    /// It does not speak the protocol.
    #[error("the agent sent {0}")]
    Frame(#[from] FrameError),
}

/// One agent's socket.
#[derive(Debug)]
pub(super) struct Channel {
    stream: UnixStream,
    decoder: Decoder,
    /// Whether the decoder may still hold a whole frame.
    fresh: bool,
    unsent: VecDeque<Vec<u8>>,
    /// Bytes of the first unsent frame that have been sent.
    sent: usize,
}

impl Channel {
    pub(super) const fn new(stream: UnixStream) -> Self {
        let decoder = Decoder::new(MAX_FRAME_BYTES);
        Self { stream, decoder, fresh: false, unsent: VecDeque::new(), sent: 0 }
    }

    pub(super) fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Sends a message: now as far as the socket takes it, the rest while [`Self::next`] waits.
    pub(super) fn send<T: Serialize>(&mut self, message: &T) -> Result<(), FrameError> {
        self.unsent.push_back(frame::encode(message, MAX_FRAME_BYTES)?);
        // A socket that fails is found by the next read.
        self.flush().unwrap_or_else(|error| tracing::debug!(%error, "writing to an agent"));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        while let Some(frame) = self.unsent.front() {
            match self.stream.try_write(frame.get(self.sent..).unwrap_or_default()) {
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => {
                    self.unsent.clear();
                    self.sent = 0;
                    return Err(error);
                }
            }
            if self.sent >= frame.len() {
                self.unsent.pop_front();
                self.sent = 0;
            }
        }
        Ok(())
    }

    /// The next message. Safe to cancel: nothing is lost.
    pub(super) async fn next(&mut self) -> Result<FromAgent, ChannelError> {
        loop {
            if self.fresh {
                if let Some(message) = self.decoder.next_message()? {
                    return Ok(message);
                }
                self.fresh = false;
            }
            let interest = if self.unsent.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            let ready = self.stream.ready(interest).await.map_err(ChannelError::Io)?;
            if ready.is_writable() {
                self.flush().unwrap_or_else(|error| tracing::debug!(%error, "writing to an agent"));
            }
            if ready.is_readable() {
                self.read()?;
            }
        }
    }

    fn read(&mut self) -> Result<(), ChannelError> {
        // Not a field: an idle session is not to hold 64 KiB.
        let mut bytes = Vec::with_capacity(READ_BYTES);
        match self.stream.try_read_buf(&mut bytes) {
            Ok(0) => Err(ChannelError::Closed),
            Ok(_) => {
                self.decoder.push(&bytes);
                self.fresh = true;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            // The agent died with unread bytes of ours in its socket.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                Err(ChannelError::Closed)
            }
            Err(error) => Err(ChannelError::Io(error)),
        }
    }
}
