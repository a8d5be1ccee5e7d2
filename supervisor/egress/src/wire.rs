//! The messages on a Unix stream socket: frames of [`vivarium_protocol::frame`], and a session's
//! listening socket beside its [`ToGate::Open`] (`SCM_RIGHTS`, unix(7)).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use serde::Serialize;
use vivarium_protocol::frame::{self, Decoder, FrameError};

use crate::message::ToGate;

/// The largest message in either direction, in bytes.
pub const MAX_GATE_FRAME_BYTES: usize = 1 << 20;

/// Why what came is not a message.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Not a frame, or none of this contract.
    #[error("message")]
    Frame(#[from] FrameError),
    /// A message to open a session without a socket.
    #[error("a session to be opened came without its socket")]
    NoSocket,
    /// Descriptors without a message that they belong to.
    #[error("{0} descriptors that belong to no message")]
    Stray(usize),
}

/// A message as bytes.
///
/// # Errors
/// [`FrameError::TooLarge`] if it is over [`MAX_GATE_FRAME_BYTES`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    frame::encode(message, MAX_GATE_FRAME_BYTES)
}

/// The gate's end: puts sockets to the messages that they came with.
///
/// Descriptors arrive with or before the last byte of their message, and in order, so the first that
/// is left belongs to the first message that has one.
#[derive(Debug)]
pub struct GateReceiver {
    decoder: Decoder,
    sockets: VecDeque<OwnedFd>,
}

impl Default for GateReceiver {
    fn default() -> Self {
        Self { decoder: Decoder::new(MAX_GATE_FRAME_BYTES), sockets: VecDeque::new() }
    }
}

impl GateReceiver {
    /// Adds what one recvmsg(2) gave.
    pub fn push(&mut self, bytes: &[u8], descriptors: Vec<OwnedFd>) {
        self.decoder.push(bytes);
        self.sockets.extend(descriptors);
    }

    /// The next message, if all of it is there, with its socket if it is [`ToGate::Open`].
    ///
    /// # Errors
    /// Any [`WireError`]; the stream can not be used after one.
    pub fn next_message(&mut self) -> Result<Option<(ToGate, Option<OwnedFd>)>, WireError> {
        let Some(message) = self.decoder.next_message::<ToGate>()? else {
            // What has begun may be the message of one.
            return match self.sockets.len() {
                stray @ 2.. => Err(WireError::Stray(stray)),
                _ => Ok(None),
            };
        };
        if !matches!(message, ToGate::Open { .. }) {
            return Ok(Some((message, None)));
        }
        match self.sockets.pop_front() {
            Some(socket) => Ok(Some((message, Some(socket)))),
            None => Err(WireError::NoSocket),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;
    use vivarium_protocol::stream::{recv_some, send_some};

    use super::*;
    use crate::decision::SessionKey;
    use crate::rules::Rules;

    fn open(session: SessionKey) -> ToGate {
        let (tenant, rules) = ("default".to_owned(), Rules::default());
        ToGate::Open { session, tenant, rules, authority: None }
    }

    /// Receives in pieces of `piece` bytes; each session's socket is to say which session's it is.
    fn receive_all(piece: usize) -> Vec<SessionKey> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        for session in 1..=5 {
            let (socket, mut peer) = UnixStream::pair().unwrap();
            std::io::Write::write_all(&mut peer, &[u8::try_from(session).unwrap()]).unwrap();
            let close = encode(&ToGate::Close { session: 100 + session }).unwrap();
            send_some(&ours, &close, &[] as &[UnixStream]).unwrap();
            send_some(&ours, &encode(&open(session)).unwrap(), &[socket.as_fd()]).unwrap();
        }
        drop(ours);
        let mut receiver = GateReceiver::default();
        let mut opened = Vec::new();
        loop {
            let mut bytes = vec![0; piece];
            let (len, descriptors) = recv_some(&theirs, &mut bytes).unwrap();
            if len == 0 {
                return opened;
            }
            receiver.push(&bytes[..len], descriptors);
            while let Some((message, socket)) = receiver.next_message().unwrap() {
                let ToGate::Open { session, .. } = message else { continue };
                let mut byte = [0];
                let mut socket = UnixStream::from(socket.unwrap());
                std::io::Read::read_exact(&mut socket, &mut byte).unwrap();
                assert_eq!(SessionKey::from(byte[0]), session);
                opened.push(session);
            }
        }
    }

    #[test]
    fn each_session_gets_its_own_socket_however_the_stream_is_cut() {
        for piece in [1, 2, 7, 64, 4096] {
            assert_eq!(receive_all(piece), [1, 2, 3, 4, 5], "{piece}");
        }
    }

    #[test]
    fn sockets_and_messages_that_do_not_fit_are_errors() {
        let socket = || OwnedFd::from(UnixStream::pair().unwrap().0);
        let mut receiver = GateReceiver::default();
        receiver.push(&encode(&open(1)).unwrap(), vec![]);
        assert!(matches!(receiver.next_message(), Err(WireError::NoSocket)));
        let mut receiver = GateReceiver::default();
        receiver.push(&[], vec![socket(), socket()]);
        assert!(matches!(receiver.next_message(), Err(WireError::Stray(2))));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut receiver = GateReceiver::default();
            receiver.push(&bytes, vec![]);
            while let Ok(Some(_)) = receiver.next_message() {}
        }
    }
}
