//! What administrators do, and what they have to know of the daemon itself.

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Gauge};
use crate::register::Register;

/// What an administrator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Pause,
    Resume,
    Drain,
    BuildEnvironment,
    RemoveEnvironment,
    Collect,
}

impl Act {
    const ALL: [Self; 6] = [
        Self::Pause,
        Self::Resume,
        Self::Drain,
        Self::BuildEnvironment,
        Self::RemoveEnvironment,
        Self::Collect,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Drain => "drain",
            Self::BuildEnvironment => "build_environment",
            Self::RemoveEnvironment => "remove_environment",
            Self::Collect => "collect",
        }
    }
}

#[derive(Debug)]
pub struct Administration {
    acts: Counter<1>,
    paused: Gauge<0>,
    tenant_paused: Gauge<1>,
    draining: Gauge<0>,
    flushes: Counter<1>,
    tenants_read: Counter<1>,
}

/// What became of the tenants that `[tenants]` has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantsRead {
    Applied,
    Unchanged,
    Refused,
}

impl TenantsRead {
    const ALL: [Self; 3] = [Self::Applied, Self::Unchanged, Self::Refused];

    const fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
        }
    }
}

const fn outcome(is_ok: bool) -> &'static str {
    if is_ok { "ok" } else { "failed" }
}

impl Family for Administration {
    const TITLE: &'static str = "Administration";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let family = Self {
            acts: register.counter(
                "vivarium_admin_acts_total",
                &["act"],
                "Acts of administrators: `pause`, `resume`, `drain`, `build_environment`, \
                 `remove_environment`, `collect`.",
            )?,
            paused: register.gauge(
                "vivarium_paused",
                &[],
                "1 while the daemon is paused for all tenants, else 0.",
            )?,
            tenant_paused: register.gauge(
                "vivarium_tenant_paused",
                &["tenant"],
                "1 while the tenant is paused by itself; absent if it is not.",
            )?,
            draining: register.gauge(
                "vivarium_draining",
                &[],
                "1 from the beginning of a drain on, else 0.",
            )?,
            flushes: register.counter(
                "vivarium_usage_flushes_total",
                &["outcome"],
                "Writes of the usage ledger, by `outcome`: `ok`, `failed` (tried again; nothing is \
                 lost while the daemon runs).",
            )?,
            tenants_read: register.counter(
                "vivarium_tenant_reads_total",
                &["outcome"],
                "Times that the tenants of `[tenants]` were read while the daemon ran, by `outcome`: \
                 `applied`, `unchanged`, `refused` (something is wrong, and the tenants stayed as they \
                 were: the log and `vivarium admin status` say what).",
            )?,
        };
        for outcome in TenantsRead::ALL {
            family.tenants_read.begin([outcome.name()]);
        }
        for act in Act::ALL {
            family.acts.begin([act.name()]);
        }
        for is_ok in [true, false] {
            family.flushes.begin([outcome(is_ok)]);
        }
        Ok(family)
    }
}

impl Administration {
    pub fn acted(&self, act: Act) {
        self.acts.add_one([act.name()]);
    }

    /// Scrape: whether new work is refused.
    pub fn takes_work(&self, paused: bool, draining: bool) {
        self.paused.set([], if paused { 1.0 } else { 0.0 });
        self.draining.set([], if draining { 1.0 } else { 0.0 });
    }

    /// Scrape: a tenant that is paused.
    pub fn has_paused(&self, tenant: &str) {
        self.tenant_paused.set([tenant], 1.0);
    }

    pub fn tenants_read(&self, outcome: TenantsRead) {
        self.tenants_read.add_one([outcome.name()]);
    }

    pub fn ledger_flushed(&self, is_ok: bool) {
        self.flushes.add_one([outcome(is_ok)]);
    }
}
