//! What all homes and volumes of a tenant take together, as they were last measured.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{StoreError, Stores};
use crate::settings::Quota;

/// How long a measurement is good for a tenant that is over: refusals must cost less than work.
const GOOD_FOR: Duration = Duration::from_millis(500);

const MIB: u64 = 1 << 20;

/// What a tenant has of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    pub homes: u64,
    pub volumes: u64,
    pub bytes: u64,
}

impl Stores {
    /// What each tenant has, as last measured.
    pub fn taken_by_tenant(&self) -> BTreeMap<String, Taken> {
        let mut tenants: BTreeMap<String, Taken> = BTreeMap::new();
        for store in self.all() {
            let taken = tenants.entry(store.tenant.clone()).or_default();
            *(if store.key.is_home() { &mut taken.homes } else { &mut taken.volumes }) += 1;
            let bytes = store.quota.measured().map_or(0, |measured| measured.bytes);
            taken.bytes = taken.bytes.saturating_add(bytes);
        }
        tenants
    }

    /// Bytes of all of them.
    pub(super) fn taken(&self, tenant: &str) -> u64 {
        let measured = self.of(tenant).into_iter().filter_map(|store| store.quota.measured());
        measured.fold(0, |sum, one| sum.saturating_add(one.bytes))
    }

    /// Refuses a tenant by what is known now.
    pub fn check_tenant(&self, tenant: &str, quota: &Quota) -> Result<(), StoreError> {
        match (quota.all_max_mb.times(MIB), quota.all_max_mb.get()) {
            (Some(max), Some(max_mb)) if self.taken(tenant) > max => {
                let used_mb = self.taken(tenant).div_ceil(MIB);
                Err(StoreError::TenantFull { used_mb, max_mb })
            }
            _ => Ok(()),
        }
    }

    /// The same, measured anew where it is not known.
    pub(super) async fn measure_tenant(
        &self,
        tenant: String,
        quota: Quota,
    ) -> Result<(), StoreError> {
        let (tenant, quota) = (tenant.as_str(), &quota);
        if quota.all_max_mb.get().is_none() {
            return Ok(());
        }
        for store in self.of(tenant) {
            if store.quota.measured().is_none() {
                self.measure(&store, quota).await?;
            }
        }
        if self.check_tenant(tenant, quota).is_ok() {
            return Ok(());
        }
        for store in self.of(tenant) {
            if !store.quota.is_known() && store.quota.is_due(GOOD_FOR) {
                self.measure(&store, quota).await?;
            }
        }
        self.check_tenant(tenant, quota)
    }
}
