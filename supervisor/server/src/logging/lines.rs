//! A bounded queue of log lines for standard error or the journal, so that logging never blocks when
//! nobody reads them.
//!
//! A thread writes the lines. Lines that find no room are dropped and counted, and a line reports
//! their number once lines can be written again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;
use vivarium_protocol::discard;

const MAX_BYTES: usize = 1 << 20;

/// A handle on the queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Notified when there is a line.
    filled: Condvar,
    /// Notified when all lines are written.
    drained: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    is_writing: bool,
    dropped: u64,
    /// How many of these a line has reported.
    reported: u64,
}

impl Lines {
    /// Starts the thread. `note` makes the line that reports how many lines were dropped.
    ///
    /// # Errors
    /// As `pthread_create(3)`.
    pub(super) fn start(
        mut to: impl Write + Send + 'static,
        note: impl Fn(u64) -> Vec<u8> + Send + 'static,
    ) -> io::Result<Self> {
        let lines = Self::default();
        let own = lines.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            loop {
                let (line, dropped) = own.next();
                // In a write of its own: a datagram is one entry.
                let noted = if dropped > 0 { to.write_all(&note(dropped)) } else { Ok(()) };
                let written = noted.and_then(|()| to.write_all(&line));
                let mut waiting = own.lock();
                waiting.is_writing = false;
                // Standard error is closed, or its disk is full; there is nowhere else to write.
                waiting.dropped += u64::from(written.is_err());
                if waiting.lines.is_empty() {
                    own.0.drained.notify_all();
                }
            }
        })?;
        Ok(lines)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues one line, or drops it.
    pub(super) fn push(&self, line: &[u8]) {
        let mut waiting = self.lock();
        if waiting.bytes + line.len() > MAX_BYTES {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line.to_vec());
        self.0.filled.notify_one();
    }

    /// Waits for the next line; also returns how many were dropped and are not reported yet.
    fn next(&self) -> (Vec<u8>, u64) {
        let waiting = self.lock();
        let mut waiting = self
            .0
            .filled
            .wait_while(waiting, |waiting| waiting.lines.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        waiting.is_writing = true;
        let line = waiting.lines.pop_front().unwrap_or_default();
        waiting.bytes -= line.len();
        let dropped = waiting.dropped - waiting.reported;
        waiting.reported = waiting.dropped;
        (line, dropped)
    }

    /// Waits until all are written, but only for so long.
    pub(super) fn flush(&self, within: Duration) {
        let is_busy = |waiting: &mut Waiting| waiting.is_writing || !waiting.lines.is_empty();
        let waited = self.0.drained.wait_timeout_while(self.lock(), within, is_busy);
        discard(waited, "lines that are not written by then are lost");
    }

    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }
}

impl Write for &Lines {
    /// Takes one line: formatters write each line at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn note(dropped: u64) -> Vec<u8> {
        format!("{dropped} were dropped\n").into_bytes()
    }

    #[test]
    fn slow_stderr_drops_and_counts_lines() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = Lines::start(writer, note).unwrap();
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        for _ in 0..3000 {
            lines.push(&line);
        }
        let dropped = lines.dropped();
        assert!(dropped > 1000, "{dropped}");
        lines.flush(Duration::ZERO);
        let (mut text, mut part) = (Vec::new(), [0; 1024]);
        while !String::from_utf8_lossy(&text).contains("were dropped") {
            let len = reader.read(&mut part).unwrap();
            text.extend(part.iter().take(len));
            assert!(text.len() < 3000 * 1024, "it is not said");
        }
    }

    #[test]
    fn lines_come_whole_and_in_order_and_are_there_after_a_flush() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = Lines::start(writer, note).unwrap();
        for number in 0..100 {
            writeln!(&lines, "{number}").unwrap();
        }
        lines.flush(LONG);
        let mut text = [0; 290];
        reader.read_exact(&mut text).unwrap();
        let numbers: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        let text = String::from_utf8_lossy(&text).into_owned();
        let found: String = text.split_whitespace().collect();
        assert_eq!(found, numbers.concat());
        assert_eq!(lines.dropped(), 0);
    }

    #[test]
    fn unwritable_lines_are_counted() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let lines = Lines::start(writer, note).unwrap();
        lines.push(b"nobody is there\n");
        lines.flush(LONG);
        assert_eq!(lines.dropped(), 1);
    }
}
