//! What a client may change of a session while it lives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use vivarium_api_types::{SessionQuery, SessionState};
use vivarium_protocol::policy::Limits;

use super::{Session, SessionStatus};
use crate::cgroup::Scope;

#[derive(Debug, Clone, PartialEq)]
pub struct Adjustable {
    pub limits: Arc<Limits>,
    pub metadata: BTreeMap<String, String>,
    /// Time without use after which it is reaped.
    pub idle_timeout: Duration,
    /// When it is reaped, whatever it does.
    pub deadline: Option<Deadline>,
}

/// A time to come, on both clocks: the one that clients read, and the one that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    pub timestamp: Timestamp,
    at: Instant,
}

impl Deadline {
    /// So long from now; `None` if that is too far away to be counted.
    pub fn after(left: Duration) -> Option<Self> {
        let timestamp = Timestamp::now().checked_add(left).ok()?;
        Some(Self { timestamp, at: Instant::now().checked_add(left)? })
    }

    /// At this time; `None` if it is over.
    pub fn at(timestamp: Timestamp) -> Option<Self> {
        let left = Duration::try_from(timestamp.duration_since(Timestamp::now())).ok()?;
        if left.is_zero() {
            return None;
        }
        Some(Self { timestamp, at: Instant::now().checked_add(left)? })
    }
}

impl Session {
    pub fn adjustable(&self) -> Adjustable {
        self.status().adjustable.clone()
    }

    pub fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.status().adjustable.limits)
    }

    /// The turn to change something: one at a time.
    pub async fn adjusting(&self) -> MutexGuard<'_, ()> {
        self.adjusting.lock().await
    }

    /// Has this hold from now on. Whoever calls it has the turn, and has had limits lowered that the
    /// kernel enforces.
    pub fn adjust(&self, adjustable: Adjustable) {
        self.status().adjustable = adjustable;
    }

    /// Whether it has one of the states and all of the metadata that a list is asked for.
    pub fn matches(&self, query: &SessionQuery) -> bool {
        let status = self.status();
        query.admits(status.state(), &status.adjustable.metadata)
    }

    pub fn scope(&self) -> Option<Arc<Scope>> {
        self.scope.get().map(Arc::clone)
    }

    /// Time without use that is left to it.
    fn idle_left(status: &SessionStatus) -> Duration {
        let now = Instant::now();
        // What waits for approval keeps it.
        let is_idle = status.state() == SessionState::Idle && status.usage.queued == 0;
        let idle_end = if is_idle { status.last_used } else { now };
        (idle_end + status.adjustable.idle_timeout).saturating_duration_since(now)
    }

    /// Whether its time without use is up.
    pub fn is_unused(&self) -> bool {
        Self::idle_left(&self.status()).is_zero()
    }

    /// Whether it is due to be reaped. Only the first who asks is told so.
    #[must_use]
    pub fn claim_expired(&self) -> bool {
        let mut status = self.status();
        let deadline = status.adjustable.deadline;
        let is_due = (Self::idle_left(&status).is_zero() && !status.suspended)
            || deadline.is_some_and(|deadline| deadline.at <= Instant::now());
        is_due && !std::mem::replace(&mut status.reaped, true)
    }

    /// Takes back that it is reaped, if that was for want of use alone. Whether it was.
    pub(crate) fn spare(&self) -> bool {
        let mut status = self.status();
        let deadline = status.adjustable.deadline;
        let is_over = deadline.is_some_and(|deadline| deadline.at <= Instant::now());
        !is_over && std::mem::replace(&mut status.reaped, false)
    }

    /// The time at which it is to be reaped whatever it does, unless it is being reaped.
    pub fn deadline(&self) -> Option<Instant> {
        let status = self.status();
        status.adjustable.deadline.filter(|_| !status.reaped).map(|deadline| deadline.at)
    }

    /// When it is due to be reaped if nothing happens until then.
    pub fn expires_at(&self) -> Timestamp {
        let status = self.status();
        let idle = Timestamp::now().checked_add(Self::idle_left(&status));
        let idle = idle.unwrap_or(Timestamp::MAX);
        status.adjustable.deadline.map_or(idle, |deadline| idle.min(deadline.timestamp))
    }

    /// Why it is reaped, in words.
    pub(super) fn why_expired(&self) -> String {
        let Adjustable { idle_timeout, deadline, .. } = self.adjustable();
        match deadline.filter(|deadline| deadline.at <= Instant::now()) {
            Some(deadline) => {
                format!("the session's deadline ({:.0}) has passed", deadline.timestamp)
            }
            None => format!(
                "the session was not used for its idle timeout of {} s",
                idle_timeout.as_secs_f64()
            ),
        }
    }
}
