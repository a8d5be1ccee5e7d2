//! Places for the connections or calls of all sessions, shared so that no tenant can take all of them.
//!
//! A tenant gets another place as long as it has fewer than are free: alone it has at most half of all,
//! of n tenants that want all they can get each has one part of n + 1, and one part is always free for
//! whoever comes next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Places for all tenants.
#[derive(Debug)]
pub struct Slots {
    state: Mutex<State>,
    given_back: Notify,
}

#[derive(Debug)]
struct State {
    free: usize,
    held: HashMap<Arc<str>, usize>,
}

/// A place for one of them, free again when dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    tenant: Arc<str>,
}

impl Slots {
    /// So many places.
    #[must_use]
    pub fn new(count: usize) -> Arc<Self> {
        let state = State { free: count, held: HashMap::new() };
        Arc::new(Self { state: Mutex::new(state), given_back: Notify::new() })
    }

    /// Waits for a place. Nothing is lost if this is dropped.
    pub async fn take(self: &Arc<Self>, tenant: &Arc<str>) -> Slot {
        loop {
            // Made before the try, so that what is given back after it is not missed.
            let given_back = self.given_back.notified();
            if let Some(slot) = self.try_take(tenant) {
                return slot;
            }
            given_back.await;
        }
    }

    fn try_take(self: &Arc<Self>, tenant: &Arc<str>) -> Option<Slot> {
        let mut state = self.state();
        let held = state.held.get(tenant).copied().unwrap_or(0);
        if held >= state.free {
            return None;
        }
        state.free -= 1;
        state.held.insert(tenant.clone(), held + 1);
        Some(Slot { slots: self.clone(), tenant: tenant.clone() })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.free += 1;
        if let Some(held) = state.held.get_mut(&self.tenant) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                state.held.remove(&self.tenant);
            }
        }
        drop(state);
        self.slots.given_back.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(slots: &Arc<Slots>, tenant: &str) -> Vec<Slot> {
        let tenant = tenant.into();
        std::iter::from_fn(|| slots.try_take(&tenant)).collect()
    }

    #[test]
    fn one_tenant_gets_half_and_leaves_room_for_every_next() {
        let slots = Slots::new(64);
        let ann = all(&slots, "ann");
        assert_eq!(ann.len(), 32);
        assert_eq!(all(&slots, "bob").len(), 16);
        let bob = all(&slots, "bob");
        let cid = all(&slots, "cid");
        assert_eq!((bob.len(), cid.len()), (16, 8));
        // What is given back is there for whoever has less.
        drop(ann);
        assert_eq!(all(&slots, "dan").len(), 20);
        drop((bob, cid));
        assert_eq!(slots.state().free, 64);
        assert!(slots.state().held.is_empty());
    }

    #[test]
    fn a_single_place_is_given() {
        let slots = Slots::new(1);
        let ann = all(&slots, "ann");
        assert_eq!((ann.len(), all(&slots, "bob").len()), (1, 0));
        drop(ann);
        assert_eq!(all(&slots, "bob").len(), 1);
    }

    #[tokio::test]
    async fn who_waits_gets_what_is_given_back() {
        let slots = Slots::new(1);
        let (ann, bob) = ("ann".into(), "bob".into());
        let first = slots.take(&ann).await;
        let waiting = tokio::spawn({
            let slots = slots.clone();
            async move { slots.take(&bob).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        assert_eq!(&*waiting.await.unwrap().tenant, "bob");
    }
}
