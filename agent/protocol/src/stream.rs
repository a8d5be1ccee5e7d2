//! Messages over a Unix stream socket, and descriptors alongside (`SCM_RIGHTS`, unix(7)).

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::discard;
use crate::frame::{self, FrameError, PREFIX_BYTES};

/// The most descriptors that come with one message: a session's six namespaces, its cgroup, and the
/// kernel's own.
const MAX_DESCRIPTORS: usize = 12;

/// Room for the control message of [`MAX_DESCRIPTORS`].
type Ancillary = [MaybeUninit<u8>; rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
const ANCILLARY: Ancillary = [MaybeUninit::uninit(); size_of::<Ancillary>()];

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The stream ended before the first byte of a message.
    #[error("the peer closed the socket")]
    Closed,
    /// A system call failed, or the stream ended within a message.
    #[error("socket")]
    Io(#[from] io::Error),
    /// The bytes are no message, or the message is too long.
    #[error("message")]
    Frame(#[from] FrameError),
}

/// Sends one message, waiting for the peer to read.
///
/// # Errors
/// Any but [`StreamError::Closed`].
pub fn send<T: Serialize>(
    mut stream: &UnixStream,
    message: &T,
    max: usize,
) -> Result<(), StreamError> {
    Ok(stream.write_all(&frame::encode(message, max)?)?)
}

/// Sends one message to a peer that needs none if it is gone.
pub fn send_if_open<T: Serialize>(stream: &UnixStream, message: &T, max: usize) {
    discard(send(stream, message, max), "the peer may be gone");
}

/// Receives one message, waiting for it.
///
/// # Errors
/// [`StreamError::Closed`] at a clean end, else what went wrong.
pub fn receive<T: DeserializeOwned>(mut stream: impl Read, max: usize) -> Result<T, StreamError> {
    let mut prefix = [0; PREFIX_BYTES];
    stream.read_exact(&mut prefix).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => StreamError::Closed,
        _ => StreamError::Io(error),
    })?;
    receive_body(stream, prefix, max)
}

fn receive_body<T: DeserializeOwned>(
    mut stream: impl Read,
    prefix: [u8; PREFIX_BYTES],
    max: usize,
) -> Result<T, StreamError> {
    let mut body = vec![0; frame::announced_len(prefix, max).map_err(FrameError::from)?];
    stream.read_exact(&mut body)?;
    Ok(frame::decode(&body)?)
}

/// Sends one small message with `fds` alongside.
///
/// # Errors
/// Any but [`StreamError::Closed`].
pub fn send_with<T: Serialize>(
    stream: &UnixStream,
    message: &T,
    fds: &[impl AsFd],
    max: usize,
) -> Result<(), StreamError> {
    let bytes = frame::encode(message, max)?;
    if send_bytes(stream, &bytes, fds, SendFlags::empty())? == bytes.len() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::WriteZero, "a small message was cut").into())
}

/// Receives one message and the descriptors alongside it, waiting for it.
///
/// # Errors
/// As of [`receive`].
pub fn receive_with<T: DeserializeOwned>(
    stream: &UnixStream,
    max: usize,
) -> Result<(T, Vec<OwnedFd>), StreamError> {
    let mut prefix = [0; PREFIX_BYTES];
    match recv_bytes(stream, &mut prefix, RecvFlags::WAITALL)? {
        (0, _) => Err(StreamError::Closed),
        (PREFIX_BYTES, fds) => Ok((receive_body(stream, prefix, max)?, fds)),
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
}

/// Sends as much of `bytes` as the socket takes now, with all of `fds`. Returns how many bytes that is.
///
/// # Errors
/// As of sendmsg(2); nothing was sent then.
pub fn send_some(socket: impl AsFd, bytes: &[u8], fds: &[impl AsFd]) -> io::Result<usize> {
    send_bytes(socket, bytes, fds, SendFlags::DONTWAIT)
}

/// Fills `buffer` with what is there now. Returns how many bytes came, 0 at the end, and the descriptors
/// alongside. One call never joins the descriptors of two messages: unix(7).
///
/// # Errors
/// As of recvmsg(2), and if more descriptors came than any message has.
pub fn recv_some(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    recv_bytes(socket, buffer, RecvFlags::DONTWAIT)
}

/// Fills `buffer`, waiting for that, and gives the descriptors alongside.
///
/// # Errors
/// As of [`recv_some`], and if the stream ends before.
pub fn recv_all(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Vec<OwnedFd>> {
    let (count, descriptors) = recv_bytes(socket, buffer, RecvFlags::WAITALL)?;
    if count == buffer.len() { Ok(descriptors) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn send_bytes(
    socket: impl AsFd,
    bytes: &[u8],
    fds: &[impl AsFd],
    flags: SendFlags,
) -> io::Result<usize> {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = ANCILLARY;
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags | SendFlags::NOSIGNAL)?)
}

fn recv_bytes(
    socket: impl AsFd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = ANCILLARY;
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(buffer)];
    let message = recvmsg(socket, parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("more descriptors than fit"));
    }
    let mut received = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = part {
            received.extend(fds);
        }
    }
    Ok((message.bytes, received))
}

#[cfg(test)]
#[cfg(not(miri))] // which has no sendmsg(2)
mod tests {
    use std::fs::File;

    use super::*;
    use crate::frame::MAX_SMALL_FRAME_BYTES;
    use crate::message::{Program, ToLauncher};

    #[test]
    fn descriptors_arrive_with_their_message() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let leaf = crate::leaf::Leaf::FIRST;
        let spawn = ToLauncher::Spawn { number: 1, program: Program::Kernel, leaf };
        send_with(&ours, &spawn, &[&writer; MAX_DESCRIPTORS], MAX_SMALL_FRAME_BYTES).unwrap();
        drop(writer);
        let (message, fds) = receive_with::<ToLauncher>(&theirs, MAX_SMALL_FRAME_BYTES).unwrap();
        assert_eq!((message, fds.len()), (spawn, MAX_DESCRIPTORS));
        for fd in fds {
            File::from(fd).write_all(b"x").unwrap();
        }
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x".repeat(MAX_DESCRIPTORS));
    }

    #[test]
    fn more_descriptors_than_any_message_has_are_refused() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let too_many = [ours.as_fd(); 20];
        let error = send_some(&ours, b"x", &too_many).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&too_many)));
        sendmsg(&ours, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        assert!(recv_some(&theirs, &mut [0]).is_err());
    }

    #[test]
    fn a_clean_end_and_a_cut_message_are_different_errors() {
        let receive = |bytes: &[u8], with_descriptors: bool| {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(bytes).unwrap();
            drop(ours);
            if with_descriptors {
                receive_with::<ToLauncher>(&theirs, MAX_SMALL_FRAME_BYTES)
                    .map(|(message, _)| message)
            } else {
                receive(&theirs, MAX_SMALL_FRAME_BYTES)
            }
        };
        for with_descriptors in [false, true] {
            assert!(matches!(receive(&[], with_descriptors), Err(StreamError::Closed)));
            let cut = receive(&[9, 0, 0, 0, 1], with_descriptors);
            assert!(matches!(cut, Err(StreamError::Io(_))));
        }
        assert!(matches!(receive(&[9, 0], true), Err(StreamError::Io(_))));
    }
}
