//! The task that fills the pools and ends what is of no use.
//!
//! It wakes when something has changed and when a time is up that it waits for. It must never make
//! anybody wait who takes a session, nor leave anything of one it has ended.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use vivarium_protocol::message::Failure;

use super::pace::Pace;
use super::{Key, Shared, State};
use crate::memory::{Memory, PoolAction};
use crate::session::{PooledSession, internal_failure};
use crate::template::Template;

/// How many are given up at once. What that was good for, the next reading says.
const GIVEN_UP_AT_ONCE: usize = 4;

#[derive(Debug)]
struct Start {
    key: Key,
    /// For which spec of the pool.
    generation: u64,
    began: Instant,
}

#[derive(Debug)]
pub(super) struct Keeper {
    shared: Arc<Shared>,
    memory: Arc<Memory>,
    readings: watch::Receiver<Instant>,
    /// The reading after which some were given up.
    shrunk_at: Option<Instant>,
    pace: Pace,
    starting: HashMap<Id, Start>,
    starts: JoinSet<Result<PooledSession, Failure>>,
    ends: JoinSet<()>,
    /// Those whose templates are waited for.
    awaiting: BTreeSet<Key>,
    templates: JoinSet<Key>,
    turns: u64,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>, memory: Arc<Memory>) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            shared,
            readings: memory.readings(),
            memory,
            shrunk_at: None,
            pace: Pace::new(u32::try_from(cpus).unwrap_or(u32::MAX)),
            starting: HashMap::new(),
            starts: JoinSet::new(),
            ends: JoinSet::new(),
            awaiting: BTreeSet::new(),
            templates: JoinSet::new(),
            turns: 0,
        }
    }

    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            if shared.is_closed() {
                break;
            }
            self.shrink();
            let wake = earliest(self.expire(), self.refill());
            self.end_dead();
            tokio::select! {
                () = shared.changed.notified() => {}
                () = shared.lost() => {}
                Ok(()) = self.readings.changed() => {}
                Some(ended) = self.starts.join_next_with_id() => self.started(ended),
                Some(_) = self.ends.join_next() => {}
                Some(Ok(key)) = self.templates.join_next() => drop(self.awaiting.remove(&key)),
                () = at(wake) => {}
            }
        }
        self.templates.shutdown().await;
        while let Some(ended) = self.starts.join_next_with_id().await {
            self.started(ended);
        }
        self.end_dead();
        while self.ends.join_next().await.is_some() {}
    }

    /// Begins to end what is of no use.
    fn end_dead(&mut self) {
        for pooled in std::mem::take(&mut self.shared.lock().dead) {
            self.ends.spawn(pooled.discard());
        }
    }

    /// Removes the pools that nobody has used for long, and says when to look again.
    fn expire(&self) -> Option<Instant> {
        let now = Instant::now();
        let (idle, due): (_, Vec<_>) = {
            let state = self.shared.lock();
            let idle = state.bounds.idle_timeout;
            let due = |used: Instant| used.checked_add(idle).is_some_and(|due| due <= now);
            let temporary = state.pools.iter().filter(|(_, pool)| !pool.permanent);
            (
                idle,
                temporary.filter(|(_, pool)| due(pool.used)).map(|(key, _)| key.clone()).collect(),
            )
        };
        for key in due {
            // Not under our lock: who takes a session has the registry's first.
            let is_used = self.shared.registry.has(&key.0, &key.1);
            let mut state = self.shared.lock();
            match state.pools.get_mut(&key) {
                Some(pool) if is_used => pool.used = now,
                // It may have been used meanwhile.
                Some(pool) if pool.used.checked_add(idle).is_none_or(|due| due > now) => {}
                _ => {
                    let (tenant, environment) = &key;
                    tracing::debug!(tenant, environment, "nobody uses this pool: it is drained");
                    state.remove(&key);
                    self.shared.changed.notify_one();
                }
            }
        }
        let state = self.shared.lock();
        let temporary = state.pools.values().filter(|pool| !pool.permanent);
        temporary.filter_map(|pool| pool.used.checked_add(idle)).min()
    }

    /// Starts what is missing and may be started, and says when to look again.
    fn refill(&mut self) -> Option<Instant> {
        let now = Instant::now();
        loop {
            let shared = Arc::clone(&self.shared);
            let mut state = shared.lock();
            let Look { next, wake, templates } = state.look(|key| self.starting_for(key), now);
            self.wait_for(templates);
            let Some(key) = next else {
                state.pause(false);
                return wake;
            };
            let bounds = state.bounds;
            drop(state);
            if let Err(again) = self.pace.may_start(bounds.cpu_share, self.starts.len(), now) {
                return earliest(wake, again);
            }
            let may_fill = self.memory.pool_action(&key.1, bounds.memory) == PoolAction::Fill;
            let mut state = shared.lock();
            state.pause(!may_fill);
            if !may_fill {
                // Each reading wakes us.
                self.memory.request_reading();
                return wake;
            }
            self.start(&mut state, key);
        }
    }

    /// Gives up some of what is ready while the host is short of memory, the fullest pool first.
    fn shrink(&mut self) {
        let reading = Some(*self.readings.borrow_and_update());
        if std::mem::replace(&mut self.shrunk_at, reading) == reading {
            return;
        }
        let mut state = self.shared.lock();
        for _ in 0..GIVEN_UP_AT_ONCE {
            let policy = state.bounds.memory;
            let State { pools, dead, .. } = &mut *state;
            let full = pools.iter_mut().filter(|(_, pool)| pool.len() > 0);
            let Some((key, pool)) = full.max_by(|a, b| a.1.order(0, b.1, 0)) else { return };
            if self.memory.pool_action(&key.1, policy) != PoolAction::Shrink {
                return;
            }
            dead.extend(pool.give_up());
            self.shared.metrics.pool.gave_up(&key.1);
            self.shared.changed.notify_one();
            self.memory.request_reading();
        }
    }

    fn wait_for(&mut self, templates: Vec<(Key, Arc<Template>)>) {
        for (key, template) in templates {
            if self.awaiting.insert(key.clone()) {
                self.templates.spawn(async move {
                    template.settled().await;
                    key
                });
            }
        }
    }

    fn starting_for(&self, key: &Key) -> usize {
        self.starting.values().filter(|start| start.key == *key).count()
    }

    fn start(&mut self, state: &mut State, key: Key) {
        let within = state.bounds.start_timeout;
        // It may be gone meanwhile.
        let Some(pool) = state.pools.get_mut(&key) else { return };
        self.turns += 1;
        pool.turn = self.turns;
        let (plan, generation) = (pool.plan(), pool.generation);
        let (tenant, shared) = (key.0.clone(), Arc::clone(&self.shared));
        let reservation = self.memory.reserve(&key.1);
        let started = self.starts.spawn(async move {
            let _until_ready = reservation;
            let until = async {
                tokio::select! {
                    () = sleep(within) => "no kernel became ready in time",
                    () = shared.until_closed() => "the pools are being drained",
                }
            };
            PooledSession::start(&tenant, plan, until).await
        });
        self.starting.insert(started.id(), Start { key, generation, began: Instant::now() });
    }

    fn started(&mut self, ended: Result<(Id, Result<PooledSession, Failure>), JoinError>) {
        let (id, result) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Err(internal_failure(&error.to_string()))),
        };
        let Some(Start { key, generation, began }) = self.starting.remove(&id) else { return };
        let (now, took) = (Instant::now(), began.elapsed());
        let mut state = self.shared.lock();
        self.pace.ended(state.bounds.cpu_share, took, now);
        let (tenant, environment) = &key;
        let State { pools, dead, .. } = &mut *state;
        let pool = pools.get_mut(&key).filter(|pool| pool.generation == generation);
        match (result, pool) {
            (Ok(pooled), Some(pool)) => {
                if pool.push(pooled) {
                    tracing::info!(tenant, environment, "sessions for the pool start again");
                }
                self.shared.metrics.pool.refilled(environment, took);
            }
            // What was wanted has changed meanwhile.
            (Ok(pooled), None) => dead.push(pooled),
            (Err(failure), Some(pool)) => {
                if pool.failed(now, &failure) {
                    tracing::warn!(tenant, environment, %failure, "a session for the pool did not start");
                }
                self.shared.metrics.pool.not_refilled(environment);
            }
            (Err(_), None) => {}
        }
    }
}

/// What is missing in the pools.
struct Look {
    /// Whose turn it is to have a session started.
    next: Option<Key>,
    /// When to look again, since others wait that long.
    wake: Option<Instant>,
    /// What others wait for.
    templates: Vec<(Key, Arc<Template>)>,
}

impl State {
    /// Looks at all pools.
    fn look(&mut self, starting: impl Fn(&Key) -> usize, now: Instant) -> Look {
        let (mut wake, mut templates, mut wanting) = (None, Vec::new(), Vec::new());
        for (key, pool) in &mut self.pools {
            pool.check_interpreter(&mut self.generation, &mut self.dead);
            let starting = starting(key);
            if pool.wants_more(starting) {
                if let Some(until) = pool.waits_until(now) {
                    wake = earliest(wake, Some(until));
                } else if let Some(template) = pool.awaited_template() {
                    templates.push((key.clone(), template));
                } else {
                    wanting.push((key, &*pool, starting));
                }
            }
        }
        let first = wanting.into_iter().min_by(|a, b| a.1.order(a.2, b.1, b.2));
        Look { next: first.map(|(key, ..)| key.clone()), wake, templates }
    }

    fn pause(&mut self, pause: bool) {
        if std::mem::replace(&mut self.paused, pause) != pause {
            if pause {
                tracing::warn!("the host is short of memory: no sessions are started for pools");
            } else {
                tracing::info!("sessions are started for pools again");
            }
        }
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// Resolves then; never if there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
