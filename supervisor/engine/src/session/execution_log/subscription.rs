//! Following an execution's events.

use std::sync::Arc;

use super::event::{Event, EventKind, EventNumber};
use super::subscribers::SubscriberKey;
use super::{Attached, ExecutionLog, Stage};

/// The most that is taken at once, in bytes, if it is more than one event.
const BATCH_BYTES: usize = 256 << 10;

/// Why an execution can not be followed from an event on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSuchEvent {
    /// It is not kept any more.
    Gone {
        /// The first that is.
        first: EventNumber,
    },
    /// It has not happened yet.
    NotYet {
        /// The last that has.
        last: EventNumber,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Batch {
    Events(Vec<Arc<Event>>),
    /// Nothing: the last event has been read.
    End,
    /// Nothing: this reader was too slow. It may come back with the number of the last event
    /// that it has read.
    CutOff,
}

/// One who follows an execution, from some event on.
#[derive(Debug)]
pub struct EventSubscription {
    log: Arc<ExecutionLog>,
    key: SubscriberKey,
    /// Whether it has read the last event.
    ended: bool,
    _attached: Attached,
}

impl Drop for EventSubscription {
    fn drop(&mut self) {
        self.log.lock().subscribers.remove(self.key);
        self.log.events_taken.notify_waiters();
    }
}

impl ExecutionLog {
    /// Follows it from the first event after `after` on; from the first that is kept if that is
    /// `None`.
    pub fn subscribe(
        self: &Arc<Self>,
        after: Option<EventNumber>,
    ) -> Result<EventSubscription, NoSuchEvent> {
        let attached = self.attach();
        let mut inner = self.lock();
        let (first, last) = (inner.ring.first(), inner.ring.last());
        let next = after.map_or(first, |after| after.saturating_add(1));
        if next < first {
            return Err(NoSuchEvent::Gone { first });
        }
        if next > last + 1 {
            return Err(NoSuchEvent::NotYet { last });
        }
        let behind = inner.ring.bytes_from(next);
        let key = inner.subscribers.add(next, behind);
        // Stages end under the same lock.
        let ended = next > last && self.stage().is_final();
        drop(inner);
        Ok(EventSubscription { log: Arc::clone(self), key, ended, _attached: attached })
    }
}

impl EventSubscription {
    /// Waits for the next events. May be dropped without losing any.
    pub async fn next(&mut self) -> Batch {
        if self.ended {
            return Batch::End;
        }
        let log = Arc::clone(&self.log);
        loop {
            let news = log.new_events.notified();
            let Some(events) = self.take() else { return Batch::CutOff };
            if let Some(last) = events.last() {
                self.ended = matches!(last.kind, EventKind::Done { .. });
                return Batch::Events(events);
            }
            // It has no last event.
            if matches!(log.stage(), Stage::Refused(_)) {
                return Batch::End;
            }
            news.await;
        }
    }

    /// What is there now; `None` if it was cut off.
    fn take(&self) -> Option<Vec<Arc<Event>>> {
        let mut inner = self.log.lock();
        let next = inner.subscribers.next(self.key)?;
        let (events, bytes) = inner.ring.read(next, BATCH_BYTES);
        if let Some(last) = events.last() {
            let capacity = self.log.capacity_bytes;
            inner.subscribers.took(self.key, last.number + 1, bytes, capacity);
            drop(inner);
            self.log.events_taken.notify_waiters();
        }
        Some(events)
    }
}
