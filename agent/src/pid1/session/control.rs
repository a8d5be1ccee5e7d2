//! The control socket to the supervisor: a stream of messages, some with descriptors, on which nothing
//! ever waits.
//!
//! The agent must go on reading from a supervisor that does not read, so unsent messages are queued
//! here. The session bounds the queue: while [`Control::is_full`], it reads nothing from sources of
//! which there may be any amount.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use vivarium_protocol::frame::{self, Decoder, FrameError, MAX_FRAME_BYTES};
use vivarium_protocol::message::{Failure, FromAgent, ToAgent};
use vivarium_protocol::stream;

use crate::failure::OrFailure;
use crate::kernel::launcher_client::is_retry;

/// How much may be queued before bulk is held back.
const FULL_BYTES: usize = 256 << 10;

const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Control<'a> {
    socket: &'a UnixStream,
    decoder: Decoder,
    /// Descriptors, in the order of the messages that they came with.
    descriptors: VecDeque<OwnedFd>,
    /// Frames to be sent, and how much of the first has been.
    outbox: VecDeque<Vec<u8>>,
    sent: usize,
    waiting: usize,
}

impl<'a> Control<'a> {
    pub(super) fn new(socket: &'a UnixStream) -> Self {
        Self {
            socket,
            decoder: Decoder::new(MAX_FRAME_BYTES),
            descriptors: VecDeque::new(),
            outbox: VecDeque::new(),
            sent: 0,
            waiting: 0,
        }
    }

    /// Sends a message, now or as soon as the supervisor reads.
    pub(super) fn send(&mut self, message: &FromAgent) -> Result<(), Failure> {
        let bytes = frame::encode(message, MAX_FRAME_BYTES).or_failure("send to the supervisor")?;
        self.waiting = self.waiting.saturating_add(bytes.len());
        self.outbox.push_back(bytes);
        self.write();
        Ok(())
    }

    pub(super) fn write(&mut self) {
        self.write_with(MsgFlags::MSG_DONTWAIT);
    }

    /// Writes all queued messages, however long that takes. Nothing may be sent after it.
    pub(super) fn flush(&mut self) {
        self.write_with(MsgFlags::empty());
    }

    fn write_with(&mut self, flags: MsgFlags) {
        while let Some(first) = self.outbox.front() {
            let rest = first.get(self.sent..).unwrap_or_default();
            match send(self.socket.as_raw_fd(), rest, flags | MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => {
                    self.sent = self.sent.saturating_add(count);
                    self.waiting = self.waiting.saturating_sub(count);
                    if count == rest.len() {
                        self.outbox.pop_front();
                        self.sent = 0;
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                // The supervisor is gone, which shows at the next read.
                Err(_) => {
                    self.outbox.clear();
                    (self.sent, self.waiting) = (0, 0);
                }
            }
        }
    }

    pub(super) fn wants_write(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Whether so much is queued that bulk is to be held back.
    pub(super) const fn is_full(&self) -> bool {
        self.waiting > FULL_BYTES
    }

    /// Reads once; whether the supervisor is still there.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = vec![0; READ_BYTES];
        let count = match stream::recv_some(self.socket, &mut buffer) {
            Ok((count, descriptors)) => {
                self.descriptors.extend(descriptors);
                count
            }
            Err(error) if is_retry(&error) => return true,
            Err(_) => 0,
        };
        self.decoder.push(buffer.get(..count).unwrap_or_default());
        count > 0
    }

    pub(super) fn next_message(&mut self) -> Result<Option<ToAgent>, FrameError> {
        self.decoder.next_message()
    }

    /// The descriptor that came with the message just read.
    pub(super) fn descriptor(&mut self) -> io::Result<OwnedFd> {
        self.descriptors.pop_front().ok_or_else(|| io::Error::other("no descriptor came with it"))
    }
}

impl AsFd for Control<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_protocol::message::{Description, FileOperation};

    #[test]
    fn messages_are_queued_for_a_supervisor_that_does_not_read() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut control = Control::new(&ours);
        let message = FromAgent::Described(Description {
            generation: None,
            execution: None,
            processes: 0,
            agent_pss_bytes: 0,
            kernel_pss_bytes: 0,
            disk_bytes: 0,
        });
        let mut sent = 0;
        while !control.is_full() {
            control.send(&message).unwrap();
            sent += 1;
        }
        // And its messages are still read.
        stream::send(&theirs, &ToAgent::Describe, MAX_FRAME_BYTES).unwrap();
        assert!(control.read());
        assert_eq!(control.next_message().unwrap(), Some(ToAgent::Describe));
        for _ in 0..sent {
            let received: FromAgent = stream::receive(&theirs, MAX_FRAME_BYTES).unwrap();
            assert_eq!(received, message);
            control.write();
        }
        assert!(!control.wants_write());
        drop(theirs);
        assert!(!control.read());
    }

    #[test]
    fn descriptors_are_matched_with_their_messages() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut control = Control::new(&ours);
        let files = [c"/dev/null", c"/dev/zero"];
        for (file, transfer) in files.into_iter().zip(1..) {
            let file = std::fs::File::open(file.to_str().unwrap()).unwrap();
            let operation = FileOperation::Write { path: "a".into() };
            let message = ToAgent::File { transfer, operation };
            stream::send(&theirs, &ToAgent::Describe, MAX_FRAME_BYTES).unwrap();
            stream::send_with(&theirs, &message, &[file], MAX_FRAME_BYTES).unwrap();
        }
        drop(theirs);
        while control.read() {}
        let mut sizes = Vec::new();
        while let Some(message) = control.next_message().unwrap() {
            if let ToAgent::File { .. } = message {
                let file = std::fs::File::from(control.descriptor().unwrap());
                let mut byte = [0];
                sizes.push(std::io::Read::read(&mut &file, &mut byte).unwrap());
            }
        }
        assert_eq!(sizes, [0, 1], "/dev/null ends at once, /dev/zero does not");
        assert!(control.descriptor().is_err());
    }
}
