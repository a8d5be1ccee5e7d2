//! Which session starts next, where many are asked for at once.
//!
//! As many start at a time as keep all CPUs busy. If all did, each would take as long as all of them together, and the first
//! answer would come with the last. Tenants take turns, so that one who asks for a thousand keeps another's waiting
//! for one of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use vivarium_protocol::discard;

use super::Session;

/// Sessions that start at a time, for each CPU: while one waits for another of its processes, others run.
pub(super) const PER_CPU: usize = 4;

/// The longest turn, which no start takes whose kernel is forked and may use a CPU: one that waits for something
/// else, or that its limit of CPU time holds up, keeps nobody waiting.
pub(super) const LONGEST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Turns(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    /// Of tenants with sessions that wait, in the order in which they are next.
    tenants: VecDeque<String>,
    waiting: BTreeMap<String, VecDeque<oneshot::Sender<Turn>>>,
}

/// Another's when this is dropped.
#[derive(Debug)]
pub(super) struct Turn(Option<Arc<Turns>>);

impl Default for Turns {
    fn default() -> Self {
        Self::new(thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Turns {
    pub(super) fn new(cpus: usize) -> Self {
        let free = cpus.saturating_mul(PER_CPU).max(1);
        Self(Mutex::new(State { free, tenants: VecDeque::new(), waiting: BTreeMap::new() }))
    }

    /// Waits for the turn of one of this tenant's sessions.
    pub(super) async fn wait(self: &Arc<Self>, tenant: &str) -> Turn {
        let turn = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                return Turn(Some(Arc::clone(self)));
            }
            state.queue(tenant)
        };
        // Nobody drops one who waits without a turn.
        turn.await.unwrap_or(Turn(None))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn queue(&mut self, tenant: &str) -> oneshot::Receiver<Turn> {
        let (sender, turn) = oneshot::channel();
        if let Some(own) = self.waiting.get_mut(tenant) {
            own.push_back(sender);
        } else {
            self.tenants.push_back(tenant.to_owned());
            self.waiting.insert(tenant.to_owned(), VecDeque::from([sender]));
        }
        turn
    }

    /// Who is next, of the tenant that was not for the longest time.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let tenant = self.tenants.pop_front()?;
        let own = self.waiting.get_mut(&tenant)?;
        let next = own.pop_front();
        if own.is_empty() {
            self.waiting.remove(&tenant);
        } else {
            self.tenants.push_back(tenant);
        }
        next
    }
}

impl Turn {
    /// Keeps it until the session has started, or it has taken too long.
    pub(super) async fn keep_until_started(self, session: Arc<Session>) {
        discard(timeout(LONGEST, session.started()).await, "whether or not it did start");
        drop(self);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        let mut state = turns.lock();
        while let Some(next) = state.next() {
            match next.send(Self(Some(Arc::clone(&turns)))) {
                Ok(()) => return,
                // It does not wait any more.
                Err(mut refused) => drop(refused.0.take()),
            }
        }
        state.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    #[tokio::test]
    async fn as_many_start_at_a_time_as_keep_all_cpus_busy() {
        let turns = Arc::new(Turns::new(2));
        let mut held = Vec::new();
        for _ in 0..2 * PER_CPU {
            held.push(turns.wait("one").await);
        }
        let given_up = timeout(Duration::ZERO, turns.wait("one")).await;
        assert!(given_up.is_err(), "a turn that nobody gave up");
        held.pop();
        let next = timeout(Duration::ZERO, turns.wait("other")).await;
        assert!(next.is_ok(), "its turn went to one who waits no more");
    }

    #[tokio::test]
    async fn tenants_take_turns() {
        let turns = Arc::new(Turns::new(1));
        let mut held = Vec::new();
        for _ in 0..PER_CPU {
            held.push(turns.wait("many").await);
        }
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = JoinSet::new();
        for tenant in ["many", "many", "many", "other", "third", "other"] {
            let (own, order) = (Arc::clone(&turns), Arc::clone(&order));
            waiting.spawn(async move {
                let turn = own.wait(tenant).await;
                order.lock().unwrap().push(tenant);
                drop(turn);
            });
            // It waits before the next one does.
            yield_now().await;
        }
        held.pop();
        waiting.join_all().await;
        let order = order.lock().unwrap();
        assert_eq!(*order, ["many", "other", "third", "many", "other", "many"]);
    }
}
