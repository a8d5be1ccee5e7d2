//! The last events of an execution: numbered without gaps, and bounded.

use std::collections::VecDeque;
use std::sync::Arc;

use super::event::{Event, EventKind, EventNumber};

/// What may still come of an execution after it was told to wait: more than fits into the agent's
/// queue and the socket's buffer.
const IN_FLIGHT_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Ring {
    events: VecDeque<Arc<Event>>,
    last: EventNumber,
    bytes: usize,
    /// Of these, printed text.
    text_bytes: usize,
}

impl Ring {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of the last event there has been; 0 if there was none.
    pub(super) const fn last(&self) -> EventNumber {
        self.last
    }

    /// Number of the first event that is kept, or will be if none is.
    pub(super) fn first(&self) -> EventNumber {
        self.events.front().map_or(self.last + 1, |event| event.number)
    }

    /// Adds an event, and returns by how many bytes the ring has grown. Output is added to the
    /// last event instead if that is output too and nobody has seen it: `seen` is the highest
    /// number anybody has.
    pub(super) fn push(&mut self, kind: EventKind, seen: EventNumber) -> usize {
        let text = kind.text_bytes();
        self.text_bytes += text;
        if let Some(last) = self.events.back_mut().filter(|last| last.number > seen)
            && let Some(last) = Arc::get_mut(last)
            && last.kind.merge(&kind)
        {
            self.bytes += text;
            return text;
        }
        self.last += 1;
        let bytes = kind.bytes();
        self.bytes += bytes;
        self.events.push_back(Arc::new(Event { number: self.last, kind }));
        bytes
    }

    /// Drops the oldest events while there are more than `capacity` bytes: those before
    /// `needed`, and others only if twice as much printed text is kept, or what may still come where
    /// that is more. The last stays. Returns the first number that is kept.
    ///
    /// So a reader that is behind loses nothing while the execution is held back for it, and what
    /// is kept is bounded where it can not be held back: text by this, the rest by the limit on
    /// what an execution may show at all.
    pub(super) fn evict(&mut self, capacity: usize, needed: EventNumber) -> EventNumber {
        while self.bytes > capacity && self.events.len() > 1 {
            let newest = self.events.back().map_or(0, |event| event.kind.text_bytes());
            let overflows =
                self.text_bytes - newest > capacity.saturating_add(capacity.max(IN_FLIGHT_BYTES));
            let Some(event) = self.events.pop_front_if(|event| event.number < needed || overflows)
            else {
                break;
            };
            self.bytes -= event.kind.bytes();
            self.text_bytes -= event.kind.text_bytes();
        }
        self.first()
    }

    /// Events from `next` on, at least one if there is one, and up to `max_bytes`; and how many
    /// bytes these are.
    pub(super) fn read(&self, next: EventNumber, max_bytes: usize) -> (Vec<Arc<Event>>, usize) {
        let skipped = usize::try_from(next.saturating_sub(self.first())).unwrap_or(usize::MAX);
        let (mut read, mut bytes) = (Vec::new(), 0);
        for event in self.events.iter().skip(skipped) {
            let size = event.kind.bytes();
            if !read.is_empty() && bytes + size > max_bytes {
                break;
            }
            bytes += size;
            read.push(Arc::clone(event));
        }
        (read, bytes)
    }

    pub(super) fn bytes_from(&self, next: EventNumber) -> usize {
        self.read(next, usize::MAX).1
    }
}
