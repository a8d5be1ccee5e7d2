//! The one writer of a log: the session's actor.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use vivarium_api_types::{AwaitingApprovalEvent, Outcome};
use vivarium_protocol::message::ExecutionNumber;

use super::event::EventKind;
use super::{ExecutionLog, Stage};
use crate::quotas::Slot;
use crate::session::Refusal;

/// Writes a log. If it is dropped before the end, the execution is refused: its session was
/// over before it could take it.
#[derive(Debug)]
pub struct LogWriter {
    log: Arc<ExecutionLog>,
    /// The right to be in flight, until the end.
    in_flight: Mutex<Option<Slot>>,
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        if !self.log.stage.lock().is_final() {
            self.refuse(Refusal::Gone);
        }
    }
}

impl LogWriter {
    pub(super) const fn new(log: Arc<ExecutionLog>) -> Self {
        Self { log, in_flight: Mutex::new(None) }
    }

    /// Keeps the right to be in flight until the execution is over, however that comes.
    pub fn hold(&self, slot: Slot) {
        *self.in_flight.lock().unwrap_or_else(PoisonError::into_inner) = Some(slot);
    }

    /// Before anybody hears of the end: who does may take the slot.
    fn let_go(&self) {
        drop(self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub const fn log(&self) -> &Arc<ExecutionLog> {
        &self.log
    }

    pub fn queued(&self, number: ExecutionNumber) {
        self.log.stage.set(Stage::Queued(number));
    }

    /// It waits for its turn, and until somebody allows it.
    pub fn awaits_approval(
        &self,
        number: ExecutionNumber,
        session_id: &str,
        approval_id: &str,
        expires_at: Timestamp,
    ) {
        self.push(EventKind::AwaitingApproval(AwaitingApprovalEvent {
            execution_id: number.to_string(),
            session_id: session_id.to_owned(),
            approval_id: approval_id.to_owned(),
            expires_at,
        }));
        self.log.stage.set(Stage::AwaitingApproval(number));
    }

    /// It runs, and has for as long as `ago`.
    pub fn started(&self, number: ExecutionNumber, session_id: &str, ago: Duration) {
        self.log.started_at.get_or_init(|| {
            let now = Timestamp::now();
            now.checked_sub(ago).unwrap_or(now)
        });
        self.log.stage.set(Stage::Running(number));
        let (execution_id, session_id) = (number.to_string(), session_id.to_owned());
        self.push(EventKind::Started { execution_id, session_id });
    }

    /// Something happened. Never waits: whether it may is asked before, with [`ExecutionLog::ready_for_events`].
    pub fn push(&self, kind: EventKind) {
        self.push_and(kind, || ());
    }

    /// It is over. `stdout_truncated` and `stderr_truncated` say whether it printed more than its
    /// events have.
    pub fn done(&self, outcome: Outcome, stdout_truncated: bool, stderr_truncated: bool) {
        self.let_go();
        self.log.ended_at.get_or_init(Timestamp::now);
        let outcome = Arc::new(outcome);
        let last = Arc::clone(&outcome);
        let stage = &self.log.stage;
        self.push_and(
            EventKind::Done { outcome: last, stdout_truncated, stderr_truncated },
            || {
                stage.set(Stage::Done(outcome));
                self.log.ended.get_or_init(Instant::now);
            },
        );
    }

    pub fn refuse(&self, refusal: Refusal) {
        self.let_go();
        let inner = self.log.lock();
        self.log.stage.set(Stage::Refused(refusal));
        drop(inner);
        self.log.new_events.notify_waiters();
    }

    /// Adds an event, and does something else before anybody can see it.
    fn push_and(&self, kind: EventKind, and: impl FnOnce()) {
        let mut inner = self.log.lock();
        let seen = inner.subscribers.seen();
        let bytes = inner.ring.push(kind, seen);
        inner.subscribers.pushed(bytes);
        let needed = inner.subscribers.needed();
        let first = inner.ring.evict(self.log.capacity_bytes, needed);
        inner.subscribers.cut_before(first);
        and();
        drop(inner);
        self.log.new_events.notify_waiters();
    }
}
