//! `[builds]`

use std::path::PathBuf;
use std::time::Duration;

use vivarium_protocol::units::Limit;

use super::{DEFAULT_TENANT, Settings};

/// How environments are built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Builds {
    /// The uv that builds; the first on the daemon's PATH if not given.
    pub uv: Option<PathBuf>,
    pub timeout: Duration,
    /// Of each environment, in MiB.
    pub max_mb: u64,
    pub max_inodes: u64,
    /// Builds at one time.
    pub max_at_once: u64,
}

/// What a tenant may build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantBuilds {
    pub allowed: bool,
    /// Environments at one time.
    pub max: Limit,
    /// What they take together, in MiB, those that only sessions still have included.
    pub max_mb: Limit,
    /// Builds at one time.
    pub max_at_once: Limit,
}

impl Settings {
    /// What a tenant may build. Where there are no tenants, whoever connects is one who may.
    pub(crate) fn builds_of(&self, tenant: &str) -> TenantBuilds {
        match self.tenants.get(tenant) {
            Some(tenant) => tenant.builds,
            None if self.tenants.is_empty() && tenant == DEFAULT_TENANT => {
                TenantBuilds { allowed: true, ..TenantBuilds::default() }
            }
            None => TenantBuilds::default(),
        }
    }
}

impl Default for TenantBuilds {
    /// As in a `[[tenant]]` that says nothing of it.
    fn default() -> Self {
        let at = |max| Limit::new(max).unwrap_or(Limit::Unlimited);
        Self { allowed: false, max: at(10), max_mb: at(4096), max_at_once: at(1) }
    }
}
