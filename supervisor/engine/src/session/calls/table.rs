//! The calls of an execution: those that wait, and what became of the others. Whoever answers them reads
//! and writes here; the session's actor does the rest.
//!
//! An answer is taken once. The same again is a repetition, another one is refused, and to a call that
//! waits no more there is no answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use vivarium_api_types::{CallAnswer, CallInfo, CallOutcome, JsonText};

use super::answer::{AnswerRefusal, ClientAnswer, checked};
use super::arguments;
use super::tool::ToolSet;
use super::wire::{self, Kind};
use super::{MAX_OPEN_BYTES, MAX_OPEN_CALLS};
use crate::budget::Reservation;
use crate::tool_servers::Served;

/// The most calls that are over of which is known what became of them. Of older ones it is known that they
/// are over.
const MAX_REMEMBERED: usize = 1024;

/// How long a round waits for more calls after the first: those that code makes at once are
/// answered at once.
const ROUND_SETTLES: Duration = Duration::from_millis(10);

pub(crate) type CallNumber = u64;

#[derive(Debug)]
pub(crate) struct CallTable {
    inner: Mutex<Table>,
    /// Told when there are answers to be passed on.
    answered: Notify,
    /// How many calls there have been, and whether there may be more.
    seen: watch::Sender<Seen>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    calls: CallNumber,
    open: usize,
    is_over: bool,
}

#[derive(Debug)]
struct Table {
    open: BTreeMap<CallNumber, Open>,
    over: BTreeMap<CallNumber, Over>,
    last: CallNumber,
    /// How often each tool has been called.
    counts: BTreeMap<String, u64>,
    answers: VecDeque<Answered>,
    is_over: bool,
}

/// A call that waits.
#[derive(Debug)]
pub(super) struct Open {
    /// As the kernel numbers it.
    pub(super) number: u32,
    pub(super) tool: Arc<str>,
    arguments: JsonText,
    pub(super) bytes: usize,
    pub(super) since: Instant,
    pub(super) until: Instant,
    expires_at: Timestamp,
    /// The server that answers it; its client if there is none.
    pub(super) server: Option<Arc<str>>,
    /// What it takes of the daemon's memory.
    _reservation: Reservation,
}

/// A call that now waits.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) info: CallInfo,
    /// What is to answer it, and until when; its client if there is nothing.
    pub(crate) served: Option<(CallNumber, Served, Instant)>,
}

/// What became of a call that waits no more.
#[derive(Debug, Clone, Copy)]
enum Over {
    Answered([u8; 32]),
    Otherwise,
    /// It was for a server, and never the client's.
    Served,
}

/// A call that was answered, on its way to the kernel.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) call: CallNumber,
    pub(super) open: Open,
    pub(super) outcome: CallOutcome,
    pub(super) frame: Vec<u8>,
    /// What that takes of the daemon's memory, until the kernel has it.
    pub(super) reservation: Option<Reservation>,
}

impl Default for CallTable {
    fn default() -> Self {
        let table = Table {
            open: BTreeMap::new(),
            over: BTreeMap::new(),
            last: 0,
            counts: BTreeMap::new(),
            answers: VecDeque::new(),
            is_over: false,
        };
        Self {
            inner: Mutex::new(table),
            answered: Notify::new(),
            seen: watch::Sender::new(Seen::default()),
        }
    }
}

impl CallTable {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, table: &Table) {
        let open = table.open.values().filter(|open| open.server.is_none()).count();
        let seen = Seen { calls: table.last, open, is_over: table.is_over };
        self.seen.send_replace(seen);
    }

    /// The calls that wait for the client.
    pub(crate) fn open(&self) -> Vec<CallInfo> {
        let table = self.lock();
        let info = |(number, open): (&CallNumber, &Open)| CallInfo {
            call_id: number.to_string(),
            tool: open.tool.to_string(),
            arguments: open.arguments.clone(),
            expires_at: open.expires_at,
        };
        table.open.iter().filter(|(_, open)| open.server.is_none()).map(info).collect()
    }

    /// Waits until a call waits for the client, and a moment for those that are made with it. Never resolves once there
    /// can be no more.
    pub(crate) async fn waits(&self) {
        let mut seen = self.seen.subscribe();
        loop {
            if seen.wait_for(|seen| seen.open > 0 && !seen.is_over).await.is_err() {
                std::future::pending::<()>().await;
            }
            let before = seen.borrow_and_update().calls;
            tokio::time::sleep(ROUND_SETTLES).await;
            let now = *seen.borrow_and_update();
            if now.open > 0 && now.calls == before {
                return;
            }
        }
    }

    /// The first call after this one that waits for the client, once there is one; `None` once there can be no more.
    pub(crate) async fn after(&self, call: CallNumber) -> Option<(CallNumber, CallInfo)> {
        let mut seen = self.seen.subscribe();
        let mut last = call;
        loop {
            let now = *seen.borrow_and_update();
            let number = |info: &CallInfo| info.call_id.parse().unwrap_or(0);
            let mut open = self.open().into_iter().map(|info| (number(&info), info));
            if let Some(found) = open.find(|(number, _)| *number > last) {
                return Some(found);
            }
            if now.is_over {
                return None;
            }
            last = last.max(now.calls);
            let is_news = |seen: &Seen| seen.calls > last || seen.is_over;
            if seen.wait_for(is_news).await.is_err() {
                return None;
            }
        }
    }

    /// The client answers calls: all of these answers are taken, or none. `leaves_over`: an answer to a call
    /// that waits no more is left instead of refused.
    ///
    /// # Errors
    /// With the call whose answer was not taken.
    pub(crate) fn answer(
        &self,
        answers: Vec<ClientAnswer>,
        leaves_over: bool,
    ) -> Result<(), (CallNumber, AnswerRefusal)> {
        let mut table = self.lock();
        for answer in &answers {
            match table.takes(answer) {
                Err(AnswerRefusal::Over) if leaves_over => {}
                taken => taken.map_err(|refusal| (answer.call, refusal))?,
            }
        }
        for ClientAnswer { call, kind, outcome, json, digest, reservation } in answers {
            // A repetition has nothing to answer.
            let Some(open) = table.open.remove(&call) else { continue };
            let frame = wire::answer(open.number, kind, &json);
            let answered = Answered { call, open, outcome, frame, reservation };
            table.pass_on(answered, Over::Answered(digest));
        }
        self.have_answers(table);
        Ok(())
    }

    /// A server answers a call of its own. If that waits no more, nothing happens.
    pub(crate) fn served(
        &self,
        call: CallNumber,
        answer: &CallAnswer,
        reservation: Option<Reservation>,
    ) {
        let (kind, outcome, json) = checked(answer).unwrap_or_else(|_| {
            let message = "the tool server's answer is too large, or nested too deep";
            (Kind::Error, CallOutcome::Error, wire::message(message))
        });
        let mut table = self.lock();
        let Some(open) = table.open.remove(&call) else { return };
        let frame = wire::answer(open.number, kind, &json);
        let answered = Answered { call, open, outcome, frame, reservation };
        table.pass_on(answered, Over::Served);
        self.have_answers(table);
    }

    fn have_answers(&self, table: MutexGuard<'_, Table>) {
        self.note(&table);
        drop(table);
        self.answered.notify_one();
    }

    /// Resolves when there are answers to be passed on. Safe to cancel.
    pub(super) async fn has_answers(&self) {
        loop {
            let answered = self.answered.notified();
            if !self.lock().answers.is_empty() {
                return;
            }
            answered.await;
        }
    }

    pub(super) fn take_answers(&self) -> VecDeque<Answered> {
        std::mem::take(&mut self.lock().answers)
    }

    /// A kernel calls a tool. Returns the call and who is to answer it but the client, or why it is refused.
    pub(super) fn call(
        &self,
        tools: &ToolSet,
        (number, tool, arguments): (u32, &str, &[u8]),
        until_at_most: Option<Instant>,
        reserve: impl FnOnce(usize) -> Option<Reservation>,
    ) -> Result<Opened, String> {
        let Some((name, declared)) = tools.tools.get_key_value(tool) else {
            return Err(format!(
                "there is no tool {:?}",
                tool.chars().take(64).collect::<String>()
            ));
        };
        let mut table = self.lock();
        let count = table.counts.entry(name.clone()).or_default();
        *count = count.saturating_add(1);
        if *count > declared.max_calls {
            return Err(format!(
                "it was called {} times, as often as it may be",
                declared.max_calls
            ));
        }
        if table.open.len() >= MAX_OPEN_CALLS {
            return Err(format!("{MAX_OPEN_CALLS} calls wait, as many as may"));
        }
        let open_bytes: usize = table.open.values().map(|open| open.bytes).sum();
        drop(table);
        if open_bytes.saturating_add(arguments.len()) > MAX_OPEN_BYTES {
            return Err(format!(
                "the arguments of calls that wait are over the maximum of {MAX_OPEN_BYTES} bytes"
            ));
        }
        let (value, text) = arguments::read(arguments)?;
        if let Some(schema) = &declared.schema {
            schema.check(&value)?;
        }
        let bytes = text.as_str().len();
        // Here, and in its event.
        let Some(reservation) = reserve(bytes.saturating_mul(2)) else {
            return Err("the daemon has no room for its arguments".to_owned());
        };
        let now = Instant::now();
        let mut until = now + declared.timeout;
        if let Some(at_most) = until_at_most {
            until = until.min(at_most);
        }
        let left = until.saturating_duration_since(now);
        let expires_at = Timestamp::now().saturating_add(left).unwrap_or(Timestamp::MAX);
        let mut table = self.lock();
        table.last += 1;
        let call = table.last;
        let tool: Arc<str> = name.as_str().into();
        let info = CallInfo {
            call_id: call.to_string(),
            tool: name.clone(),
            arguments: text.clone(),
            expires_at,
        };
        let open = Open {
            number,
            tool,
            arguments: text,
            bytes,
            since: now,
            until,
            expires_at,
            server: declared.served.as_ref().map(|served| served.server().into()),
            _reservation: reservation,
        };
        table.open.insert(call, open);
        self.note(&table);
        let served = declared.served.clone().map(|served| (call, served, until));
        Ok(Opened { info, served })
    }

    pub(super) fn has(&self, number: u32) -> bool {
        self.lock().open.values().any(|open| open.number == number)
    }

    pub(super) fn waiting(&self) -> usize {
        self.lock().open.len()
    }

    /// When the first of those that wait waits no more.
    pub(super) fn first_until(&self) -> Option<Instant> {
        self.lock().open.values().map(|open| open.until).min()
    }

    /// Ends those that wait of which this is so.
    pub(super) fn end(&self, is_over: impl Fn(&Open) -> bool) -> Vec<(CallNumber, Open)> {
        let mut table = self.lock();
        let ended: Vec<_> =
            table.open.iter().filter(|(_, open)| is_over(open)).map(|(call, _)| *call).collect();
        let mut calls = Vec::with_capacity(ended.len());
        for call in ended {
            if let Some(open) = table.open.remove(&call) {
                let is_served = open.server.is_some();
                table.remember(call, if is_served { Over::Served } else { Over::Otherwise });
                calls.push((call, open));
            }
        }
        self.note(&table);
        calls
    }

    /// There are no more.
    pub(super) fn close(&self) {
        let mut table = self.lock();
        table.is_over = true;
        self.note(&table);
    }
}

impl Table {
    /// Whether an answer of the client's can be taken.
    fn takes(&self, answer: &ClientAnswer) -> Result<(), AnswerRefusal> {
        if let Some(open) = self.open.get(&answer.call) {
            return if open.server.is_none() { Ok(()) } else { Err(AnswerRefusal::Unknown) };
        }
        match self.over.get(&answer.call) {
            Some(Over::Served) => Err(AnswerRefusal::Unknown),
            Some(Over::Answered(before)) if *before == answer.digest => Ok(()),
            Some(Over::Answered(_)) => Err(AnswerRefusal::Answered),
            Some(Over::Otherwise) => Err(AnswerRefusal::Over),
            None if (1..=self.last).contains(&answer.call) => Err(AnswerRefusal::Over),
            None => Err(AnswerRefusal::Unknown),
        }
    }

    fn pass_on(&mut self, answered: Answered, over: Over) {
        self.remember(answered.call, over);
        self.answers.push_back(answered);
    }

    fn remember(&mut self, call: CallNumber, over: Over) {
        self.over.insert(call, over);
        while self.over.len() > MAX_REMEMBERED {
            self.over.pop_first();
        }
    }
}
