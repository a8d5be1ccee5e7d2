//! One at a time for each file: who asks for one that is being fetched waits for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

/// A tenant, and the hash of a file.
type Key = (String, String);

/// The files that are being fetched.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<BTreeMap<Key, Arc<Semaphore>>>);

/// A place in the queue for a file.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    key: Key,
    queue: Arc<Semaphore>,
}

impl Turns {
    pub(crate) fn of(&self, tenant: &str, hash: &str) -> Turn<'_> {
        let key = (tenant.to_owned(), hash.to_owned());
        let queue =
            self.lock().entry(key.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone();
        Turn { turns: self, key, queue }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Semaphore>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Waits for the turn, which lasts as long as what this returns. The queue is never closed.
    pub(crate) async fn wait(&self) -> Option<SemaphorePermit<'_>> {
        self.queue.acquire().await.ok()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut all = self.turns.lock();
        // The map's own, and this one.
        if Arc::strong_count(&self.queue) <= 2 {
            all.remove(&self.key);
        }
    }
}
