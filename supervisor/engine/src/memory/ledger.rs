//! What there is, what is promised, and what follows from both. It reads nothing and waits for
//! nothing.

use std::collections::BTreeMap;

use super::MemoryStatus;
use super::estimate::Estimate;
use super::reading::MemoryReading;
use super::shortage::Shortage;

/// What an operator wants to be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPolicy {
    pub reserve_bytes: u64,
    /// The part of the time in which processes of the host may wait for memory; 100 is no bound.
    pub max_pressure_percent: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolAction {
    /// It may have more.
    Fill,
    /// It may keep what it has.
    Hold,
    /// It is to give up some.
    Shrink,
}

#[derive(Debug)]
pub(super) struct Ledger {
    reading: MemoryReading,
    starting_bytes: u64,
    /// Promised to those that started since the reading was begun, which may not show them.
    released_bytes: u64,
    environments: BTreeMap<String, Account>,
}

#[derive(Debug, Default)]
struct Account {
    estimate: Estimate,
    /// Whether the last that was asked for was refused: the next takes more than that.
    refuses: bool,
}

impl Ledger {
    pub(super) const fn new(reading: MemoryReading) -> Self {
        Self { reading, starting_bytes: 0, released_bytes: 0, environments: BTreeMap::new() }
    }

    pub(super) fn admit(
        &mut self,
        environment: &str,
        policy: MemoryPolicy,
    ) -> Result<u64, Shortage> {
        self.judge(environment, policy)?;
        Ok(self.reserve(environment))
    }

    pub(super) fn reserve(&mut self, environment: &str) -> u64 {
        let bytes = self.account(environment).estimate.bytes();
        self.starting_bytes = self.starting_bytes.saturating_add(bytes);
        bytes
    }

    /// One to whom this was promised has started, or has not.
    pub(super) const fn release(&mut self, bytes: u64) {
        self.starting_bytes = self.starting_bytes.saturating_sub(bytes);
        self.released_bytes = self.released_bytes.saturating_add(bytes);
    }

    pub(super) const fn released_bytes(&self) -> u64 {
        self.released_bytes
    }

    /// Notes what was read, `shown` having settled before.
    pub(super) const fn note(&mut self, reading: MemoryReading, shown: u64) {
        self.reading = reading;
        self.released_bytes = self.released_bytes.saturating_sub(shown);
    }

    pub(super) fn learn(&mut self, environment: &str, pss_bytes: u64) {
        self.account(environment).estimate.learn(pss_bytes);
    }

    pub(super) fn status(&mut self, environment: &str, policy: MemoryPolicy) -> MemoryStatus {
        let refuses = self.judge(environment, policy).is_err();
        MemoryStatus {
            available_bytes: self.available_bytes(policy),
            estimate_bytes: self.account(environment).estimate.bytes(),
            pressure_percent: self.reading.pressure_percent,
            refuses,
        }
    }

    /// Whether there is room for one more. Who was refused is admitted again only when an eighth
    /// of the reserve is left besides, or a quarter less is waited: what the kernel says goes up
    /// and down.
    fn judge(&mut self, environment: &str, policy: MemoryPolicy) -> Result<(), Shortage> {
        let (available_bytes, reading) = (self.available_bytes(policy), self.reading);
        let needed_bytes = self.needed_bytes(environment);
        let account = self.account(environment);
        let bound = f64::from(policy.max_pressure_percent);
        let (spare_bytes, bound) = match account.refuses {
            true if policy.max_pressure_percent < 100 => (policy.reserve_bytes / 8, bound * 0.75),
            true => (policy.reserve_bytes / 8, bound),
            false => (0, bound),
        };
        let is_pressure = reading.is_pressed(bound);
        let wanted_bytes = needed_bytes.saturating_add(spare_bytes);
        account.refuses = is_pressure || available_bytes.is_some_and(|there| there < wanted_bytes);
        match account.refuses {
            false => Ok(()),
            true => Err(Shortage {
                available_bytes,
                needed_bytes,
                pressure_percent: reading.pressure_percent,
                is_pressure,
            }),
        }
    }

    /// Pools leave the reserve a second time, so that they have given up what they hold before
    /// anybody is refused; and they stop a little before they would have to.
    pub(super) fn pool_action(&mut self, environment: &str, policy: MemoryPolicy) -> PoolAction {
        let MemoryPolicy { reserve_bytes, max_pressure_percent } = policy;
        let percent = f64::from(max_pressure_percent);
        let kept_bytes = self.needed_bytes(environment).saturating_add(reserve_bytes);
        let available_bytes = self.available_bytes(policy);
        let has = |bytes| available_bytes.is_none_or(|there| there >= bytes);
        if !has(kept_bytes) || self.reading.is_pressed(percent) {
            PoolAction::Shrink
        } else if has(kept_bytes.saturating_add(reserve_bytes / 4))
            && !self.reading.is_waiting(percent)
        {
            PoolAction::Fill
        } else {
            PoolAction::Hold
        }
    }

    /// What one more session takes, with all that is promised.
    fn needed_bytes(&mut self, environment: &str) -> u64 {
        let promised = self.starting_bytes.saturating_add(self.released_bytes);
        self.account(environment).estimate.bytes().saturating_add(promised)
    }

    fn available_bytes(&self, policy: MemoryPolicy) -> Option<u64> {
        let available = self.reading.memory?;
        Some(available.available_bytes.saturating_sub(policy.reserve_bytes))
    }

    fn account(&mut self, environment: &str) -> &mut Account {
        self.environments.entry(environment.to_owned()).or_default()
    }
}
