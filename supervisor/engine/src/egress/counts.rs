//! What went through the gate for a session, to be told of a part of its life.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use vivarium_egress::Decision;
use vivarium_protocol::discard;

use super::{Command, SessionEgress};

/// How long a gate may take to say it; then what it last said has to do.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Decisions and bytes, since the session began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub allowed: u64,
    pub denied: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Counts {
    /// What came since these.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            allowed: self.allowed.saturating_sub(earlier.allowed),
            denied: self.denied.saturating_sub(earlier.denied),
            bytes_in: self.bytes_in.saturating_sub(earlier.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(earlier.bytes_out),
        }
    }
}

/// Counts of a session, whose gates may be several, one after the other.
#[derive(Debug, Default)]
pub(super) struct Counter(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    counts: Counts,
    /// Bytes of the gates before this one.
    before: (u64, u64),
}

impl Counter {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().counts
    }

    pub(super) fn decided(&self, decision: Decision) {
        let counts = &mut self.lock().counts;
        match decision {
            Decision::Allowed => counts.allowed += 1,
            Decision::Refused => counts.denied += 1,
        }
    }

    /// What this gate has transferred for the session in all.
    pub(super) fn transferred(&self, (bytes_in, bytes_out): (u64, u64)) {
        let mut inner = self.lock();
        let (before_in, before_out) = inner.before;
        inner.counts.bytes_in = before_in.saturating_add(bytes_in);
        inner.counts.bytes_out = before_out.saturating_add(bytes_out);
    }

    /// The gate is gone: what is known counts, or, if that is more, what has `ended` over all gates.
    pub(super) fn lost_gate(&self, ended: (u64, u64)) {
        let mut inner = self.lock();
        inner.counts.bytes_in = inner.counts.bytes_in.max(ended.0);
        inner.counts.bytes_out = inner.counts.bytes_out.max(ended.1);
        inner.before = (inner.counts.bytes_in, inner.counts.bytes_out);
    }
}

/// An answer that is on its way.
#[derive(Debug)]
pub struct Counting {
    known: Counts,
    answer: Option<oneshot::Receiver<Counts>>,
}

impl Counting {
    /// What the gate says, or what it last said.
    async fn counts(self) -> Counts {
        let Some(answer) = self.answer else { return self.known };
        match timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(counts)) => counts,
            Ok(Err(_)) | Err(_) => self.known,
        }
    }

    /// What came from this to a `later` one. Decisions count from when this was asked for: the gate tells each before
    /// it lets code go on, and code may be faster than this is answered.
    pub async fn until(self, later: Self) -> Counts {
        let Counts { allowed, denied, .. } = self.known;
        let (answered, now) = (self.counts().await, later.counts().await);
        now.since(Counts { allowed, denied, ..answered })
    }
}

impl SessionEgress {
    /// Asks the gate for the counts as of now. All that the session has received, and all that was
    /// decided, is in the answer.
    pub fn count(self: &Arc<Self>) -> Counting {
        let known = self.counter.counts();
        let (reply, answer) = oneshot::channel();
        let command = Command::Count { session: Arc::clone(self), reply };
        let sent = self.commands.upgrade().is_some_and(|to| to.try_send(command).is_ok());
        Counting { known, answer: sent.then_some(answer) }
    }

    /// Says what is known where there is no gate.
    pub(super) fn tell(&self, reply: oneshot::Sender<Counts>) {
        discard(reply.send(self.counter.counts()), "nobody waits any more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_over_gates_and_are_told_of_a_part() {
        let counter = Counter::default();
        counter.decided(Decision::Allowed);
        counter.transferred((100, 10));
        let first = counter.counts();
        counter.lost_gate((120, 5));
        counter.decided(Decision::Refused);
        counter.transferred((1, 2));
        let second = counter.counts();
        assert_eq!((second.bytes_in, second.bytes_out), (121, 12));
        let part = Counts { allowed: 0, denied: 1, bytes_in: 21, bytes_out: 2 };
        assert_eq!(second.since(first), part);
        assert_eq!(first.since(second), Counts::default());
    }

    #[tokio::test]
    async fn a_decision_that_was_made_before_the_gate_answered_counts() {
        let of = |denied, bytes_in| Counts { denied, bytes_in, ..Counts::default() };
        let counting = |known, answered| {
            let (reply, answer) = oneshot::channel();
            reply.send(answered).unwrap();
            Counting { known, answer: Some(answer) }
        };
        let began = counting(of(1, 0), of(2, 30));
        let ended = counting(of(2, 30), of(2, 50));
        assert_eq!(began.until(ended).await, of(1, 20));
    }
}
