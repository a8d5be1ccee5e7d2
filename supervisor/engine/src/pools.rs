//! Pools of sessions that are started before anybody asks for them.
//!
//! There is one for each tenant and environment, since a session's scope is in its tenant's cgroup
//! and processes are never moved between cgroups. A [`PooledSession`] belongs
//! to nobody, is in no list, and is given away once. One task, the [`keeper`], fills all of them in the background;
//! whoever takes a session waits for nothing.
//!
//! It must never give away a session that another policy was meant for, that is not there any
//! more, or that somebody has had.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use vivarium_metrics::Metrics;
use vivarium_protocol::policy::Policy;

use crate::memory::{Memory, MemoryPolicy};
use crate::session::registry::Registry;
use crate::session::{LaunchPlan, PooledSession};
use crate::settings::Environment;

mod keeper;
mod pace;
mod pool;
#[cfg(test)]
mod tests;

use keeper::Keeper;
use pool::Pool;

pub type Key = (String, String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// If fewer are left, more are started.
    pub low: usize,
    /// Until there are this many.
    pub high: usize,
}

#[derive(Debug)]
pub struct PoolSpec {
    /// How its sessions are started, and whom they are for: a session with this very policy.
    pub plan: LaunchPlan,
    /// What the environment is configured to have. Sessions of another one do not belong there.
    pub environment: Environment,
    pub watermarks: Watermarks,
}

/// What holds for all pools.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The part of all CPUs that starting sessions may take.
    pub cpu_share: f64,
    /// What of the host's memory they leave.
    pub memory: MemoryPolicy,
    /// How long one session may take to start.
    pub start_timeout: Duration,
    /// How long a tenant's pool is kept that nobody uses.
    pub idle_timeout: Duration,
}

/// All pools of a daemon.
#[derive(Debug)]
pub struct Pools {
    shared: Arc<Shared>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// What the pools and their keeper have in common.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told when the keeper may have something to do.
    changed: Notify,
    /// Whether there are to be no pools any more.
    closed: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    registry: Arc<Registry>,
}

#[derive(Debug)]
struct State {
    bounds: Bounds,
    pools: BTreeMap<Key, Pool>,
    /// Those to be ended.
    dead: Vec<PooledSession>,
    /// Counts changes of what pools hold.
    generation: u64,
    /// Whether none are started for want of memory.
    paused: bool,
}

impl Pools {
    /// None yet. Has to be called where tokio runs.
    pub fn new(
        bounds: Bounds,
        metrics: &Arc<Metrics>,
        registry: &Arc<Registry>,
        memory: &Arc<Memory>,
    ) -> Self {
        let (pools, dead, generation, paused) = (BTreeMap::new(), Vec::new(), 0, false);
        let shared = Arc::new(Shared {
            state: Mutex::new(State { bounds, pools, dead, generation, paused }),
            changed: Notify::new(),
            closed: watch::Sender::new(false),
            metrics: Arc::clone(metrics),
            registry: Arc::clone(registry),
        });
        let keeper = tokio::spawn(Keeper::new(Arc::clone(&shared), Arc::clone(memory)).run());
        Self { shared, keeper: Mutex::new(Some(keeper)) }
    }

    /// Says what holds from now on. `permanent` are the pools that are there without anybody's having
    /// asked, and `spec` says of these and of those there are what they are to hold, if anything.
    pub fn arrange(
        &self,
        bounds: Bounds,
        permanent: &BTreeSet<Key>,
        spec_of: impl Fn(&Key) -> Option<PoolSpec>,
    ) {
        let mut state = self.shared.lock();
        if self.shared.is_closed() {
            return;
        }
        state.bounds = bounds;
        let keys: BTreeSet<_> = state.pools.keys().chain(permanent).cloned().collect();
        for key in keys {
            match spec_of(&key) {
                Some(spec) => self.put(&mut state, &key, spec, permanent.contains(&key)),
                None => state.remove(&key),
            }
        }
        self.shared.changed.notify_one();
    }

    /// Makes a tenant's pool in an environment, unless there is one.
    pub fn ensure(
        &self,
        tenant: &str,
        environment: &str,
        spec_of: impl FnOnce() -> Option<PoolSpec>,
    ) {
        let key = key(tenant, environment);
        let mut state = self.shared.lock();
        if !self.shared.is_closed()
            && !state.pools.contains_key(&key)
            && let Some(spec) = spec_of()
        {
            self.put(&mut state, &key, spec, false);
            self.shared.changed.notify_one();
        }
    }

    fn put(&self, state: &mut State, key: &Key, spec: PoolSpec, permanent: bool) {
        self.shared.metrics.pool.introduced(&key.1);
        state.generation += 1;
        let generation = state.generation;
        match state.pools.get_mut(key) {
            Some(pool) => {
                let dead = pool.update(spec, permanent, generation);
                state.dead.extend(dead);
            }
            None => drop(state.pools.insert(key.clone(), Pool::new(spec, permanent, generation))),
        }
    }

    /// A session of a tenant and an environment that was started with this policy.
    #[must_use]
    pub fn checkout(
        &self,
        tenant: &str,
        environment: &str,
        policy: &Policy,
    ) -> Option<PooledSession> {
        let mut state = self.shared.lock();
        let State { pools, dead, generation, .. } = &mut *state;
        let pool = pools.get_mut(&key(tenant, environment));
        pool.and_then(|pool| {
            pool.check_interpreter(generation, dead);
            let pooled = pool.checkout(policy, dead);
            if pool.is_low() || !dead.is_empty() {
                self.shared.changed.notify_one();
            }
            pooled
        })
    }

    /// Notes that a tenant uses an environment.
    pub fn touch(&self, tenant: &str, environment: &str) {
        if let Some(pool) = self.shared.lock().pools.get_mut(&key(tenant, environment)) {
            pool.used = Instant::now();
        }
    }

    pub fn ready(&self, tenant: &str, environment: &str) -> usize {
        self.shared.lock().pools.get(&key(tenant, environment)).map_or(0, |pool| pool.len())
    }

    pub fn ready_in(&self, environment: &str) -> usize {
        let state = self.shared.lock();
        let own = state.pools.iter().filter(|((_, own), _)| own == environment);
        own.map(|(_, pool)| pool.len()).sum()
    }

    /// Whether none are started for want of memory.
    pub fn is_paused(&self) -> bool {
        self.shared.lock().paused
    }

    /// Ends all of them, and returns when nothing of them is left. There are none any more after
    /// that.
    pub async fn drain(&self) {
        self.shared.close();
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper
            && let Err(error) = keeper.await
        {
            tracing::error!(%error, "the pools' keeper failed");
        }
    }
}

impl Drop for Pools {
    /// The keeper ends what there is.
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        // Under the lock, so that nobody takes one afterwards.
        let mut state = self.lock();
        self.closed.send_replace(true);
        let pools = std::mem::take(&mut state.pools);
        state.dead.extend(pools.into_values().flat_map(Pool::into_ready));
        self.changed.notify_one();
    }

    fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Resolves when there are to be no pools any more.
    async fn until_closed(&self) {
        let mut closed = self.closed.subscribe();
        if closed.wait_for(|closed| *closed).await.is_err() {
            // The sender is part of `self`, and so is there.
            tracing::error!("the end of the pools was lost");
        }
    }

    /// Resolves when some that were ready are of no use any more. They are to be ended then.
    async fn lost(&self) {
        poll_fn(|cx| {
            let State { pools, dead, .. } = &mut *self.lock();
            let mut any = false;
            for (key, pool) in pools {
                let lost = pool.poll_lost(cx, dead);
                if lost > 0 {
                    let (tenant, environment) = key;
                    tracing::warn!(
                        tenant,
                        environment,
                        lost,
                        "pooled sessions ended by themselves"
                    );
                    any = true;
                }
            }
            if any { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl State {
    /// There is no such pool any more.
    fn remove(&mut self, key: &Key) {
        if let Some(pool) = self.pools.remove(key) {
            self.dead.extend(pool.into_ready());
        }
    }
}

fn key(tenant: &str, environment: &str) -> Key {
    (tenant.to_owned(), environment.to_owned())
}
