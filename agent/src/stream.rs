//! Frames over a blocking Unix stream socket, with descriptors alongside where a message
//! carries some.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;
use vivarium_protocol::discard;
use vivarium_protocol::frame::{self, FrameError, PREFIX_BYTES};

use crate::sys;

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error("the peer closed the socket")]
    Closed,
    #[error("socket")]
    Io(#[from] io::Error),
    #[error("message")]
    Frame(#[from] FrameError),
}

pub(crate) fn send<T: Serialize>(
    mut stream: &UnixStream,
    message: &T,
    max: usize,
) -> Result<(), StreamError> {
    Ok(stream.write_all(&frame::encode(message, max)?)?)
}

/// Sends one message to a peer that needs none if it is gone.
pub(crate) fn send_if_open<T: Serialize>(stream: &UnixStream, message: &T, max: usize) {
    discard(send(stream, message, max), "the peer may be gone");
}

/// Receives one message, waiting for it.
///
/// # Errors
/// [`StreamError::Closed`] at a clean end, else what went wrong.
pub(crate) fn receive<T: DeserializeOwned>(
    mut stream: impl Read,
    max: usize,
) -> Result<T, StreamError> {
    let mut prefix = [0; PREFIX_BYTES];
    read_or_closed(&mut stream, &mut prefix)?;
    let mut body = vec![0; frame::announced_len(prefix, max)?];
    stream.read_exact(&mut body)?;
    Ok(frame::decode(&body)?)
}

/// Fills `buffer`; [`StreamError::Closed`] if the stream ends before its first byte.
fn read_or_closed(stream: &mut impl Read, buffer: &mut [u8]) -> Result<(), StreamError> {
    stream.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => StreamError::Closed,
        _ => StreamError::Io(error),
    })
}

/// Sends one small message with `fds` alongside.
pub(crate) fn send_with<T: Serialize>(
    stream: &UnixStream,
    message: &T,
    fds: &[RawFd],
    max: usize,
) -> Result<(), StreamError> {
    let bytes = frame::encode(message, max)?;
    let rights = [ControlMessage::ScmRights(fds)];
    let sent = sendmsg::<()>(
        stream.as_raw_fd(),
        &[IoSlice::new(&bytes)],
        &rights,
        MsgFlags::MSG_NOSIGNAL,
        None,
    )
    .map_err(io::Error::from)?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::WriteZero, "a small message was cut").into())
    }
}

/// Receives one small message and the descriptors alongside it.
pub(crate) fn receive_with<T: DeserializeOwned>(
    stream: &UnixStream,
    max: usize,
) -> Result<(T, Vec<OwnedFd>), StreamError> {
    let mut prefix = [0; PREFIX_BYTES];
    let (count, fds) = sys::recv_with_descriptors(stream, &mut prefix, MsgFlags::MSG_WAITALL)?;
    if count == 0 {
        return Err(StreamError::Closed);
    }
    let mut body = vec![0; frame::announced_len(prefix, max)?];
    if count != PREFIX_BYTES {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    (&*stream).read_exact(&mut body)?;
    Ok((frame::decode(&body)?, fds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
    use vivarium_protocol::message::{Program, ToLauncher};

    #[test]
    fn descriptors_arrive_with_their_message() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let numbers = [writer.as_raw_fd()];
        let spawn = ToLauncher::Spawn { number: 1, program: Program::Kernel };
        send_with(&ours, &spawn, &numbers, MAX_SMALL_FRAME_BYTES).unwrap();
        drop(writer);
        let (message, fds) = receive_with::<ToLauncher>(&theirs, MAX_SMALL_FRAME_BYTES).unwrap();
        assert_eq!((message, fds.len()), (spawn, 1));
        nix::unistd::write(&fds[0], b"x").unwrap();
        drop(fds);
        let mut text = String::new();
        std::fs::File::from(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }

    #[test]
    fn a_clean_end_and_a_cut_message_are_different_errors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        let end = receive::<ToLauncher>(&theirs, MAX_SMALL_FRAME_BYTES);
        assert!(matches!(end, Err(StreamError::Closed)));
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(&[9, 0, 0, 0, 1]).unwrap();
        drop(ours);
        let end = receive::<ToLauncher>(&theirs, MAX_SMALL_FRAME_BYTES);
        assert!(matches!(end, Err(StreamError::Io(_))));
    }
}
