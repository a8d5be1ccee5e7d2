//! Requests that a tenant's quotas refused.

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Gauge};
use crate::register::Register;

/// A tenant's quota, by the name of its configuration key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    SessionRate,
    ExecutionRate,
    MaxExecutions,
    MaxQueued,
    TransferRate,
    EgressRate,
    MaxHomesMb,
    MaxWaiting,
}

impl Quota {
    pub const ALL: [Self; 8] = [
        Self::SessionRate,
        Self::ExecutionRate,
        Self::MaxExecutions,
        Self::MaxQueued,
        Self::TransferRate,
        Self::EgressRate,
        Self::MaxHomesMb,
        Self::MaxWaiting,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SessionRate => "session_rate",
            Self::ExecutionRate => "execution_rate",
            Self::MaxExecutions => "max_executions",
            Self::MaxQueued => "max_queued",
            Self::TransferRate => "transfer_rate",
            Self::EgressRate => "egress_rate",
            Self::MaxHomesMb => "max_homes_mb",
            Self::MaxWaiting => "approval.max_waiting",
        }
    }
}

#[derive(Debug)]
pub struct Quotas {
    refused: Counter<2>,
    in_flight: Gauge<1>,
}

impl Family for Quotas {
    const TITLE: &'static str = "Quotas";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            refused: register.counter(
                "vivarium_quota_refusals_total",
                &["tenant", "quota"],
                "Requests refused with 429, `quota_exceeded`, by the tenant's quota that was used \
                 up: `session_rate`, `execution_rate`, `max_executions`, `max_queued`, \
                 `transfer_rate`, `max_homes_mb`, `approval.max_waiting`; with `egress_rate`, connections that the egress gate refused.",
            )?,
            in_flight: register.gauge(
                "vivarium_executions_in_flight",
                &["tenant"],
                "Executions of the tenant that run or wait now, commands in the background \
                 included: what `max_executions` bounds.",
            )?,
        })
    }

    fn introduce(&self, tenant: &str) {
        for quota in Quota::ALL {
            self.refused.begin([tenant, quota.name()]);
        }
    }
}

impl Quotas {
    pub fn refused(&self, tenant: &str, quota: Quota) {
        self.refused.add_one([tenant, quota.name()]);
    }

    /// Scrape: executions that run or wait.
    pub fn in_flight(&self, tenant: &str, executions: u64) {
        self.in_flight.set_count([tenant], executions);
    }
}
