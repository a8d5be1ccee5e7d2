//! A session that is prepared before anybody asks for it, for the next one that is as the last was.
//!
//! It is a launcher as any other, which was told what the policy will be but for variables and cgroup
//! (`agent/src/launcher/prepared.rs`). It belongs to no session. One is made when none was asked for during
//! [`QUIET`], whatever it was to be, so that a host that is busy spends nothing on it, and it is never needed.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{Launch, LaunchOrder};
use vivarium_protocol::policy::{Network, Policy};

use super::LaunchSpec;
use super::ids::{IdPool, Lease};
use super::linux::{ForkedLauncher, Launchers};

#[cfg(test)]
mod tests;

const QUIET: Duration = Duration::from_millis(20);

/// Of a smaller grant of subordinate ids none are kept for it.
const MIN_PAIRS: u32 = 1024;

#[derive(Debug, Default)]
pub(super) struct Spare {
    state: Mutex<State>,
    /// A session was asked for, or nobody is left to ask.
    asked: Arc<Notify>,
    /// Held while one is prepared.
    filling: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    kept: Option<Prepared>,
    /// What the last session was, of those that can be prepared.
    last: Option<(Policy, Option<Arc<IdPool>>)>,
    /// No session is to come any more.
    is_over: bool,
}

#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) launcher: ForkedLauncher,
    pub(super) lease: Option<Lease>,
    policy: Policy,
}

impl Spare {
    /// One for this session, if there is one.
    pub(super) fn take(&self, spec: &LaunchSpec) -> Option<Prepared> {
        self.asked.notify_one();
        if !can_be_prepared(spec) {
            return None;
        }
        let mut state = self.lock();
        state.last = Some((without_own(&spec.policy), spec.ids.clone()));
        let kept = state.kept.take_if(|kept| kept.is_for(&spec.policy, spec.ids.as_ref()))?;
        drop(state);
        if kept.launcher.runs() {
            return Some(kept);
        }
        tokio::spawn(kept.end());
        None
    }

    /// Keeps one from now on, for as long as there are `launchers`.
    pub(super) fn keep(&self, launchers: Weak<Launchers>) {
        let asked = Arc::clone(&self.asked);
        tokio::spawn(async move {
            loop {
                asked.notified().await;
                while timeout(QUIET, asked.notified()).await.is_ok() {}
                let Some(launchers) = launchers.upgrade() else { return };
                if let Err(error) = launchers.spare.fill(&launchers).await {
                    // The next session's own launch says what is wrong.
                    tracing::debug!(%error, "no session is prepared");
                }
            }
        });
    }

    async fn fill(&self, launchers: &Launchers) -> io::Result<()> {
        let filling = self.filling.lock().await;
        let (other, last) = {
            let mut state = self.lock();
            let Some((policy, ids)) = state.last.clone() else { return Ok(()) };
            let is_right = |kept: &Prepared| kept.is_for(&policy, ids.as_ref());
            if state.is_over || state.kept.as_ref().is_some_and(is_right) {
                return Ok(());
            }
            (state.kept.take(), (policy, ids))
        };
        if let Some(other) = other {
            other.end().await;
        }
        let mut prepared = Some(prepare(launchers, last).await?);
        {
            let mut state = self.lock();
            if !state.is_over {
                state.kept = prepared.take();
            }
        }
        if let Some(too_late) = prepared {
            too_late.end().await;
        }
        drop(filling);
        Ok(())
    }

    /// Returns when what was kept is gone.
    pub(super) async fn stop(&self) {
        self.lock().is_over = true;
        drop(self.filling.lock().await);
        let kept = self.lock().kept.take();
        if let Some(kept) = kept {
            kept.end().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.asked.notify_one();
    }
}

impl Prepared {
    fn is_for(&self, policy: &Policy, ids: Option<&Arc<IdPool>>) -> bool {
        self.lease.is_some() == ids.is_some()
            && Policy { ids: self.policy.ids, ..policy.clone() }.has_surroundings_of(&self.policy)
    }

    /// Its ids are others' again when nothing of it is left.
    async fn end(self) {
        let Self { launcher, lease, .. } = self;
        if let (false, Some(lease)) = (launcher.end().await, lease) {
            lease.keep();
        }
    }
}

/// What the host's network needs is read as a session starts, and a home or volume is a session's own.
fn can_be_prepared(spec: &LaunchSpec) -> bool {
    let policy = &spec.policy;
    let applies = |layer| policy.plan.applies(layer);
    applies(Layer::Namespaces)
        && applies(Layer::Mounts)
        && policy.network != Network::Full
        && policy.stores.is_empty()
        && spec.ids.as_ref().is_none_or(|pool| pool.pairs() >= MIN_PAIRS)
}

/// Nothing that is a session's own, so that the next one's processes never hold it.
fn without_own(policy: &Policy) -> Policy {
    Policy { env: Vec::new(), cgroup: None, ids: None, ..policy.clone() }
}

async fn prepare(
    launchers: &Launchers,
    (policy, ids): (Policy, Option<Arc<IdPool>>),
) -> io::Result<Prepared> {
    let mut namespace: Option<OwnedFd> = None;
    let mut lease = None;
    if let Some(pool) = ids {
        namespace = pool.namespace()?;
        // It may claim more from other daemons, which takes a lock on a file.
        let leased = spawn_blocking(move || pool.lease()).await?;
        lease = Some(leased.ok_or_else(|| io::Error::other("all subordinate ids are in use"))?);
    }
    let policy = Policy { ids: lease.as_ref().map(Lease::ids), ..policy };
    let launcher = launchers.fork().await.map_err(io::Error::other)?;
    let order = LaunchOrder::Prepare(Launch {
        protocol_version: PROTOCOL_VERSION,
        policy: policy.clone(),
        is_ahead: true,
    });
    let given: Vec<_> = namespace.into_iter().collect();
    let launcher = launcher.ordered(&order, &given).await?;
    Ok(Prepared { launcher, lease, policy })
}
