//! What became of one execution so far, for whoever wants to know: its events, and its outcome.
//!
//! The session's actor writes it through the one [`LogWriter`]; clients wait for its end or follow
//! its events through a [`EventSubscription`], now or later. Only so many bytes of events are kept, and the
//! actor holds the execution back ([`ExecutionLog::ready_for_events`]) while a client that follows it is behind by
//! all of them, but not for ever. It must never grow with what code prints or with how slowly
//! anybody reads, nor give out an event twice under two numbers.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use vivarium_api_types::{ExecutionKind, ExecutionSummary, Outcome, Progress};
use vivarium_protocol::message::ExecutionNumber;

use super::calls::table::CallTable;
use super::{Refusal, StdinPipe};
use crate::budget::Reservation;
use crate::latest::Latest;

mod event;
mod ring;
mod subscribers;
mod subscription;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub use event::{Event, EventKind, EventNumber};
pub use subscription::{Batch, EventSubscription, NoSuchEvent};
pub use writer::LogWriter;

use ring::Ring;
use subscribers::{Hold, Subscribers};

#[derive(Debug, Clone)]
pub enum Stage {
    /// Its session does not know of it yet.
    Submitted,
    /// It waits for its turn, under this number.
    Queued(ExecutionNumber),
    /// The same, and somebody has to allow it first.
    AwaitingApproval(ExecutionNumber),
    Running(ExecutionNumber),
    Done(Arc<Outcome>),
    /// It was not taken, for this reason, and never will be.
    Refused(Refusal),
}

impl Stage {
    /// Whether nothing more will happen.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Refused(_))
    }
}

#[derive(Debug)]
pub struct ExecutionLog {
    /// Bytes of events that are kept, the last event always.
    capacity_bytes: usize,
    /// Whether it is to end when nobody attached is left.
    cancel_on_disconnect: bool,
    stage: Latest<Stage>,
    inner: Mutex<Inner>,
    new_events: Notify,
    /// Told when a reader has taken something, or is gone.
    events_taken: Notify,
    /// Whether everybody went away who wanted it to run.
    abandoned: Latest<bool>,
    /// When it was over. Outlives the log.
    ended: Arc<OnceLock<Instant>>,
    /// What it takes of the daemon's memory once it is over.
    reservation: OnceLock<Reservation>,
    /// The standard input of a command that others write to.
    stdin: OnceLock<StdinPipe>,
    /// The calls of code that may make some.
    calls: OnceLock<Arc<CallTable>>,
    kind: OnceLock<ExecutionKind>,
    pub submitted_at: Timestamp,
    started_at: OnceLock<Timestamp>,
    ended_at: OnceLock<Timestamp>,
}

#[derive(Debug)]
struct Inner {
    ring: Ring,
    subscribers: Subscribers,
    attached: usize,
}

/// Somebody who wants this execution to run. If its request said so, it ends when the last of
/// them has been dropped.
#[derive(Debug)]
pub struct Attached {
    log: Arc<ExecutionLog>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut inner = self.log.lock();
        inner.attached = inner.attached.saturating_sub(1);
        if inner.attached == 0 && self.log.cancel_on_disconnect {
            self.log.abandoned.set(true);
        }
    }
}

impl ExecutionLog {
    /// A log that keeps `capacity_bytes` of events, and its writer.
    pub fn new(capacity_bytes: usize, cancel_on_disconnect: bool) -> (Arc<Self>, LogWriter) {
        let inner =
            Inner { ring: Ring::default(), subscribers: Subscribers::default(), attached: 0 };
        let log = Arc::new(Self {
            capacity_bytes,
            cancel_on_disconnect,
            stage: Latest::new(Stage::Submitted),
            inner: Mutex::new(inner),
            new_events: Notify::new(),
            events_taken: Notify::new(),
            abandoned: Latest::new(false),
            ended: Arc::default(),
            reservation: OnceLock::new(),
            stdin: OnceLock::new(),
            calls: OnceLock::new(),
            kind: OnceLock::new(),
            submitted_at: Timestamp::now(),
            started_at: OnceLock::new(),
            ended_at: OnceLock::new(),
        });
        (Arc::clone(&log), LogWriter::new(log))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stage(&self) -> Stage {
        self.stage.lock().clone()
    }

    /// Notes what is run.
    pub fn is_of(&self, kind: ExecutionKind) {
        self.kind.get_or_init(|| kind);
    }

    /// What it is and how far it has come, under this number; `None` if it was not taken.
    pub fn summary(&self, number: ExecutionNumber) -> Option<ExecutionSummary> {
        let (state, status) = match &*self.stage.lock() {
            Stage::Submitted | Stage::Queued(_) => (Progress::Queued, None),
            Stage::AwaitingApproval(_) => (Progress::AwaitingApproval, None),
            Stage::Running(_) => (Progress::Running, None),
            Stage::Done(outcome) => (Progress::Done, Some(outcome.status)),
            Stage::Refused(_) => return None,
        };
        Some(ExecutionSummary {
            id: number.to_string(),
            kind: self.kind.get().copied().unwrap_or_default(),
            state,
            status,
            queued_at: self.submitted_at,
            started_at: self.started_at.get().copied(),
            ended_at: self.ended_at.get().copied(),
        })
    }

    pub async fn queued(&self) -> Result<(), Refusal> {
        match self.stage.reached(|stage| !matches!(stage, Stage::Submitted)).await {
            Stage::Refused(refusal) => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Waits for its end.
    pub async fn finished(&self) -> Result<Arc<Outcome>, Refusal> {
        match self.stage.reached(Stage::is_final).await {
            Stage::Done(outcome) => Ok(outcome),
            Stage::Refused(refusal) => Err(refusal),
            // Never: only a final stage is waited for.
            Stage::Submitted
            | Stage::Queued(_)
            | Stage::AwaitingApproval(_)
            | Stage::Running(_) => Err(Refusal::Gone),
        }
    }

    /// When it was over, for those who do not keep the log itself.
    pub fn ended(&self) -> Arc<OnceLock<Instant>> {
        Arc::clone(&self.ended)
    }

    /// Counts somebody in who wants it to run.
    #[must_use]
    pub fn attach(self: &Arc<Self>) -> Attached {
        self.lock().attached += 1;
        Attached { log: Arc::clone(self) }
    }

    /// Whether it runs, and somebody is attached.
    pub fn is_followed(&self) -> bool {
        self.lock().attached > 0 && !matches!(self.stage(), Stage::Done(_) | Stage::Refused(_))
    }

    /// Has others write to its standard input.
    pub(crate) fn set_stdin(&self, pipe: StdinPipe) {
        self.stdin.get_or_init(|| pipe);
    }

    /// Its calls, where it may make some.
    pub(crate) fn calls(&self) -> Option<&Arc<CallTable>> {
        self.calls.get()
    }

    /// Lets it make calls.
    pub(crate) fn make_callable(&self) {
        self.calls.get_or_init(Arc::default);
    }

    /// Its standard input, if others write to that.
    pub(crate) fn stdin(&self) -> Option<&StdinPipe> {
        self.stdin.get()
    }

    /// Whether everybody went away who wanted it to run, and it is to end then.
    pub fn is_abandoned(&self) -> bool {
        *self.abandoned.lock()
    }

    pub async fn abandoned(&self) {
        self.abandoned.reached(|abandoned| *abandoned).await;
    }

    /// Waits until there is room for more events: until no reader is behind by all that is kept.
    /// Subscribers that are too slow are cut off meanwhile. May be dropped without losing anything.
    pub async fn ready_for_events(&self) {
        loop {
            let taken = self.events_taken.notified();
            let hold = self.lock().subscribers.hold(Instant::now(), self.capacity_bytes);
            match hold {
                Hold::No => return,
                Hold::CutOff => self.new_events.notify_waiters(),
                Hold::Until(at) => tokio::select! {
                    () = taken => {}
                    () = sleep_until(at) => {}
                },
            }
        }
    }

    pub(super) fn events_bytes(&self) -> usize {
        self.lock().ring.bytes()
    }

    /// Has the daemon's memory that it takes counted until nobody has it any more. It is over.
    pub(super) fn keep(&self, mut reservation: Reservation) {
        reservation.set(self.weight_bytes());
        self.reservation.get_or_init(|| reservation);
    }

    pub fn is_ready_for_events(&self) -> bool {
        !self.lock().subscribers.is_any_behind(self.capacity_bytes)
    }

    /// About the bytes that it takes. A value counts in its event and in its outcome, which share it.
    pub fn weight_bytes(&self) -> usize {
        let outcome = match &*self.stage.lock() {
            Stage::Done(outcome) => outcome.weight_bytes(),
            _ => 0,
        };
        size_of::<Self>() + self.lock().ring.bytes() + outcome
    }
}
