//! The pipes of an execution's calls, and the clock of what it waits. The session's actor holds it, and
//! takes a step when [`Calls::next_event`] says so.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::{pipe2, read};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};
use vivarium_api_types::CallOutcome;
use vivarium_protocol::frame::Decoder;

use super::table::{CallNumber, CallTable, Open, Opened};
use super::tool::ToolSet;
use super::wire::{self, FromKernel, Kind, MAX_FRAME_BYTES, WireError};
use crate::budget::{Account, Reservation};

/// How much a kernel may leave unread before no more calls of it are read.
const MAX_UNREAD_BYTES: usize = 256 << 10;

const READ_BYTES: usize = 64 << 10;

/// At the end: more than a pipe holds.
const MAX_LAST_READS: usize = 32;

/// What happened to a call.
#[derive(Debug)]
pub(crate) enum Happened {
    Opened(Opened),
    Ended {
        call: CallNumber,
        tool: Arc<str>,
        /// The server that it was for; its client if there is none.
        server: Option<Arc<str>>,
        bytes: usize,
        outcome: CallOutcome,
        after: Duration,
    },
    /// It did not reach whoever was to answer it.
    Refused {
        tool: String,
        bytes: usize,
    },
    /// What came over the pipe was no call, and there are no more.
    Nonsense(String),
}

#[derive(Debug)]
pub(crate) struct Calls {
    tools: Arc<ToolSet>,
    table: Arc<CallTable>,
    /// None once there are no more calls.
    pipes: Option<Pipes>,
    decoder: Decoder,
    outbox: VecDeque<Unread>,
    /// Bytes of the first that have been written.
    written: usize,
    /// Of all in the outbox.
    unread: usize,
    waited: Duration,
    waiting_since: Option<Instant>,
    /// Attempts, refused ones too.
    attempts: u64,
    account: Account,
}

#[derive(Debug)]
struct Pipes {
    from_kernel: pipe::Receiver,
    to_kernel: pipe::Sender,
}

#[derive(Debug)]
struct Unread {
    frame: Vec<u8>,
    _reservation: Option<Reservation>,
}

impl Calls {
    /// Pipes for an execution, and the ends that its kernel gets: the one to write calls to, and the one to
    /// read answers from.
    pub(crate) fn new(
        tools: Arc<ToolSet>,
        table: Arc<CallTable>,
        account: Account,
    ) -> io::Result<(Self, [OwnedFd; 2])> {
        let (calls, calls_end) = pipe2(OFlag::O_CLOEXEC)?;
        let (answers_end, answers) = pipe2(OFlag::O_CLOEXEC)?;
        let pipes = Pipes {
            from_kernel: pipe::Receiver::from_owned_fd(calls)?,
            to_kernel: pipe::Sender::from_owned_fd(answers)?,
        };
        let frame = wire::tools(&tools.declaration);
        let mut new = Self {
            tools,
            table,
            pipes: Some(pipes),
            decoder: Decoder::new(MAX_FRAME_BYTES),
            outbox: VecDeque::new(),
            written: 0,
            unread: 0,
            waited: Duration::ZERO,
            waiting_since: None,
            attempts: 0,
            account,
        };
        new.push(frame, None);
        Ok((new, [calls_end, answers_end]))
    }

    /// Resolves when there is a step to take. Safe to cancel. `may_read`: whether calls may be read, whose events
    /// need room.
    pub(crate) async fn next_event(&self, may_read: bool) {
        let Some(pipes) = &self.pipes else { return pending().await };
        tokio::select! {
            _ = pipes.from_kernel.readable(), if may_read && self.reads() => {}
            _ = pipes.to_kernel.writable(), if !self.outbox.is_empty() => {}
            () = self.table.has_answers() => {}
            () = async {
                match self.table.first_until() {
                    Some(until) => sleep_until(until).await,
                    None => pending().await,
                }
            } => {}
        }
    }

    const fn reads(&self) -> bool {
        self.unread <= MAX_UNREAD_BYTES
    }

    /// Whether the execution waits for an answer.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// Passes on answers, reads calls, and ends those whose time is up.
    pub(crate) fn step(&mut self, may_read: bool) -> Vec<Happened> {
        let mut happened = Vec::new();
        self.pass_answers(&mut happened);
        self.end_overdue(&mut happened);
        if may_read && let Err(error) = self.read(&mut happened) {
            happened.push(Happened::Nonsense(error.to_string()));
            self.close(&mut happened);
        }
        self.write();
        self.count_waiting();
        happened
    }

    /// The execution is over.
    pub(crate) fn end(&mut self) -> Vec<Happened> {
        let mut happened = Vec::new();
        self.pass_answers(&mut happened);
        self.read_last(&mut happened);
        self.close(&mut happened);
        self.count_waiting();
        happened
    }

    /// Code may have given calls up just before the end, which we have heard of first.
    fn read_last(&mut self, happened: &mut Vec<Happened>) {
        let Some(pipes) = &self.pipes else { return };
        let mut buffer = vec![0; READ_BYTES];
        for _ in 0..MAX_LAST_READS {
            // Whether it is readable the runtime may not know yet.
            let Ok(count) = read(&pipes.from_kernel, &mut buffer) else { return };
            if count == 0 {
                return;
            }
            self.decoder.push(buffer.get(..count).unwrap_or_default());
            loop {
                match self.decoder.next_with(wire::parse) {
                    Ok(Some(FromKernel::Withdraw { number })) => {
                        withdraw(&self.table, number, happened);
                    }
                    // Nobody would answer it.
                    Ok(Some(FromKernel::Call { .. })) => {}
                    Ok(None) => break,
                    Err::<_, WireError>(_) => return,
                }
            }
        }
    }

    fn pass_answers(&mut self, happened: &mut Vec<Happened>) {
        for answered in self.table.take_answers() {
            self.push(answered.frame, answered.reservation);
            happened.push(ended((answered.call, answered.open), answered.outcome));
        }
    }

    fn end_overdue(&mut self, happened: &mut Vec<Happened>) {
        let now = Instant::now();
        for (call, open) in self.table.end(|open| open.until <= now) {
            let why = "it was not answered in time";
            self.push(wire::refusal(open.number, Kind::Timeout, why), None);
            happened.push(ended((call, open), CallOutcome::Timeout));
        }
    }

    /// Reads once: a kernel that always writes keeps nobody else waiting.
    fn read(&mut self, happened: &mut Vec<Happened>) -> Result<(), WireError> {
        if !self.reads() {
            return Ok(());
        }
        let Some(pipes) = &self.pipes else { return Ok(()) };
        let mut bytes = Vec::with_capacity(READ_BYTES);
        match pipes.from_kernel.try_read_buf(&mut bytes) {
            Ok(0) => {
                self.close(happened);
                return Ok(());
            }
            Ok(_) => self.decoder.push(&bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_) => {
                self.close(happened);
                return Ok(());
            }
        }
        while let Some(frame) = self.decoder.next_with(wire::parse)? {
            match frame {
                FromKernel::Call { number, tool, arguments } => {
                    self.call(number, &tool, &arguments, happened)?;
                }
                FromKernel::Withdraw { number } => {
                    withdraw(&self.table, number, happened);
                }
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        number: u32,
        tool: &str,
        arguments: &[u8],
        happened: &mut Vec<Happened>,
    ) -> Result<(), WireError> {
        if self.table.has(number) {
            return Err(WireError::Duplicate);
        }
        self.attempts = self.attempts.saturating_add(1);
        let bounds = self.tools.bounds;
        let bytes = arguments.len();
        if self.attempts > bounds.max_calls {
            let why = format!(
                "the execution has made {} calls, as many as it may (session.max_calls)",
                bounds.max_calls
            );
            self.push(wire::refusal(number, Kind::Refused, &why), None);
            // Counted once: what comes after it is as refused, and nobody hears of it.
            if self.attempts == bounds.max_calls.saturating_add(1) {
                happened.push(Happened::Refused { tool: tool.to_owned(), bytes });
            }
            return Ok(());
        }
        let now = Instant::now();
        let waited = self.waited + self.waiting_since.map_or(Duration::ZERO, |since| now - since);
        let left = bounds.max_wait.saturating_sub(waited);
        if left.is_zero() {
            let why = "the execution has waited as long as it may (session.max_call_wait)";
            self.push(wire::refusal(number, Kind::Timeout, why), None);
            happened.push(Happened::Refused { tool: tool.to_owned(), bytes });
            return Ok(());
        }
        let account = self.account.clone();
        let reserve = |bytes| account.take(bytes).ok();
        let until = now.checked_add(left);
        match self.table.call(&self.tools, (number, tool, arguments), until, reserve) {
            Ok(opened) => {
                // As the call's own end does, or the next would find a moment left that nobody can use.
                self.waiting_since.get_or_insert(now);
                happened.push(Happened::Opened(opened));
            }
            Err(why) => {
                self.push(wire::refusal(number, Kind::Refused, &why), None);
                happened.push(Happened::Refused { tool: tool.to_owned(), bytes });
            }
        }
        Ok(())
    }

    fn push(&mut self, frame: Vec<u8>, reservation: Option<Reservation>) {
        if self.pipes.is_some() {
            self.unread += frame.len();
            self.outbox.push_back(Unread { frame, _reservation: reservation });
            self.write();
        }
    }

    fn write(&mut self) {
        while let (Some(first), Some(pipes)) = (self.outbox.front(), &self.pipes) {
            let rest = first.frame.get(self.written..).unwrap_or_default();
            match pipes.to_kernel.try_write(rest) {
                Ok(count) => {
                    self.written += count;
                    self.unread = self.unread.saturating_sub(count);
                    if self.written >= first.frame.len() {
                        self.outbox.pop_front();
                        self.written = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The kernel has closed it, which shows when its calls are read.
                Err(_) => self.forget_unread(),
            }
        }
    }

    fn forget_unread(&mut self) {
        self.outbox.clear();
        (self.written, self.unread) = (0, 0);
    }

    fn close(&mut self, happened: &mut Vec<Happened>) {
        self.pipes = None;
        self.forget_unread();
        self.decoder = Decoder::new(MAX_FRAME_BYTES);
        self.table.close();
        for call in self.table.end(|_| true) {
            happened.push(ended(call, CallOutcome::Ended));
        }
    }

    fn count_waiting(&mut self) {
        let now = Instant::now();
        match (self.table.waiting() > 0, self.waiting_since) {
            (true, None) => self.waiting_since = Some(now),
            (false, Some(since)) => {
                self.waited += now - since;
                self.waiting_since = None;
            }
            _ => {}
        }
    }
}

fn withdraw(table: &CallTable, number: u32, happened: &mut Vec<Happened>) {
    for call in table.end(|open| open.number == number) {
        happened.push(ended(call, CallOutcome::Withdrawn));
    }
}

fn ended((call, open): (CallNumber, Open), outcome: CallOutcome) -> Happened {
    let Open { tool, server, bytes, since, .. } = open;
    Happened::Ended { call, tool, server, bytes, outcome, after: since.elapsed() }
}
