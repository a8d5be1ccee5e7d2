//! What tenants have on the disk, against what they may, and for operators.

use std::time::Duration;

use vivarium_metrics::Families;

use super::{Engine, EngineError};
use crate::quotas::{Exceeded, Quota};
use crate::stores::StoreError;

/// Files do not go by themselves.
const RETRY_AFTER: Duration = Duration::from_mins(1);

impl Engine {
    /// Scrape: what tenants have on the disk.
    pub(in crate::engine) fn show_homes(&self, to: &Families) {
        if let Ok(stores) = &self.inner.host.stores {
            for (tenant, taken) in stores.taken_by_tenant() {
                to.homes.of_tenant(&tenant, taken.homes, taken.volumes, taken.bytes);
            }
        }
    }

    /// Counts what is over the tenant's quota as of the other quotas.
    pub(super) fn not_stored(&self, tenant: &str, error: StoreError) -> EngineError {
        match error {
            StoreError::TenantFull { .. } => {
                let (quota, retry_after) = (Quota::MaxHomesMb, RETRY_AFTER);
                self.over_quota(tenant, Exceeded { quota, retry_after })
            }
            other => other.into(),
        }
    }
}
