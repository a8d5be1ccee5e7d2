//! What a home or volume takes, as it was last measured, against what it may take.
//!
//! Accounting, not a limit of the filesystem: between two measurements code can write more than it may.
//! What was written and has no name any more is not seen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use vivarium_protocol::message::{StorageOperation, StorageReply, StorageUsage};

use super::{Store, StoreError, StoreUse, Stores};
use crate::settings::Quota;

/// The most files that are counted where there may be any number.
const MAX_COUNTED: u64 = 10_000_000;

/// How the quota is exceeded, in words.
fn exceeded(quota: &Quota, usage: &StorageUsage) -> Option<String> {
    let StorageUsage { bytes, inodes, is_cut } = usage;
    let Quota { max_mb, max_mb_key, .. } = quota;
    if let Some(max) = max_mb.times(1 << 20).filter(|max| bytes > max) {
        return Some(format!("it takes {bytes} bytes of {max} ({max_mb} MiB, {max_mb_key})"));
    }
    (*is_cut || quota.max_inodes.get().is_some_and(|max| *inodes > max)).then(|| {
        let most = quota.max_inodes;
        format!(
            "it has more than {most} files and directories (homes.max_inodes), or they nest too \
             deeply"
        )
    })
}

/// What was found when it was last measured.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    pub bytes: u64,
    pub inodes: u64,
    pub at: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct State {
    known: Mutex<Inner>,
    /// One measurement at a time, for all who wait for one.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Inner {
    measured: Option<Measured>,
    /// Whether something may have been written since.
    is_stale: bool,
    /// How the quota was exceeded.
    over: Option<String>,
    /// Whether the tenant's together were over theirs.
    is_tenant_over: bool,
    last: Option<Last>,
}

/// The last measurement.
#[derive(Debug, Clone, Copy)]
struct Last {
    began: Instant,
    ended: Instant,
    verdict: Verdict,
}

/// What a measurement found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Within,
    Over,
    /// It was over before, and has grown since.
    Growing,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn measured(&self) -> Option<Measured> {
        self.lock().measured.clone()
    }

    pub(super) fn set(&self, measured: Measured) {
        self.lock().measured = Some(measured);
    }

    /// Something may be written from now on.
    pub(super) fn stale(&self) {
        self.lock().is_stale = true;
    }

    pub(super) fn over(&self) -> Option<String> {
        self.lock().over.clone()
    }

    pub(super) fn is_known(&self) -> bool {
        let state = self.lock();
        state.measured.is_some() && !state.is_stale && state.over.is_none()
    }

    /// Whether it is so long since it was last measured; measuring takes a tenth of one CPU at most.
    pub(super) fn is_due(&self, interval: Duration) -> bool {
        self.lock().last.is_none_or(|Last { began, ended, .. }| {
            ended.elapsed() >= interval.max((ended - began) * 10)
        })
    }

    /// What a measurement found that began after this moment.
    fn found_since(&self, moment: Instant) -> Option<Verdict> {
        self.lock().last.filter(|last| last.began > moment).map(|last| last.verdict)
    }
}

impl Stores {
    /// Measures it, or waits for a measurement that began since this was asked for.
    pub(super) async fn measure(
        &self,
        store: &Store,
        quota: &Quota,
    ) -> Result<Verdict, StoreError> {
        let asked = Instant::now();
        let turn = store.quota.turn.lock().await;
        if let Some(verdict) = store.quota.found_since(asked) {
            return Ok(verdict);
        }
        let began = Instant::now();
        let max_inodes = quota.max_inodes.get().unwrap_or(MAX_COUNTED);
        let operation = StorageOperation::Measure { max_inodes };
        let StorageReply::Measured(usage) = self.operate(&store.data(), operation).await? else {
            return Err(StoreError::Failed(
                "measure a home: an answer to something else".to_owned(),
            ));
        };
        let measured = Measured { bytes: usage.bytes, inodes: usage.inodes, at: Timestamp::now() };
        let before = store.quota.lock().measured.replace(measured);
        let is_tenant_over = self.check_tenant(&store.tenant, quota).is_err();
        // Whoever has it writes on.
        let is_written = store.uses().writers > 0;
        let mut state = store.quota.lock();
        let was_over = state.over.is_some() || state.is_tenant_over;
        state.over = exceeded(quota, &usage);
        state.is_tenant_over = is_tenant_over;
        state.is_stale = is_written;
        let grew =
            before.is_some_and(|before| usage.bytes > before.bytes || usage.inodes > before.inodes);
        let verdict = match &state.over {
            None if !is_tenant_over => Verdict::Within,
            _ if was_over && grew => Verdict::Growing,
            _ => Verdict::Over,
        };
        state.last = Some(Last { began, ended: Instant::now(), verdict });
        drop((state, turn));
        Ok(verdict)
    }

    /// Refuses work for a session with a home or volume that took more than it may, and still does.
    pub async fn admit(&self, uses: &[StoreUse], quota: &Quota) -> Result<(), StoreError> {
        let written = uses.iter().filter(|one| !one.read_only);
        let written: Vec<_> = written.map(|one| Arc::clone(&one.store)).collect();
        if let Some(first) = written.first() {
            self.measure_tenant(first.tenant.clone(), *quota).await?;
        }
        for store in written {
            if store.quota.over().is_some() {
                self.check(&store, quota).await?;
            }
        }
        Ok(())
    }

    /// Measures it for who only wants to know: while a session writes to it, a tenth of the time.
    pub async fn refresh(&self, store: &Store, quota: &Quota) -> Result<(), StoreError> {
        let is_written = store.uses().writers > 0;
        if !store.quota.is_known() && (!is_written || store.quota.is_due(Duration::ZERO)) {
            self.measure(store, quota).await?;
        }
        Ok(())
    }

    /// Refuses a home or volume that takes more than it may, measured anew unless it is known.
    pub async fn check(&self, store: &Store, quota: &Quota) -> Result<(), StoreError> {
        if !store.quota.is_known() {
            self.measure(store, quota).await?;
        }
        match store.quota.over() {
            Some(used) => Err(StoreError::Full { key: store.key.clone(), used }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use vivarium_protocol::units::Limit;

    use super::*;

    #[test]
    fn what_exceeds_the_quota_is_named() {
        let at = |max| Limit::new(max).unwrap();
        let all_max_mb = Limit::Unlimited;
        let max_mb_key = "tenant.home_max_mb";
        let quota = Quota { max_mb: at(1), max_mb_key, max_inodes: at(3), all_max_mb };
        let of = |bytes, inodes, is_cut| {
            exceeded(&quota, &StorageUsage { bytes, inodes, is_cut }).unwrap_or_default()
        };
        assert_eq!(of(1 << 20, 3, false), "");
        let over = "it takes 1048577 bytes of 1048576 (1 MiB, tenant.home_max_mb)";
        assert_eq!(of((1 << 20) + 1, 1, false), over);
        assert!(of(0, 4, false).contains("homes.max_inodes"));
        assert!(of(0, 1, true).contains("homes.max_inodes"));
        let unlimited = Quota { max_mb: all_max_mb, max_inodes: all_max_mb, ..quota };
        let huge = StorageUsage { bytes: u64::MAX, inodes: u64::MAX, is_cut: false };
        assert_eq!(exceeded(&unlimited, &huge), None);
    }

    #[test]
    fn what_was_written_to_is_not_known() {
        let state = State::default();
        assert!(!state.is_known() && state.is_due(Duration::from_secs(1)));
        state.set(Measured::default());
        assert!(state.is_known());
        state.stale();
        assert!(!state.is_known());
    }
}
