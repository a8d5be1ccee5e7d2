//! Who follows an execution, how far each is behind, and who is too slow.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::event::EventNumber;

/// How long a reader may hold the execution back without taking as much as is kept.
pub(super) const MAX_STALL: Duration = Duration::from_secs(2);

pub(super) type SubscriberKey = u64;

#[derive(Debug, Default)]
pub(super) struct Subscribers {
    positions: BTreeMap<SubscriberKey, Position>,
    last_key: SubscriberKey,
    /// The highest event number that anybody has taken.
    seen: EventNumber,
}

#[derive(Debug)]
struct Position {
    next: EventNumber,
    behind: usize,
    /// Since when it holds the execution back, and what it has taken since.
    slow: Option<(Instant, usize)>,
}

/// Whether the execution is to be held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    No,
    /// For a reader that has until then.
    Until(Instant),
    /// A reader was cut off: look again.
    CutOff,
}

impl Subscribers {
    pub(super) const fn seen(&self) -> EventNumber {
        self.seen
    }

    pub(super) fn add(&mut self, next: EventNumber, behind: usize) -> SubscriberKey {
        self.last_key += 1;
        self.positions.insert(self.last_key, Position { next, behind, slow: None });
        self.last_key
    }

    pub(super) fn remove(&mut self, key: SubscriberKey) {
        self.positions.remove(&key);
    }

    /// The event that a reader wants next; `None` if it was cut off.
    pub(super) fn next(&self, key: SubscriberKey) -> Option<EventNumber> {
        self.positions.get(&key).map(|position| position.next)
    }

    pub(super) fn needed(&self) -> EventNumber {
        self.positions.values().map(|position| position.next).min().unwrap_or(EventNumber::MAX)
    }

    pub(super) fn pushed(&mut self, bytes: usize) {
        for position in self.positions.values_mut() {
            position.behind += bytes;
        }
    }

    /// A reader has taken all before `next`, which were so many bytes.
    pub(super) fn took(
        &mut self,
        key: SubscriberKey,
        next: EventNumber,
        bytes: usize,
        capacity: usize,
    ) {
        self.seen = self.seen.max(next - 1);
        let Some(position) = self.positions.get_mut(&key) else { return };
        position.next = next;
        position.behind = position.behind.saturating_sub(bytes);
        let fast = |taken: usize| taken >= capacity || position.behind == 0;
        position.slow = position
            .slow
            .map(|(since, taken)| (since, taken + bytes))
            .filter(|(_, taken)| !fast(*taken));
    }

    /// Cuts off those that want an event before `first`.
    pub(super) fn cut_before(&mut self, first: EventNumber) {
        self.positions.retain(|_, position| position.next >= first);
    }

    /// Whether a reader is behind by `capacity`.
    pub(super) fn is_any_behind(&self, capacity: usize) -> bool {
        self.positions.values().any(|position| position.behind >= capacity)
    }

    /// Whether a reader is behind by `capacity`. One that has been for too long is cut off.
    pub(super) fn hold(&mut self, now: Instant, capacity: usize) -> Hold {
        let mut hold = Hold::No;
        let mut late = None;
        for (key, position) in &mut self.positions {
            if position.behind < capacity {
                continue;
            }
            let (since, _) = *position.slow.get_or_insert((now, 0));
            let until = since + MAX_STALL;
            if until <= now {
                late = Some(*key);
            }
            hold = match hold {
                Hold::Until(other) => Hold::Until(other.min(until)),
                _ => Hold::Until(until),
            };
        }
        if let Some(key) = late {
            self.remove(key);
            return Hold::CutOff;
        }
        hold
    }
}
