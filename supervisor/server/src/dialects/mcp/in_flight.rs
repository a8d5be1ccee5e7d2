//! What is being answered over HTTP to clients that began with `initialize`, so that their
//! `notifications/cancelled` find it. Later clients cancel by closing the answer's stream.
//!
//! A cancellation names a request by an id that its client chose, and clients count from 0. So a client
//! is given an id of its own by `initialize`, in `Mcp-Session-Id`. Nothing is kept of it but what is
//! being answered, and one tenant never reaches what is another's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName};
use tokio::sync::Notify;

use super::rpc::Id;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The longest id of a client that is taken for one, in bytes.
const MAX_CLIENT_BYTES: usize = 64;

/// The requests of all clients. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<Mutex<BTreeMap<Key, Arc<Notify>>>>);

/// A request: tenant, client and the client's id of it.
type Key = (String, String, Id);

/// A client of a tenant, if it says which it is.
#[derive(Debug, Clone)]
pub(super) struct Client {
    all: InFlight,
    tenant: String,
    id: Option<String>,
}

impl Client {
    pub(super) fn of(all: &InFlight, tenant: &str, headers: &HeaderMap) -> Self {
        let id = headers.get(SESSION).and_then(|value| value.to_str().ok());
        let id = id.filter(|id| (1..=MAX_CLIENT_BYTES).contains(&id.len())).map(str::to_owned);
        Self { all: all.clone(), tenant: tenant.to_owned(), id }
    }

    pub(super) fn named(all: &InFlight, tenant: &str, id: &str) -> Self {
        Self { all: all.clone(), tenant: tenant.to_owned(), id: Some(id.to_owned()) }
    }

    fn key(&self, id: Option<&Id>) -> Option<Key> {
        Some((self.tenant.clone(), self.id.clone()?, id?.clone()))
    }

    /// A request of it, until that is answered.
    pub(super) fn begin(&self, id: Option<&Id>) -> Entry {
        let (key, cancelled) = (self.key(id), Arc::new(Notify::new()));
        if let Some(key) = &key {
            self.all.lock().insert(key.clone(), Arc::clone(&cancelled));
        }
        Entry { all: self.all.clone(), key, cancelled }
    }

    /// Ends a request of it, if that is being answered.
    pub(super) fn cancel(&self, id: Option<&Id>) {
        let found = self.key(id).and_then(|key| self.all.lock().remove(&key));
        if let Some(cancelled) = found {
            cancelled.notify_one();
        }
    }
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Entry {
    all: InFlight,
    key: Option<Key>,
    cancelled: Arc<Notify>,
}

impl Entry {
    /// Resolves when its client no longer waits for it.
    pub(super) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        let mut all = self.all.lock();
        // A client may have used the same id again.
        if all.get(key).is_some_and(|found| Arc::ptr_eq(found, &self.cancelled)) {
            all.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(all: &InFlight, tenant: &str, id: &str) -> Client {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION, id.parse().unwrap());
        Client::of(all, tenant, &headers)
    }

    async fn is_cancelled(entry: &Entry) -> bool {
        tokio::select! {
            biased;
            () = entry.cancelled() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn only_a_clients_own_requests_are_cancelled() {
        let all = InFlight::default();
        let (mine, id) = (client(&all, "a", "1"), Id::Number(0));
        let entry = mine.begin(Some(&id));
        for other in [client(&all, "b", "1"), client(&all, "a", "2"), client(&all, "a", "")] {
            other.cancel(Some(&id));
        }
        mine.cancel(Some(&Id::Number(1)));
        mine.cancel(None);
        assert!(!is_cancelled(&entry).await);
        mine.cancel(Some(&id));
        assert!(is_cancelled(&entry).await);
    }

    #[tokio::test]
    async fn nothing_is_kept_of_what_is_answered() {
        let all = InFlight::default();
        let (mine, id) = (client(&all, "a", "1"), Id::Number(0));
        let first = mine.begin(Some(&id));
        let second = mine.begin(Some(&id));
        drop(first);
        mine.cancel(Some(&id));
        assert!(is_cancelled(&second).await);
        drop((second, client(&all, "a", &"x".repeat(65)).begin(Some(&id))));
        drop(mine.begin(Some(&id)));
        assert!(all.lock().is_empty());
    }
}
