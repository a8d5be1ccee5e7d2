//! The one who writes a record: the session's actor.

use std::sync::Arc;

use tokio::time::Instant;
use vivarium_api_types::Outcome;
use vivarium_protocol::message::ExecutionNumber;

use super::event::Happened;
use super::{Record, Stage};
use crate::session::Refusal;

/// Writes a record. If it is dropped before the end, the execution is refused: its session was
/// over before it could take it.
#[derive(Debug)]
pub struct Writer {
    record: Arc<Record>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.record.stage.borrow().is_final() {
            self.refuse(Refusal::Gone);
        }
    }
}

impl Writer {
    pub(super) const fn new(record: Arc<Record>) -> Self {
        Self { record }
    }

    /// What is written.
    #[must_use]
    pub const fn record(&self) -> &Arc<Record> {
        &self.record
    }

    /// It waits for its turn.
    pub fn queued(&self, number: ExecutionNumber) {
        self.record.stage.send_replace(Stage::Queued(number));
    }

    /// It runs.
    pub fn started(&self, number: ExecutionNumber, session_id: &str) {
        self.record.stage.send_replace(Stage::Running(number));
        let (execution_id, session_id) = (number.to_string(), session_id.to_owned());
        self.push(Happened::Started { execution_id, session_id });
    }

    /// Something happened. Never waits: whether it may is asked before, with [`Record::room`].
    pub fn push(&self, what: Happened) {
        self.push_and(what, || ());
    }

    /// It is over. `stdout_truncated` and `stderr_truncated` say whether it printed more than its
    /// events have.
    pub fn done(&self, outcome: Outcome, stdout_truncated: bool, stderr_truncated: bool) {
        let outcome = Arc::new(outcome);
        let last = Arc::clone(&outcome);
        let stage = &self.record.stage;
        self.push_and(Happened::Done { outcome: last, stdout_truncated, stderr_truncated }, || {
            stage.send_replace(Stage::Done(outcome));
            self.record.ended.get_or_init(Instant::now);
        });
    }

    /// It is not taken.
    pub fn refuse(&self, refusal: Refusal) {
        let inner = self.record.lock();
        self.record.stage.send_replace(Stage::Refused(refusal));
        drop(inner);
        self.record.news.notify_waiters();
    }

    /// Adds an event, and does something else before anybody can see it.
    fn push_and(&self, what: Happened, and: impl FnOnce()) {
        let mut inner = self.record.lock();
        let seen = inner.readers.seen();
        let bytes = inner.ring.push(what, seen);
        inner.readers.pushed(bytes);
        let needed = inner.readers.needed();
        let first = inner.ring.evict(self.record.capacity_bytes, needed);
        inner.readers.cut_before(first);
        and();
        drop(inner);
        self.record.news.notify_waiters();
    }
}
