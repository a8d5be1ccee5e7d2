//! The latest value of something, and waiting for it to change.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Like [`tokio::sync::watch`], but without senders and receivers of their own. It takes about a tenth of the memory
/// besides the value; each session and each kept execution has two.
#[derive(Debug)]
pub(crate) struct Latest<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Latest<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::const_new() }
    }

    /// Not to be held while anything is awaited, nor while this is locked, set or waited for again.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, value: T) {
        let before = std::mem::replace(&mut *self.lock(), value);
        self.changed.notify_waiters();
        drop(before);
    }

    /// Waits for a value that is wanted. May be dropped without losing anything.
    pub(crate) async fn reached(&self, mut wanted: impl FnMut(&T) -> bool) -> T
    where
        T: Clone,
    {
        loop {
            // Told of what comes from here on, also before it is awaited.
            let changed = self.changed.notified();
            if let Some(value) = Some(self.lock()).filter(|it| wanted(it)).map(|it| it.clone()) {
                return value;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn who_waits_hears_of_a_value_that_is_there_and_of_one_that_comes() {
        let latest = Arc::new(Latest::new(1));
        assert_eq!(latest.reached(|value| *value == 1).await, 1);
        let waits = |least| {
            let latest = Arc::clone(&latest);
            tokio::spawn(async move { latest.reached(|value| *value >= least).await })
        };
        let (two, three) = (waits(2), waits(3));
        tokio::task::yield_now().await;
        latest.set(2);
        assert_eq!(two.await.unwrap(), 2);
        tokio::task::yield_now().await;
        assert!(!three.is_finished());
        latest.set(4);
        assert_eq!(three.await.unwrap(), 4);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_change_is_missed_between_looking_and_waiting() {
        for _ in 0..1000 {
            let latest = Arc::new(Latest::new(false));
            let sets = Arc::clone(&latest);
            let set = tokio::spawn(async move { sets.set(true) });
            let reached = tokio::time::timeout(Duration::from_secs(10), latest.reached(|set| *set));
            assert_eq!(reached.await, Ok(true));
            set.await.unwrap();
        }
    }
}
