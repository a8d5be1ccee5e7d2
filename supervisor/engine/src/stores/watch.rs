//! Measures the homes and volumes that sessions write to, and removes homes that nobody has used for
//! long enough.

use std::sync::Weak;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};

use super::quota::Verdict;
use super::{Store, Stores};
use crate::settings::Quota;

/// How often it looks what is due.
const TICK: Duration = Duration::from_millis(500);

/// The least time between two measurements of what sessions are at work on, and of what they only have.
const BUSY: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(30);

/// How often it looks for homes that are to go.
const EXPIRY: Duration = Duration::from_secs(10);

/// What the watch is told, anew each time.
pub(crate) trait Watched: Send + Sync {
    /// What a tenant's homes and volumes may take each.
    /// `None` once the engine is gone.
    fn quota(&self, tenant: &str) -> Option<Quota>;
    fn expire_after(&self) -> Option<Duration>;
    /// Whether a session that writes to it has done anything since it was last asked.
    fn is_busy(&self, store: &Store) -> bool;
    /// Whether a suspended session has it.
    fn sleeper_has(&self, store: &Store) -> bool;
    /// Ends the sessions that write to it.
    fn end_writers(&self, store: &Store);
}

/// Watches as long as the homes, and who uses them, are there.
pub(crate) async fn run<W: Watched>(stores: Weak<Stores>, watched: impl Fn() -> Option<W>) {
    let mut expiry = Instant::now();
    loop {
        sleep(TICK).await;
        let (Some(stores), Some(watched)) = (stores.upgrade(), watched()) else { return };
        let written: Vec<_> =
            stores.all().into_iter().filter(|store| store.uses().writers > 0).collect();
        for store in written.into_iter().filter(|store| store.quota.is_due(BUSY)) {
            if !store.quota.is_due(IDLE) && !watched.is_busy(&store) {
                continue;
            }
            let Some(quota) = watched.quota(&store.tenant) else { return };
            match stores.measure(&store, &quota).await {
                Ok(Verdict::Growing) => {
                    tracing::warn!(
                        tenant = store.tenant,
                        store = store.key.id(),
                        "over its quota and growing: sessions that write to it are ended"
                    );
                    watched.end_writers(&store);
                }
                Ok(Verdict::Within | Verdict::Over) => {}
                Err(error) => tracing::warn!(%error, tenant = store.tenant, "measure a home"),
            }
        }
        if expiry <= Instant::now() {
            expiry = Instant::now() + EXPIRY;
            if let Some(after) = watched.expire_after() {
                stores.expire(after, &watched).await;
            }
        }
    }
}

impl Stores {
    async fn expire(&self, after: Duration, watched: &impl Watched) {
        let is_old = |store: &Store| {
            let unused = SystemTime::now().duration_since(super::disk::last_used(&store.dir));
            store.key.is_home()
                && !store.in_use()
                && unused.is_ok_and(|unused| unused > after)
                && !watched.sleeper_has(store)
        };
        for store in self.all().into_iter().filter(|store| is_old(store)) {
            let sleeper_has = |store: &Store| watched.sleeper_has(store);
            match self.remove(&store.tenant, &store.key, "expired", sleeper_has).await {
                Ok(()) => tracing::info!(tenant = store.tenant, "a home has expired"),
                Err(error) => tracing::warn!(%error, tenant = store.tenant, "a home stays"),
            }
        }
    }
}
