//! Executions that can still be asked about: those that wait or run, and for some time those that
//! are over, also when their session is gone.
//!
//! What is over is bounded in bytes for each tenant, and makes room for what the tenant does next
//! ([`crate::budget`]); the oldest goes first. An execution is found by its tenant only.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use vivarium_protocol::message::ExecutionNumber;

use super::Identity;
use super::execution_log::ExecutionLog;
use crate::budget::Evict;
use crate::settings::{DEFAULT_RESULTS_MB, Tenant};

/// Bytes of a tenant's executions that are over, at most.
const MAX_BYTES: usize = (DEFAULT_RESULTS_MB as usize) << 20;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    tenant: String,
    session: String,
    number: ExecutionNumber,
}

#[derive(Debug)]
pub struct Results {
    inner: Mutex<Inner>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Inner {
    records: BTreeMap<Key, Arc<ExecutionLog>>,
    over: HashMap<String, Kept>,
    /// The most bytes of tenants that may keep more or less than others.
    max_bytes: HashMap<String, usize>,
}

/// A tenant's executions that are over.
#[derive(Debug, Default)]
struct Kept {
    /// In the order in which they ended.
    over: VecDeque<Over>,
    bytes: usize,
}

#[derive(Debug)]
struct Over {
    key: Key,
    record: Arc<ExecutionLog>,
    until: Instant,
    bytes: usize,
}

impl Default for Results {
    fn default() -> Self {
        Self::new(MAX_BYTES)
    }
}

impl Results {
    /// Keeps at most so many bytes of what is over of each tenant.
    pub fn new(max_bytes: usize) -> Self {
        Self { inner: Mutex::default(), max_bytes }
    }

    /// Has each tenant keep as many bytes as it may.
    pub fn set_maxima(&self, tenants: &BTreeMap<String, Tenant>) {
        let bytes = |mib: u64| usize::try_from(mib.saturating_mul(1 << 20)).unwrap_or(usize::MAX);
        let maxima =
            tenants.iter().map(|(name, it)| (name.clone(), bytes(it.quotas.max_results_mb)));
        self.lock().max_bytes = maxima.collect();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An execution waits. One of the same number, of an earlier session of the same id, is
    /// forgotten.
    pub fn add(&self, who: &Identity, number: ExecutionNumber, record: &Arc<ExecutionLog>) {
        self.lock().records.insert(key(who, number), Arc::clone(record));
    }

    /// An execution is over: it is kept for so long.
    pub fn ended(&self, who: &Identity, number: ExecutionNumber, keep: Duration) {
        let key = key(who, number);
        let mut inner = self.lock();
        if keep.is_zero() {
            inner.records.remove(&key);
            return;
        }
        let Some(record) = inner.records.get(&key).map(Arc::clone) else { return };
        let bytes = record.weight_bytes();
        let until = Instant::now() + keep;
        let kept = inner.over.entry(who.tenant.clone()).or_default();
        kept.bytes += bytes;
        kept.over.push_back(Over { key, record, until, bytes });
        let forgotten = inner.forget(&who.tenant, Instant::now(), self.max_bytes);
        drop(inner);
        drop(forgotten);
    }

    /// An execution of a tenant's, if it is known.
    pub fn get(
        &self,
        tenant: &str,
        session: &str,
        number: ExecutionNumber,
    ) -> Option<Arc<ExecutionLog>> {
        let key = Key { tenant: tenant.to_owned(), session: session.to_owned(), number };
        let mut inner = self.lock();
        let forgotten = inner.forget(tenant, Instant::now(), self.max_bytes);
        let found = inner.records.get(&key).map(Arc::clone);
        drop(inner);
        drop(forgotten);
        found
    }

    /// Whether a client follows an execution of this session that is not over.
    pub fn is_followed(&self, who: &Identity) -> bool {
        let inner = self.lock();
        let own = inner.records.range(key(who, 0)..=key(who, ExecutionNumber::MAX));
        own.map(|(_, record)| record).any(|record| record.is_followed())
    }

    /// The executions of a tenant's session with a number below this one, newest first.
    pub fn before(
        &self,
        tenant: &str,
        session: &str,
        number: ExecutionNumber,
    ) -> Vec<(ExecutionNumber, Arc<ExecutionLog>)> {
        let key = |number| Key { tenant: tenant.to_owned(), session: session.to_owned(), number };
        let inner = self.lock();
        let own = inner.records.range(key(0)..key(number)).rev();
        own.map(|(key, record)| (key.number, Arc::clone(record))).collect()
    }

    /// Forgets what has been kept for long enough. Asking does so too; this is for when nobody
    /// asks.
    pub fn forget_expired(&self) {
        let now = Instant::now();
        let mut inner = self.lock();
        let tenants: Vec<_> = inner.over.keys().cloned().collect();
        let forgotten: Vec<_> =
            tenants.iter().flat_map(|tenant| inner.forget(tenant, now, self.max_bytes)).collect();
        drop(inner);
        drop(forgotten);
    }
}

impl Evict for Results {
    fn forget_oldest_of(&self, tenant: &str) -> bool {
        let forgotten = self.lock().forget_oldest(tenant);
        forgotten.is_some()
    }

    fn forget_oldest_of_most(&self) -> bool {
        let mut inner = self.lock();
        let most = inner.over.iter().max_by_key(|(_, kept)| kept.bytes);
        let Some(tenant) = most.map(|(tenant, _)| tenant.clone()) else { return false };
        let forgotten = inner.forget_oldest(&tenant);
        drop(inner);
        forgotten.is_some()
    }
}

impl Inner {
    /// Forgets what a tenant may not keep any more. What is returned is to be dropped when the
    /// lock is not held.
    fn forget(&mut self, tenant: &str, now: Instant, max_bytes: usize) -> Vec<Over> {
        let mut forgotten = Vec::new();
        let max_bytes = self.max_bytes.get(tenant).copied().unwrap_or(max_bytes);
        let is_due = |kept: &Kept| {
            let oldest = kept.over.front();
            oldest.is_some_and(|over| over.until <= now || kept.bytes > max_bytes)
        };
        while self.over.get(tenant).is_some_and(is_due) {
            forgotten.extend(self.forget_oldest(tenant));
        }
        forgotten
    }

    fn forget_oldest(&mut self, tenant: &str) -> Option<Over> {
        let kept = self.over.get_mut(tenant)?;
        let over = kept.over.pop_front();
        if let Some(over) = &over {
            kept.bytes -= over.bytes;
            let is_it = |record: &Arc<ExecutionLog>| Arc::ptr_eq(record, &over.record);
            if self.records.get(&over.key).is_some_and(is_it) {
                self.records.remove(&over.key);
            }
        }
        if kept.over.is_empty() {
            self.over.remove(tenant);
        }
        over
    }
}

fn key(who: &Identity, number: ExecutionNumber) -> Key {
    Key { tenant: who.tenant.clone(), session: who.id.clone(), number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::settings;
    use crate::session::execution_log::{LogWriter, tests::outcome};

    const MINUTE: Duration = Duration::from_secs(60);

    fn who(tenant: &str, id: &str) -> Identity {
        Identity {
            id: id.to_owned(),
            tenant: tenant.to_owned(),
            environment: "default".to_owned(),
            network: settings().sandbox.network,
            approval: Default::default(),
        }
    }

    fn add(results: &Results, who: &Identity, number: ExecutionNumber) -> LogWriter {
        let (record, writer) = ExecutionLog::new(1 << 10, false);
        results.add(who, number, &record);
        writer
    }

    fn end(results: &Results, who: &Identity, number: ExecutionNumber, text: &str) {
        let writer = add(results, who, number);
        let mut outcome = outcome(&number.to_string(), &who.id);
        text.clone_into(&mut outcome.stdout);
        writer.done(outcome, false, false);
        results.ended(who, number, MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn ended_results_expire_and_running_ones_do_not() {
        let (results, who) = (Results::default(), who("t", "s"));
        let _running = add(&results, &who, 1);
        end(&results, &who, 2, "");
        tokio::time::advance(MINUTE - Duration::from_secs(1)).await;
        assert!(results.get("t", "s", 2).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(results.get("t", "s", 2).is_none());
        assert!(results.get("t", "s", 1).is_some());
        results.ended(&who, 1, Duration::ZERO);
        assert!(results.get("t", "s", 1).is_none(), "not to be kept at all");
    }

    #[test]
    fn a_thousand_clients_never_have_one_byte_more_kept_than_their_tenant_may() {
        const MAX: usize = 100 << 10;
        let (results, who) = (Results::new(MAX), who("t", "s"));
        let barrier = std::sync::Barrier::new(1000);
        std::thread::scope(|scope| {
            for number in 1..=1000_u16 {
                let (results, who, barrier) = (&results, &who, &barrier);
                let client = move || {
                    barrier.wait();
                    end(results, who, number.into(), &"x".repeat(usize::from(number) * 7));
                    let inner = results.lock();
                    let kept = &inner.over["t"];
                    let bytes = kept.over.iter().map(|over| over.record.weight_bytes());
                    assert!(kept.bytes <= MAX && bytes.sum::<usize>() == kept.bytes);
                };
                std::thread::Builder::new()
                    .stack_size(128 << 10)
                    .spawn_scoped(scope, client)
                    .unwrap();
            }
        });
        assert!(results.lock().over["t"].bytes > MAX - (16 << 10), "as many as have room");
    }

    #[tokio::test]
    async fn another_tenant_does_not_find_it() {
        let (results, who) = (Results::default(), who("t", "s"));
        end(&results, &who, 1, "");
        assert!(results.get("other", "s", 1).is_none());
        assert!(results.get("t", "other", 1).is_none());
        assert!(results.get("t", "s", 1).is_some());
    }

    #[tokio::test]
    async fn the_oldest_goes_first_where_there_is_no_room() {
        let (results, who) = (Results::new(100 << 10), who("t", "s"));
        let _running = add(&results, &who, 1);
        let text = "x".repeat(30 << 10);
        for number in 2..=10 {
            end(&results, &who, number, &text);
        }
        let kept: Vec<_> = (1..=10).filter(|n| results.get("t", "s", *n).is_some()).collect();
        assert_eq!(kept, [1, 8, 9, 10]);
        assert!(results.lock().over["t"].bytes <= 100 << 10);
    }

    #[tokio::test]
    async fn a_tenant_that_keeps_much_costs_another_nothing() {
        let results = Results::new(100 << 10);
        let (quiet, loud) = (who("quiet", "s"), who("loud", "s"));
        end(&results, &quiet, 1, "x");
        for number in 1..=10 {
            end(&results, &loud, number, &"x".repeat(60 << 10));
        }
        assert!(results.get("quiet", "s", 1).is_some());
        assert!(results.get("loud", "s", 9).is_none());
        assert!(results.forget_oldest_of_most(), "of the one that keeps most");
        assert!(results.get("loud", "s", 10).is_none());
        assert!(results.get("quiet", "s", 1).is_some());
        assert!(!results.forget_oldest_of("loud"));
        assert!(results.forget_oldest_of("quiet"));
        assert!(results.get("quiet", "s", 1).is_none());
        assert!(!results.forget_oldest_of_most());
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_session_of_the_same_id_does_not_lose_its_results_with_the_old_ones() {
        let (results, who) = (Results::default(), who("t", "s"));
        end(&results, &who, 1, "old");
        tokio::time::advance(MINUTE / 2).await;
        end(&results, &who, 1, "new");
        tokio::time::advance(MINUTE / 2).await;
        let found = results.get("t", "s", 1).unwrap().finished().await.unwrap();
        assert_eq!(found.stdout, "new");
    }
}
