//! The thread that writes.
//!
//! It takes all that waits, writes it at once and synchronises it at once, so that executions that
//! end together share one fdatasync(2).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::oneshot;
use vivarium_protocol::{discard, error_chain};

use crate::log::Shared;
use crate::open::{self, Opened};
use crate::store::{self, Current, Directory, Interference};
use crate::{BreakRecord, Event, Fsync, Head, OnFull, Settings, line};

/// The most that is written at once.
const BATCH_RECORDS: usize = 1024;
const BATCH_BYTES: usize = 4 << 20;

/// How long to wait before trying again what could not be written.
const RETRY: Duration = Duration::from_millis(250);

const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The log of the daemon gets the head of the chain every so many lines.
const HEAD_EVERY_LINES: u64 = 1000;

#[derive(Debug)]
pub(crate) enum Message {
    Record(Box<Record>),
    Settings(Box<Settings>),
    Stop(oneshot::Sender<()>),
}

/// An event that waits to be written.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) time: Timestamp,
    pub(crate) event: Event,
    /// What it takes of the queue, in bytes.
    pub(crate) bytes: usize,
    /// Told when it is as safe as the policy says, or the writer cannot make it so for now.
    pub(crate) written: Option<oneshot::Sender<()>>,
}

/// Since when, and why, nothing can be written.
#[derive(Debug)]
struct Failing {
    since: Timestamp,
    reason: String,
}

#[derive(Debug)]
pub(crate) struct Writer {
    dir: Directory,
    current: Current,
    head: Head,
    complete: VecDeque<(u64, Head)>,
    settings: Settings,
    shared: Arc<Shared>,
    /// Written before anything else, and never dropped.
    notes: Vec<Event>,
    queue: VecDeque<Record>,
    /// Events that were dropped and that no line tells of yet.
    lost: u64,
    failing: Option<Failing>,
    unsynced_since: Option<Instant>,
    lines_since_head: u64,
}

impl Writer {
    pub(crate) fn new(opened: Opened, settings: Settings, shared: Arc<Shared>) -> Self {
        let Opened { dir, current, head, complete, notes, .. } = opened;
        Self {
            dir,
            current,
            head,
            complete: complete.into(),
            settings,
            shared,
            notes,
            queue: VecDeque::new(),
            lost: 0,
            failing: None,
            unsynced_since: None,
            lines_since_head: 0,
        }
    }

    /// Writes until it is told to stop, or nobody is left who could record anything. Returns when the
    /// directory is another's to lock.
    pub(crate) fn run(self, messages: &Receiver<Message>) {
        if let Some(done) = self.until_told(messages) {
            discard(done.send(()), "nobody waits any more");
        }
    }

    fn until_told(mut self, messages: &Receiver<Message>) -> Option<oneshot::Sender<()>> {
        self.tell_head();
        loop {
            self.work();
            let message = match self.wait() {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(time) => messages.recv_timeout(time),
            };
            let stop = match message {
                Ok(message) => self.take(message, messages),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    self.close();
                    return None;
                }
            };
            if stop.is_some() {
                self.close();
                return stop;
            }
        }
    }

    /// How long to wait for something new.
    fn wait(&self) -> Option<Duration> {
        if self.failing.is_some() {
            return Some(RETRY);
        }
        let since = self.unsynced_since.filter(|_| self.settings.fsync == Fsync::Second)?;
        Some(SYNC_EVERY.saturating_sub(since.elapsed()))
    }

    /// Takes a message, and what has come after it.
    fn take(
        &mut self,
        first: Message,
        messages: &Receiver<Message>,
    ) -> Option<oneshot::Sender<()>> {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Record(record) => self.queue.push_back(*record),
                Message::Settings(settings) => self.settings = *settings,
                Message::Stop(done) => return Some(done),
            }
            next = (self.queue.len() < BATCH_RECORDS).then(|| messages.try_recv().ok()).flatten();
        }
        None
    }

    fn close(&mut self) {
        self.work();
        if !self.queue.is_empty() {
            tracing::error!(lines = self.queue.len(), "could not be written to the audit log");
        }
        self.sync();
        self.tell_head();
    }

    fn work(&mut self) {
        self.lost += self.shared.take_lost();
        while !self.queue.is_empty()
            || !self.notes.is_empty()
            || self.lost > 0
            || self.failing.is_some()
        {
            if let Err(error) = self.write() {
                self.failed(&error);
                break;
            }
        }
        if self.settings.fsync == Fsync::Second
            && self.unsynced_since.is_some_and(|since| since.elapsed() >= SYNC_EVERY)
        {
            self.sync();
        }
    }

    /// Writes what waits, or a part of it that fits into one batch.
    fn write(&mut self) -> io::Result<()> {
        if let Some(interference) = self.current.interference()? {
            self.begin_anew(interference)?;
        }
        self.rotate()?;
        let now = Timestamp::now();
        let (mut lines, mut head) = (Vec::new(), self.head);
        let gap = (self.lost > 0 || self.failing.is_some()).then(|| self.gap());
        for event in gap.iter().chain(&self.notes) {
            head = line::write(&mut lines, head, now, event)?;
        }
        let mut count = 0;
        for record in &self.queue {
            if count >= BATCH_RECORDS || lines.len() >= BATCH_BYTES {
                break;
            }
            head = line::write(&mut lines, head, record.time, &record.event)?;
            count += 1;
        }
        self.current.append(&lines)?;
        if self.settings.fsync == Fsync::Each {
            if let Err(error) = self.current.sync() {
                self.current.revert(lines.len() as u64)?;
                return Err(error);
            }
        } else {
            self.unsynced_since.get_or_insert_with(Instant::now);
        }
        let written = head.seq - self.head.seq;
        self.head = head;
        self.notes.clear();
        self.lost = 0;
        if self.failing.take().is_some() {
            tracing::info!("the audit log is written again");
        }
        self.shared.wrote(written, lines.len() as u64);
        self.release(count);
        self.lines_since_head += written;
        if self.lines_since_head >= HEAD_EVERY_LINES {
            self.tell_head();
        }
        Ok(())
    }

    /// Tells those who wait for the first records of the queue, and forgets these.
    fn release(&mut self, count: usize) {
        let mut bytes = 0;
        for record in self.queue.drain(..count) {
            bytes += record.bytes;
            if let Some(written) = record.written {
                discard(written.send(()), "its execution is gone");
            }
        }
        self.shared.release(count, bytes);
    }

    fn gap(&self) -> Event {
        let failing = self.failing.as_ref();
        let full = "more came than could be written".to_owned();
        Event::Gap {
            lost: self.lost,
            since: failing.map(|failing| failing.since),
            reason: failing.map_or(full, |failing| failing.reason.clone()),
        }
    }

    fn failed(&mut self, error: &io::Error) {
        self.shared.failed();
        if self.failing.is_none() {
            let refuses = self.settings.on_full == OnFull::Stop;
            tracing::error!(
                %error, dir = %self.dir.path.display(), refuses, "the audit log cannot be written"
            );
            let (since, reason) = (Timestamp::now(), error.to_string());
            self.failing = Some(Failing { since, reason });
        }
        match self.settings.on_full {
            OnFull::Stop => {
                self.shared.refuse();
                // They wait for nothing that is in sight: their lines are kept.
                for written in self.queue.iter_mut().filter_map(|record| record.written.take()) {
                    discard(written.send(()), "its execution is gone");
                }
            }
            OnFull::GoOn => {
                self.lost += self.queue.len() as u64;
                self.shared.dropped(self.queue.len() as u64);
                self.release(self.queue.len());
            }
        }
    }

    /// Begins a new file when this one is large enough, and removes those there are too many of.
    fn rotate(&mut self) -> io::Result<()> {
        if self.current.bytes >= self.settings.rotate_mb.saturating_mul(1 << 20) {
            self.current.sync()?;
            let before = (self.current.number, self.head);
            let number = self.current.number + 1;
            let made = Current::create(&self.dir, number)?;
            let begun = open::begin(made, Some(before), Vec::new());
            let (current, head) = begun.inspect_err(|_| self.take_back(number))?;
            self.complete.push_back(before);
            (self.current, self.head, self.unsynced_since) = (current, head, None);
            self.shared.wrote(1, self.current.bytes);
            self.tell_head();
        }
        while self.complete.len() as u64 >= self.settings.keep.max(1)
            && let Some((number, head)) = self.complete.front().copied()
        {
            let file = store::name(number);
            let event = Event::FileRemoved { file, seq: head.seq, head: head.hash };
            let mut line = Vec::new();
            let after = line::write(&mut line, self.head, Timestamp::now(), &event)?;
            self.current.append(&line)?;
            self.head = after;
            // Before the file is gone: a crash must not leave it missing and nothing that says so.
            self.current.sync()?;
            self.complete.pop_front();
            self.shared.wrote(1, line.len() as u64);
            match self.dir.remove(number) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::error!(%error, number, "a file of the audit log is left behind");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A file without a first line would only be in the way.
    fn take_back(&self, number: u64) {
        if let Err(error) = self.dir.remove(number) {
            tracing::warn!(%error, number, "an empty file of the audit log is left behind");
        }
    }

    /// Somebody else has changed the file: it stays as evidence, and a new chain records it.
    fn begin_anew(&mut self, interference: Interference) -> io::Result<()> {
        let file = store::name(self.current.number);
        tracing::error!(file, reason = interference.reason(), "the audit log was tampered with");
        self.shared.broken(1);
        let reason = interference.reason().to_owned();
        let also = BreakRecord { file, line: 0, reason };
        let begun = open::begin_anew(&self.dir, Some(also));
        let (current, head) = begun.map_err(|error| io::Error::other(error_chain(&error)))?;
        self.complete.push_back((self.current.number, self.head));
        (self.current, self.head, self.unsynced_since) = (current, head, None);
        self.tell_head();
        Ok(())
    }

    fn sync(&mut self) {
        match self.current.sync() {
            Ok(()) => self.unsynced_since = None,
            Err(error) => {
                self.shared.failed();
                self.unsynced_since = Some(Instant::now());
                tracing::error!(%error, "the audit log could not be synchronised");
            }
        }
    }

    /// Where whoever can rewrite the file cannot rewrite it.
    fn tell_head(&mut self) {
        self.lines_since_head = 0;
        tracing::info!(seq = self.head.seq, head = %self.head.hash, "audit chain head");
    }
}
