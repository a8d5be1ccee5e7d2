//! Queued executions, and requests that were refused for lack of room.

use std::time::Duration;

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Durations, Gauge};
use crate::register::Register;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The session's queue is full.
    QueueFull,
    /// As many commands run in the session as may.
    TooManyCommands,
    /// There are as many contexts in the session as may be.
    TooManyContexts,
    /// The maximum of sessions is reached.
    TooManySessions,
    /// The host has no memory for one more session.
    NoCapacity,
    /// The daemon, or the host, has no file descriptor left.
    NoDescriptors,
    /// The maximum of file operations at one time is reached.
    TooManyTransfers,
    /// The tenant's buffer budget is used up.
    NoRoom,
    /// The daemon's buffer budget is used up.
    Overloaded,
    /// The maximum of connections or requests is reached.
    TooManyRequests,
    /// A quota of the tenant is used up.
    QuotaExceeded,
    /// The daemon is shutting down.
    Draining,
    /// An administrator has paused the daemon.
    Paused,
    /// An administrator has paused the tenant.
    TenantPaused,
}

impl Refusal {
    const ALL: [Self; 14] = [
        Self::QueueFull,
        Self::TooManyCommands,
        Self::TooManyContexts,
        Self::TooManySessions,
        Self::NoCapacity,
        Self::NoDescriptors,
        Self::TooManyTransfers,
        Self::NoRoom,
        Self::Overloaded,
        Self::TooManyRequests,
        Self::QuotaExceeded,
        Self::Draining,
        Self::Paused,
        Self::TenantPaused,
    ];

    /// The API's stable `code`.
    const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::TooManyCommands => "too_many_commands",
            Self::TooManyContexts => "too_many_contexts",
            Self::TooManySessions => "too_many_sessions",
            Self::NoCapacity => "no_capacity",
            Self::NoDescriptors => "no_descriptors",
            Self::TooManyTransfers => "too_many_transfers",
            Self::NoRoom => "no_room",
            Self::Overloaded => "overloaded",
            Self::TooManyRequests => "too_many_requests",
            Self::QuotaExceeded => "quota_exceeded",
            Self::Draining => "draining",
            Self::Paused => "paused",
            Self::TenantPaused => "tenant_paused",
        }
    }
}

#[derive(Debug)]
pub struct Queue {
    depth: Gauge<1>,
    wait: Durations<1>,
    refused: Counter<2>,
}

impl Family for Queue {
    const TITLE: &'static str = "Queue";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            depth: register.gauge(
                "vivarium_queue_depth",
                &["tenant"],
                "Executions waiting now, in all sessions of the tenant.",
            )?,
            wait: register.durations(
                "vivarium_queue_wait_seconds",
                &["tenant"],
                "Time from an execution's arrival in its session to the start of its code, \
                 including the start of a new session.",
            )?,
            refused: register.counter(
                "vivarium_refusals_total",
                &["tenant", "reason"],
                "Requests refused for lack of room, by the problem's `code`: `queue_full`, \
                 `too_many_commands`, `too_many_contexts`, `too_many_sessions`, `no_capacity`, \
                 `no_descriptors`, `too_many_transfers`, `no_room`, `overloaded`, \
                 `too_many_requests`, `quota_exceeded`, `draining`, `paused`, `tenant_paused`.",
            )?,
        })
    }

    fn introduce(&self, tenant: &str) {
        for reason in Refusal::ALL {
            self.refused.begin([tenant, reason.name()]);
        }
    }
}

impl Queue {
    /// Scrape: how many executions wait.
    pub fn waiting(&self, tenant: &str, executions: u64) {
        self.depth.set_count([tenant], executions);
    }

    /// An execution starts after waiting so long.
    pub fn waited(&self, tenant: &str, duration: Duration) {
        self.wait.observe([tenant], duration);
    }

    pub fn refused(&self, tenant: &str, reason: Refusal) {
        self.refused.add_one([tenant, reason.name()]);
    }
}
