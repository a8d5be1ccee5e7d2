//! What each tenant has used, by the hour: for billing, and to be kept.
//!
//! Sessions add to a [`Collector`], which never blocks on a file. One thread, made at start, takes
//! from it, samples the tenants' cgroups and keeps the [`ledger`] on disk. It must never be
//! on the way of an execution, and never lose more than the last interval.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vivarium_api_types::{Outcome, UsageSource};

mod keeper;
mod ledger;
mod sampler;
pub mod write;

pub use keeper::{Keeper, KeeperError, LedgerState, Schedule};
pub use ledger::{LedgerError, UsageRange};

/// Where a figure came from: several, if that has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sources(u8);

impl Sources {
    const CGROUP: Self = Self(1);
    const EXECUTIONS: Self = Self(2);

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn told(self) -> Option<UsageSource> {
        match self.0 {
            0 => None,
            1 => Some(UsageSource::Cgroup),
            2 => Some(UsageSource::Executions),
            _ => Some(UsageSource::Mixed),
        }
    }
}

/// What a tenant has used in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Figures {
    pub cpu_us: u64,
    /// Memory times time.
    pub memory_byte_ms: u64,
    pub executions: u64,
    pub sessions: u64,
    pub egress_bytes: u64,
    pub cpu_from: Sources,
    pub memory_from: Sources,
}

impl Figures {
    fn add(&mut self, other: &Self) {
        self.cpu_us = self.cpu_us.saturating_add(other.cpu_us);
        self.memory_byte_ms = self.memory_byte_ms.saturating_add(other.memory_byte_ms);
        self.executions = self.executions.saturating_add(other.executions);
        self.sessions = self.sessions.saturating_add(other.sessions);
        self.egress_bytes = self.egress_bytes.saturating_add(other.egress_bytes);
        self.cpu_from = self.cpu_from.and(other.cpu_from);
        self.memory_from = self.memory_from.and(other.memory_from);
    }
}

/// What was used since it was last taken, by tenant.
#[derive(Debug, Default)]
pub struct Collector(Mutex<BTreeMap<Arc<str>, Figures>>);

impl Collector {
    fn add(&self, tenant: &Arc<str>, figures: &Figures) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(Arc::clone(tenant)).or_default().add(figures);
    }

    pub fn session_started(&self, tenant: &Arc<str>) {
        self.add(tenant, &Figures { sessions: 1, ..Figures::default() });
    }

    /// Bytes that went through the egress gate, both ways.
    pub fn egress(&self, tenant: &Arc<str>, bytes: u64) {
        self.add(tenant, &Figures { egress_bytes: bytes, ..Figures::default() });
    }

    /// One that ran; what was refused or never began is not billed.
    pub fn execution_ended(&self, tenant: &Arc<str>, outcome: &Outcome, ran: Option<Duration>) {
        let Some(ran) = ran else { return };
        let ran_ms = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
        let cpu = Duration::try_from_secs_f64(outcome.usage.cpu_ms / 1000.0).unwrap_or_default();
        let figures = Figures {
            executions: 1,
            cpu_us: u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX),
            cpu_from: Sources::EXECUTIONS,
            memory_byte_ms: outcome.usage.memory_peak_bytes.saturating_mul(ran_ms),
            memory_from: Sources::EXECUTIONS,
            ..Figures::default()
        };
        self.add(tenant, &figures);
    }

    fn take(&self) -> BTreeMap<Arc<str>, Figures> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
