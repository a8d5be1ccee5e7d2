//! Requests that may be sent again without running again: `Idempotency-Key`.
//!
//! The first request with a key does the work; whoever comes with the same key and the same
//! request meanwhile or later is given its execution, or its session. A key is remembered as long
//! as the result is kept, or as the session lives and results are kept after it. A request that
//! was refused is not remembered: nothing ran.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::EngineError;
use crate::session::Session;
use crate::session::execution_log::ExecutionLog;

/// The most keys of one tenant. The oldest is forgotten for one more.
const MAX_KEYS: usize = 10_000;

const MAX_KEY_BYTES: usize = 255;

/// The key of a request that is carried out once, and the fingerprint of that request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    key: String,
    fingerprint: [u8; 32],
}

impl IdempotencyKey {
    /// By this key, for a request with this fingerprint.
    pub fn new(key: &str, fingerprint: [u8; 32]) -> Result<Self, EngineError> {
        let fits = (1..=MAX_KEY_BYTES).contains(&key.len());
        if !fits || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let reason = format!("a key is 1 to {MAX_KEY_BYTES} visible ASCII characters");
            return Err(EngineError::invalid("Idempotency-Key", reason));
        }
        Ok(Self { key: key.to_owned(), fingerprint })
    }
}

#[derive(Debug, Default)]
pub(super) struct Keys {
    tenants: Mutex<HashMap<String, Tenant>>,
}

#[derive(Debug, Default)]
struct Tenant {
    entries: HashMap<String, Entry>,
    /// Keys with the numbers of their entries, oldest first. Those of entries that are gone stay
    /// until they are the oldest.
    order: VecDeque<(u64, String)>,
    last: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    fingerprint: [u8; 32],
    taken: watch::Receiver<Option<Taken>>,
}

/// What a key has led to, and when that was over.
#[derive(Debug, Clone)]
struct Taken {
    product: WeakProduct,
    ended: Arc<OnceLock<Instant>>,
}

#[derive(Debug, Clone)]
enum WeakProduct {
    Execution(Weak<ExecutionLog>),
    Session(Weak<Session>),
}

#[derive(Debug, Clone)]
pub(super) enum Product {
    Execution(Arc<ExecutionLog>),
    Session(Arc<Session>),
}

impl WeakProduct {
    fn get(&self) -> Option<Product> {
        match self {
            Self::Execution(record) => record.upgrade().map(Product::Execution),
            Self::Session(session) => {
                let session = session.upgrade().filter(|session| !session.is_closed());
                session.map(Product::Session)
            }
        }
    }
}

#[derive(Debug)]
pub(super) enum Claim {
    /// The first: it has to be carried out.
    First(Slot),
    Again(Earlier),
}

/// Where the first says what has become of it. Dropped without that, its key is forgotten.
#[derive(Debug)]
pub(super) struct Slot {
    keys: Arc<Keys>,
    tenant: String,
    key: String,
    number: u64,
    taken: watch::Sender<Option<Taken>>,
}

/// What the first will say.
#[derive(Debug)]
pub(super) struct Earlier {
    taken: watch::Receiver<Option<Taken>>,
}

impl Keys {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks a key up, and takes it if nobody has. `kept` is how long results are.
    /// [`EngineError::KeyReused`] if another request had it, [`EngineError::ResultGone`] if its
    /// result had to make room for others before its time.
    pub(super) fn claim(
        self: &Arc<Self>,
        tenant: &str,
        wanted: &IdempotencyKey,
        kept: Duration,
    ) -> Result<Claim, EngineError> {
        let mut tenants = self.lock();
        let known = tenants.entry(tenant.to_owned()).or_default();
        if let Some(entry) = known.entries.get(&wanted.key)
            && let Some(state) = entry.state(kept)
        {
            if entry.fingerprint != wanted.fingerprint {
                return Err(EngineError::KeyReused);
            }
            return match state {
                State::There => Ok(Claim::Again(Earlier { taken: entry.taken.clone() })),
                State::Gone => Err(EngineError::ResultGone),
            };
        }
        known.last += 1;
        let number = known.last;
        let (sender, taken) = watch::channel(None);
        let entry = Entry { number, fingerprint: wanted.fingerprint, taken };
        known.entries.insert(wanted.key.clone(), entry);
        known.order.push_back((number, wanted.key.clone()));
        while known.order.len() > MAX_KEYS {
            let Some((number, key)) = known.order.pop_front() else { break };
            known.remove(&key, number);
        }
        Ok(Claim::First(Slot {
            keys: Arc::clone(self),
            tenant: tenant.to_owned(),
            key: wanted.key.clone(),
            number,
            taken: sender,
        }))
    }
}

impl Tenant {
    fn remove(&mut self, key: &str, number: u64) {
        if self.entries.get(key).is_some_and(|entry| entry.number == number) {
            self.entries.remove(key);
        }
    }
}

enum State {
    /// It is being carried out, or its result is there.
    There,
    /// Its result should still be there, and is not.
    Gone,
}

impl Entry {
    /// `None` if it is to be forgotten.
    fn state(&self, kept: Duration) -> Option<State> {
        let Some(taken) = &*self.taken.borrow() else {
            // The slot of one that was refused is gone.
            return self.taken.has_changed().is_ok().then_some(State::There);
        };
        match taken.ended.get() {
            Some(ended) if ended.elapsed() >= kept => None,
            _ if taken.product.get().is_some() => Some(State::There),
            Some(_) => Some(State::Gone),
            // Its session was over before it could take it, or did not start.
            None => None,
        }
    }
}

impl Slot {
    /// The request was taken, and this is its execution.
    pub(super) fn taken(self, record: &Arc<ExecutionLog>) {
        let product = WeakProduct::Execution(Arc::downgrade(record));
        self.taken.send_replace(Some(Taken { product, ended: record.ended() }));
    }

    /// The request has made this session.
    pub(super) fn made(self, session: &Arc<Session>) {
        let product = WeakProduct::Session(Arc::downgrade(session));
        self.taken.send_replace(Some(Taken { product, ended: session.ended() }));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.taken.borrow().is_none()
            && let Some(tenant) = self.keys.lock().get_mut(&self.tenant)
        {
            tenant.remove(&self.key, self.number);
        }
    }
}

impl Earlier {
    /// Waits for what the first has led to. `None` if that was refused, or is gone by now: then
    /// the key is to be claimed again.
    pub(super) async fn product(mut self) -> Option<Product> {
        let taken = self.taken.wait_for(Option::is_some).await.ok()?.clone()?;
        taken.product.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::execution_log::tests::outcome;

    const KEPT: Duration = Duration::from_secs(60);

    fn key(key: &str, body: u8) -> IdempotencyKey {
        IdempotencyKey::new(key, [body; 32]).unwrap()
    }

    fn first(keys: &Arc<Keys>, tenant: &str, wanted: &IdempotencyKey) -> Slot {
        match keys.claim(tenant, wanted, KEPT) {
            Ok(Claim::First(slot)) => slot,
            other => panic!("{other:?}"),
        }
    }

    fn again(keys: &Arc<Keys>, wanted: &IdempotencyKey) -> Earlier {
        match keys.claim("t", wanted, KEPT) {
            Ok(Claim::Again(earlier)) => earlier,
            other => panic!("{other:?}"),
        }
    }

    async fn execution(earlier: Earlier) -> Arc<ExecutionLog> {
        match earlier.product().await {
            Some(Product::Execution(record)) => record,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keys_are_visible_ascii() {
        for good in ["a", "5f2b~!", &"x".repeat(255)] {
            assert!(IdempotencyKey::new(good, [0; 32]).is_ok());
        }
        for bad in ["", "a b", "é", "a\n", &"x".repeat(256)] {
            assert!(IdempotencyKey::new(bad, [0; 32]).is_err(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn later_requests_with_the_key_get_the_first_execution() {
        let keys = Arc::new(Keys::default());
        let slot = first(&keys, "t", &key("k", 1));
        let waiting = again(&keys, &key("k", 1));
        let (record, _writer) = ExecutionLog::new(1, false);
        slot.taken(&record);
        assert!(Arc::ptr_eq(&execution(waiting).await, &record));
        let later = execution(again(&keys, &key("k", 1))).await;
        assert!(Arc::ptr_eq(&later, &record));
        // Other keys and other tenants have nothing to do with it.
        first(&keys, "t", &key("other", 1));
        first(&keys, "other", &key("k", 2));
    }

    #[tokio::test]
    async fn another_request_may_not_have_the_same_key() {
        let keys = Arc::new(Keys::default());
        let slot = first(&keys, "t", &key("k", 1));
        let refused = || keys.claim("t", &key("k", 2), KEPT).unwrap_err();
        assert_eq!(refused(), EngineError::KeyReused);
        let (record, _writer) = ExecutionLog::new(1, false);
        slot.taken(&record);
        assert_eq!(refused(), EngineError::KeyReused);
    }

    #[tokio::test]
    async fn refused_request_frees_its_key() {
        let keys = Arc::new(Keys::default());
        let slot = first(&keys, "t", &key("k", 1));
        let waiting = again(&keys, &key("k", 1));
        drop(slot);
        assert!(waiting.product().await.is_none());
        first(&keys, "t", &key("k", 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_lives_as_long_as_its_result_and_never_runs_twice_before() {
        let keys = Arc::new(Keys::default());
        let slot = first(&keys, "t", &key("k", 1));
        let (record, writer) = ExecutionLog::new(1, false);
        slot.taken(&record);
        tokio::time::advance(KEPT * 2).await;
        writer.done(outcome("1", "s"), false, false);
        again(&keys, &key("k", 1));
        // Its result had to make room for others.
        drop((record, writer));
        let gone = keys.claim("t", &key("k", 1), KEPT).unwrap_err();
        assert_eq!(gone, EngineError::ResultGone);
        tokio::time::advance(KEPT).await;
        first(&keys, "t", &key("k", 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_forgotten_in_time_though_somebody_still_reads_its_result() {
        let keys = Arc::new(Keys::default());
        let (record, writer) = ExecutionLog::new(1, false);
        first(&keys, "t", &key("k", 1)).taken(&record);
        writer.done(outcome("1", "s"), false, false);
        tokio::time::advance(KEPT).await;
        first(&keys, "t", &key("k", 1));
    }

    #[tokio::test]
    async fn idempotency_keys_are_bounded() {
        let keys = Arc::new(Keys::default());
        let (record, _writer) = ExecutionLog::new(1, false);
        for number in 0..MAX_KEYS + 10 {
            first(&keys, "t", &key(&number.to_string(), 1)).taken(&record);
        }
        assert_eq!(keys.lock().get("t").unwrap().entries.len(), MAX_KEYS);
        again(&keys, &key(&(MAX_KEYS + 9).to_string(), 1));
        first(&keys, "t", &key("0", 1));
    }
}
