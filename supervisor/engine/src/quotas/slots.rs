//! How many of something there may be at one time, held exactly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vivarium_protocol::units::Limit;

#[derive(Debug)]
pub struct Slots {
    used: AtomicU64,
    /// [`u64::MAX`] for no maximum.
    max: AtomicU64,
}

impl Default for Slots {
    fn default() -> Self {
        Self { used: AtomicU64::new(0), max: AtomicU64::new(u64::MAX) }
    }
}

impl Slots {
    /// Takes one; `None` if as many are taken as may be.
    #[must_use]
    pub fn take(self: &Arc<Self>) -> Option<Slot> {
        let max = self.max.load(Ordering::Relaxed);
        let more = |used: u64| (used < max).then_some(used + 1);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Slot(Arc::clone(self)))
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Holds another maximum from now on. Those that are taken stay.
    pub fn set(&self, max: Limit) {
        self.max.store(max.get().unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// One of them, given back when it is dropped.
#[derive(Debug)]
pub struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_at_once_get_what_there_is_and_give_it_back() {
        let slots = Arc::new(Slots::default());
        slots.set(Limit::new(7).unwrap());
        let (barrier, taken) = (std::sync::Barrier::new(50), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..20 {
                        if let Some(slot) = slots.take() {
                            assert!(slots.used() <= 7);
                            taken.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                            drop(slot);
                        }
                    }
                });
            }
        });
        assert_eq!(slots.used(), 0);
        assert!(taken.into_inner() >= 20, "somebody got one");
        let held: Vec<_> = (0..1000).filter_map(|_| slots.take()).collect();
        assert_eq!(held.len(), 7);
        drop(held);
        assert_eq!(slots.used(), 0);
    }

    #[test]
    fn a_slot_comes_back_from_a_panic_and_a_lower_maximum_takes_none_away() {
        let slots = Arc::new(Slots::default());
        let kept = (slots.take(), slots.take());
        let own = Arc::clone(&slots);
        std::thread::spawn(move || {
            let _slot = own.take();
            panic!("a defect");
        })
        .join()
        .unwrap_err();
        assert_eq!(slots.used(), 2);
        slots.set(Limit::new(1).unwrap());
        assert!(slots.take().is_none());
        drop(kept.0);
        assert!(slots.take().is_none(), "one is left, as many as may be");
        drop(kept.1);
        assert!(slots.take().is_some());
    }
}
