//! What each tenant may do, and how often: rates, and how many at one time.
//!
//! Who needs leave takes it here before anything is made. What is taken is given back when it is
//! dropped, so that no way out of a request keeps it. Nothing here waits or knows a client.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

mod slots;

pub use slots::{Slot, Slots};
pub use vivarium_egress::bucket::{Bucket, Grant, Wait};

pub use crate::observe::Quota;
use crate::settings;

/// Which quota is used up, and when it may be worth trying again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    pub quota: Quota,
    pub retry_after: Duration,
}

impl Exceeded {
    /// Whole seconds, at least one, after which it may be worth trying again.
    pub const fn retry_after_secs(&self) -> u64 {
        let secs = self.retry_after.as_secs() + (self.retry_after.subsec_nanos() > 0) as u64;
        if secs == 0 { 1 } else { secs }
    }
}

/// How much longer a transfer of a known size may take for want of tokens.
const LONGEST_TRANSFER: Duration = Duration::from_mins(1);

/// Nobody knows when an execution ends.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// One tenant's.
#[derive(Debug, Default)]
pub struct TenantQuotas {
    session_rate: Arc<Bucket>,
    execution_rate: Arc<Bucket>,
    executions: Arc<Slots>,
    queued: Arc<Slots>,
    /// Bytes of requests and responses.
    transfer_rate: Bucket,
}

/// The right to one execution: to begin it, and to have it in flight.
#[derive(Debug)]
pub struct Admission {
    pub begin: Grant,
    pub in_flight: Slot,
}

impl TenantQuotas {
    /// The right to make a session.
    ///
    /// # Errors
    /// [`Exceeded`]
    pub fn session(&self) -> Result<Grant, Exceeded> {
        self.session_rate.reserve().map_err(|wait| exceeded(Quota::SessionRate, wait))
    }

    /// # Errors
    /// [`Exceeded`]
    pub fn execution(&self) -> Result<Admission, Exceeded> {
        // The one that can not be lost comes first: a request that finds no slot costs no token.
        let in_flight = self
            .executions
            .take()
            .ok_or(Exceeded { quota: Quota::MaxExecutions, retry_after: RETRY_AFTER })?;
        let begin = self.execution_rate.reserve();
        let begin = begin.map_err(|wait| exceeded(Quota::ExecutionRate, wait))?;
        Ok(Admission { begin, in_flight })
    }

    /// Takes tokens for bytes that are transferred: as many as there are, at most so many.
    ///
    /// # Errors
    /// How long until there is one.
    pub fn transfer(&self, most: u64) -> Result<u64, Wait> {
        self.transfer_rate.take_some(most)
    }

    /// Whether a transfer of so many bytes may begin: there is a token, and the last comes in time.
    /// None is taken.
    ///
    /// # Errors
    /// [`Exceeded`]
    pub fn may_transfer(&self, bytes: u64) -> Result<(), Exceeded> {
        let Wait(first) = self.transfer_rate.wait_for(1);
        let Wait(last) = self.transfer_rate.wait_for(bytes);
        if first.is_zero() && last <= LONGEST_TRANSFER {
            return Ok(());
        }
        Err(exceeded(Quota::TransferRate, Wait(first.max(last))))
    }

    /// The right of an execution to wait for others of its session; `None` if as many wait as may.
    #[must_use]
    pub fn queued(&self) -> Option<Slot> {
        self.queued.take()
    }

    /// Executions that run or wait.
    pub fn in_flight(&self) -> u64 {
        self.executions.used()
    }

    fn set(&self, quotas: &settings::Quotas) {
        self.session_rate.set(quotas.session_rate);
        self.execution_rate.set(quotas.execution_rate);
        self.transfer_rate.set(quotas.transfer_rate);
        self.executions.set(quotas.max_executions);
        self.queued.set(quotas.max_queued);
    }
}

fn exceeded(quota: Quota, Wait(retry_after): Wait) -> Exceeded {
    Exceeded { quota, retry_after }
}

/// Every tenant's. One that is not configured has none.
#[derive(Debug, Default)]
pub struct Quotas(RwLock<HashMap<String, Arc<TenantQuotas>>>);

impl Quotas {
    pub fn of(&self, tenant: &str) -> Arc<TenantQuotas> {
        if let Some(quotas) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(tenant) {
            return Arc::clone(quotas);
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(tenant.to_owned()).or_default())
    }

    /// Has these hold from now on, of everybody, also for what is under way. A tenant that is not
    /// configured any more keeps what it had: its sessions go on.
    pub fn set(&self, tenants: &BTreeMap<String, settings::Tenant>) {
        for (name, tenant) in tenants {
            self.of(name).set(&tenant.quotas);
        }
    }

    /// Scrape: executions of each tenant that run or wait.
    pub fn in_flight(&self) -> Vec<(String, u64)> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(tenant, quotas)| (tenant.clone(), quotas.in_flight())).collect()
    }
}
