//! The control socket to the supervisor: a stream of messages, some with descriptors, on which nothing
//! ever waits.
//!
//! The agent must go on reading from a supervisor that does not read, so unsent messages are queued
//! here. The session bounds the queue: while [`Control::is_full`], it reads nothing from sources of
//! which there may be any amount.
//!
//! What the session says in one turn goes out at its end, in one call: each call wakes the supervisor.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, sendmsg};
use vivarium_protocol::clock::monotonic_us;
use vivarium_protocol::frame::{self, Decoder, FrameError, MAX_FRAME_BYTES};
use vivarium_protocol::message::{ExecutionNumber, Failure, FromAgent, ToAgent};
use vivarium_protocol::stream;

use crate::failure::OrFailure;
use crate::kernel::launcher_client::is_retry;

/// How much may be queued before bulk is held back.
const FULL_BYTES: usize = 256 << 10;

const READ_BYTES: usize = 16 << 10;

/// How many frames go out in one call.
const FRAMES_AT_ONCE: usize = 16;

/// How long the start of code may be held back, for what follows to go with it.
const START_DELAY: Duration = Duration::from_millis(1);

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
    started: Option<Started>,
}

/// Code that has started, which the supervisor does not know yet.
#[derive(Debug, Clone, Copy)]
struct Started {
    execution: ExecutionNumber,
    at_us: u64,
    /// When it is to know.
    due: Instant,
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
            started: None,
        }
    }

    /// Queues a message, for the end of the turn. What makes the queue full goes out at once.
    pub(super) fn send(&mut self, message: &FromAgent) -> Result<(), Failure> {
        self.send_started()?;
        self.enqueue(message)
    }

    /// Notes that code has started, which is sent before whatever is sent next, or once it is
    /// [due](Self::started_due).
    pub(super) fn note_started(&mut self, execution: ExecutionNumber) -> Result<(), Failure> {
        self.send_started()?;
        let due = Instant::now() + START_DELAY;
        self.started = Some(Started { execution, at_us: monotonic_us(), due });
        Ok(())
    }

    /// When a start that is held back is to be sent.
    pub(super) fn started_due(&self) -> Option<Instant> {
        self.started.map(|started| started.due)
    }

    pub(super) fn send_started(&mut self) -> Result<(), Failure> {
        let Some(Started { execution, at_us, .. }) = self.started.take() else { return Ok(()) };
        self.enqueue(&FromAgent::Started { execution, at_us })
    }

    fn enqueue(&mut self, message: &FromAgent) -> Result<(), Failure> {
        let bytes = frame::encode(message, MAX_FRAME_BYTES).or_failure("send to the supervisor")?;
        self.waiting = self.waiting.saturating_add(bytes.len());
        self.outbox.push_back(bytes);
        if self.is_full() {
            self.write();
        }
        Ok(())
    }

    /// Writes what is queued, as far as the supervisor reads.
    pub(super) fn write(&mut self) {
        self.write_with(MsgFlags::MSG_DONTWAIT);
    }

    /// Writes all queued messages, however long that takes. Nothing may be sent after it.
    pub(super) fn flush(&mut self) {
        self.write_with(MsgFlags::empty());
    }

    fn write_with(&mut self, flags: MsgFlags) {
        while !self.outbox.is_empty() {
            let mut offset = self.sent;
            let frames = self.outbox.iter().take(FRAMES_AT_ONCE).map(|frame| {
                IoSlice::new(frame.get(std::mem::take(&mut offset)..).unwrap_or_default())
            });
            let frames: Vec<_> = frames.collect();
            let flags = flags | MsgFlags::MSG_NOSIGNAL;
            match sendmsg::<()>(self.socket.as_raw_fd(), &frames, &[], flags, None) {
                Ok(count) => self.remove(count),
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

    /// Takes away the first `count` bytes, which have been sent.
    fn remove(&mut self, count: usize) {
        self.waiting = self.waiting.saturating_sub(count);
        self.sent = self.sent.saturating_add(count);
        while let Some(first) = self.outbox.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            self.outbox.pop_front();
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
        control.write();
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
    fn the_start_of_code_is_sent_with_what_follows() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut control = Control::new(&ours);
        let receive = || stream::receive::<FromAgent>(&theirs, MAX_FRAME_BYTES);
        let before = monotonic_us();
        control.note_started(1).unwrap();
        let after = monotonic_us();
        control.write();
        assert!(receive().is_err(), "nothing has followed");
        control.send(&FromAgent::Pong).unwrap();
        control.write();
        assert!(control.started_due().is_none());
        let FromAgent::Started { execution: 1, at_us } = receive().unwrap() else { panic!() };
        assert!((before..=after).contains(&at_us), "{before} {at_us} {after}");
        assert_eq!(receive().unwrap(), FromAgent::Pong);
        // Of two starts the first is sent when the second is noted.
        control.note_started(2).unwrap();
        control.note_started(3).unwrap();
        control.write();
        assert!(matches!(receive().unwrap(), FromAgent::Started { execution: 2, .. }));
        assert!(receive().is_err());
        control.send_started().unwrap();
        control.write();
        assert!(matches!(receive().unwrap(), FromAgent::Started { execution: 3, .. }));
    }

    #[test]
    fn frames_that_go_out_together_arrive_whole() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut control = Control::new(&ours);
        let output = |size: usize| FromAgent::Output {
            execution: 1,
            stream: vivarium_protocol::message::Stream::Stdout,
            data: vec![b'x'; size],
        };
        // Some are larger than what the socket takes at once, and there are more than go out in one call.
        let sizes = [1, 100_000, 3].into_iter().cycle().take(3 * FRAMES_AT_ONCE);
        let messages: Vec<_> = sizes.map(output).collect();
        for message in &messages {
            control.send(message).unwrap();
        }
        let mut decoder = Decoder::new(MAX_FRAME_BYTES);
        let mut received = Vec::new();
        while received.len() < messages.len() {
            control.write();
            let mut bytes = [0; 4096];
            let count = std::io::Read::read(&mut theirs, &mut bytes).unwrap();
            decoder.push(&bytes[..count]);
            while let Some(message) = decoder.next_message::<FromAgent>().unwrap() {
                received.push(message);
            }
        }
        assert!(received == messages);
        assert!(!control.wants_write() && control.waiting == 0);
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
