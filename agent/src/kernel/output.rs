//! The output of a kernel or command: descriptor 1 or 2.
//!
//! Every byte is read, so that nothing the session runs can block on a full pipe for good, but
//! only so many per execution are passed on. Output between executions (of threads, of child processes
//! left running) belongs to the next one: a little of it is kept, the rest counted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use vivarium_protocol::message::Stream;

const CHUNK_BYTES: usize = 64 << 10;

/// How much of the output between two executions is kept for the second.
const CARRY_BYTES: usize = 64 << 10;

/// The most that is read to empty the pipe: more than any pipe holds (/proc/sys/fs/pipe-max-size is
/// 1 MiB), so that a writer that never stops does not hold up the end of an execution.
const DRAIN_BYTES: usize = 2 << 20;

/// How much of what a terminal prints is read in each [`PACE`]: more than anybody reads, and little
/// work for the supervisor.
const TERMINAL_BYTES: u64 = 2 << 20;
const PACE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Output {
    pipe: Option<OwnedFd>,
    stream: Stream,
    cap: u64,
    passed: u64,
    dropped: u64,
    carry: Vec<u8>,
    /// Of a terminal: since when the bytes that it has passed on are counted.
    paced_since: Option<Instant>,
}

impl Output {
    /// Reads from `pipe`; passes on at most `cap` bytes per execution.
    pub(crate) fn new(pipe: OwnedFd, stream: Stream, cap: Option<u64>) -> io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self {
            pipe: Some(pipe),
            stream,
            cap: cap.unwrap_or(u64::MAX),
            passed: 0,
            dropped: 0,
            carry: Vec::new(),
            paced_since: None,
        })
    }

    /// Reads from a terminal, of which nothing is dropped: what it prints beyond a rate waits.
    pub(crate) fn of_terminal(terminal: OwnedFd) -> io::Result<Self> {
        let output = Self::new(terminal, Stream::Stdout, None)?;
        Ok(Self { paced_since: Some(Instant::now()), ..output })
    }

    /// When more is read of a terminal that has printed as much as it may for now.
    pub(crate) fn paused_until(&self) -> Option<Instant> {
        let until = self.paced_since.filter(|_| self.passed >= TERMINAL_BYTES)? + PACE;
        (until > Instant::now()).then_some(until)
    }

    pub(crate) const fn stream(&self) -> Stream {
        self.stream
    }

    /// The pipe to poll, until its last writer is gone.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| self.paused_until().is_none()).map(AsFd::as_fd)
    }

    /// An execution begins: counts from zero. Returns the output kept from before it.
    pub(crate) fn begin(&mut self) -> Vec<u8> {
        self.passed = 0;
        let carried = std::mem::take(&mut self.carry);
        self.admit(carried)
    }

    /// An execution is over. Returns how many of its bytes were dropped.
    pub(crate) fn end(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    pub(crate) fn read(&mut self, running: bool) -> Option<Vec<u8>> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        loop {
            let pipe = self.pipe.as_ref()?;
            match rustix::io::read(pipe, spare_capacity(&mut chunk)) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Ok(0) | Err(_) => {
                    self.pipe = None;
                    return None;
                }
                Ok(_) => break,
            }
        }
        if self.paced_since.is_some_and(|since| since.elapsed() >= PACE) {
            (self.paced_since, self.passed) = (Some(Instant::now()), 0);
        }
        if running {
            return Some(self.admit(chunk));
        }
        let room = CARRY_BYTES.saturating_sub(self.carry.len()).min(chunk.len());
        self.dropped = self.dropped.saturating_add(count_of(chunk.len() - room));
        chunk.truncate(room);
        self.carry.append(&mut chunk);
        Some(Vec::new())
    }

    pub(crate) fn drain(&mut self, mut pass: impl FnMut(Vec<u8>)) {
        let mut seen = 0;
        while seen < DRAIN_BYTES
            && let Some(data) = self.read(true)
        {
            seen += CHUNK_BYTES.max(data.len());
            if !data.is_empty() {
                pass(data);
            }
        }
    }

    /// Counts `data`, and cuts off what is over the cap.
    fn admit(&mut self, mut data: Vec<u8>) -> Vec<u8> {
        let room = self.cap.saturating_sub(self.passed);
        let keep = usize::try_from(room).unwrap_or(usize::MAX).min(data.len());
        self.dropped = self.dropped.saturating_add(count_of(data.len() - keep));
        data.truncate(keep);
        self.passed = self.passed.saturating_add(count_of(keep));
        data
    }
}

fn count_of(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(cap: u64) -> (Output, OwnedFd) {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        (Output::new(reader, Stream::Stdout, Some(cap)).unwrap(), writer)
    }

    #[test]
    fn output_over_the_cap_is_dropped_and_counted() {
        let (mut output, writer) = pipe(4);
        assert_eq!(output.begin(), b"");
        nix::unistd::write(&writer, b"abcdef").unwrap();
        assert_eq!(output.read(true).unwrap(), b"abcd");
        assert_eq!(output.end(), 2);
        assert_eq!(output.begin(), b"");
        nix::unistd::write(&writer, b"gh").unwrap();
        assert_eq!(output.read(true).unwrap(), b"gh", "the next execution has its own cap");
    }

    #[test]
    fn output_between_executions_belongs_to_the_next_one() {
        let (mut output, writer) = pipe(100);
        nix::unistd::write(&writer, b"early").unwrap();
        assert_eq!(output.read(false).unwrap(), b"");
        assert_eq!(output.begin(), b"early");
    }

    #[test]
    fn output_kept_between_executions_is_bounded() {
        let (mut output, writer) = pipe(u64::MAX);
        let block = vec![b'x'; 32 << 10];
        for _ in 0..10 {
            nix::unistd::write(&writer, &block).unwrap();
            output.read(false).unwrap();
        }
        assert_eq!(output.begin().len(), CARRY_BYTES);
        assert_eq!(output.end(), count_of(10 * block.len() - CARRY_BYTES));
    }

    #[test]
    fn a_terminal_that_prints_too_fast_is_read_later() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut output = Output::of_terminal(reader).unwrap();
        let block = vec![b'x'; 32 << 10];
        let mut read = 0;
        while output.fd().is_some() {
            nix::unistd::write(&writer, &block).unwrap();
            read += output.read(true).unwrap().len();
        }
        assert_eq!(count_of(read), TERMINAL_BYTES);
        assert!(output.paused_until().is_some());
        output.paced_since = output.paced_since.map(|since| since - PACE);
        assert!(output.fd().is_some() && output.paused_until().is_none());
        nix::unistd::write(&writer, &block).unwrap();
        assert_eq!(output.read(true).unwrap().len(), block.len(), "nothing is dropped");
        assert_eq!(output.end(), 0);
    }

    #[test]
    fn draining_returns_while_the_writer_is_still_open() {
        let (mut output, writer) = pipe(100);
        output.begin();
        nix::unistd::write(&writer, b"tail").unwrap();
        let mut all = Vec::new();
        output.drain(|data| all.extend(data));
        assert_eq!(all, b"tail");
        assert!(output.fd().is_some());
        drop(writer);
        assert!(output.read(true).is_none());
        assert!(output.fd().is_none(), "the end of the pipe is the end of polling");
    }
}
