//! `[[tenant]]`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use vivarium_protocol::policy::CpuCores;
use vivarium_protocol::units::Limit;

use vivarium_egress::Allow;

use super::{Overrides, Quotas, Settings, TenantBuilds, TenantPackages, TenantSecret, TenantToken};

/// The one tenant there is where none is configured.
pub const DEFAULT_TENANT: &str = "default";

/// `[tenants]`: where tenants come from, besides the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantSources {
    pub directory: Option<PathBuf>,
    /// A program and its arguments; none if it is empty.
    pub command: Vec<String>,
    pub interval: Duration,
    pub timeout: Duration,
}

impl TenantSources {
    /// Whether there is any. A daemon that has one never serves without tenants.
    pub const fn is_configured(&self) -> bool {
        self.directory.is_some() || !self.command.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    pub tokens: Vec<TenantToken>,
    /// A file with more of them, as configured.
    pub token_hashes_file: Option<String>,
    pub max_sessions: Limit,
    pub quotas: Quotas,
    /// What it may build.
    pub builds: TenantBuilds,
    /// The environments that it may use; all if there are none.
    pub allowed_environments: Option<Vec<String>>,
    /// What all its sessions may use together.
    pub ceilings: Ceilings,
    /// What each of its homes and volumes may take, in MiB; as of all tenants if not given.
    pub home_max_mb: Option<Limit>,
    /// What all its homes and volumes may take together, in MiB.
    pub max_homes_mb: Limit,
    /// Values of its own for keys of other sections.
    pub overrides: Option<Box<Overrides>>,
    /// Where its sessions of network `trusted` may connect to, in the place of `egress.allow`.
    pub egress_allow: Option<Vec<Allow>>,
    pub secrets: Vec<TenantSecret>,
    pub packages: TenantPackages,
}

/// What each home and volume of a tenant may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub max_mb: Limit,
    /// The key that says so.
    pub max_mb_key: &'static str,
    pub max_inodes: Limit,
    /// All of the tenant's together.
    pub all_max_mb: Limit,
}

impl Default for Tenant {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            token_hashes_file: None,
            max_sessions: Limit::Unlimited,
            quotas: Quotas::default(),
            builds: TenantBuilds::default(),
            allowed_environments: None,
            ceilings: Ceilings::default(),
            home_max_mb: None,
            max_homes_mb: Limit::Unlimited,
            overrides: None,
            egress_allow: None,
            secrets: Vec::new(),
            packages: TenantPackages::default(),
        }
    }
}

/// What all sessions of a tenant may use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceilings {
    /// Its share of a busy CPU against other tenants', from 1 to 10000.
    pub cpu_weight: u16,
    pub cpu_cores: CpuCores,
    pub max_memory_mb: Limit,
    /// Processes and threads, agents included.
    pub max_procs: Limit,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            // The kernel's own (`CGROUP_WEIGHT_DFL`).
            cpu_weight: 100,
            cpu_cores: CpuCores::UNLIMITED,
            max_memory_mb: Limit::Unlimited,
            max_procs: Limit::Unlimited,
        }
    }
}

impl Settings {
    /// How many sessions this tenant may have of its own. One that is not configured, as in an
    /// engine of the command line's, is bounded by the maximum of all alone.
    pub fn max_sessions_of(&self, tenant: &str) -> Limit {
        self.tenants.get(tenant).map_or(Limit::Unlimited, |tenant| tenant.max_sessions)
    }

    /// What each home and volume of this tenant may take.
    pub fn home_quota(&self, tenant: &str) -> Quota {
        let tenant = self.tenants.get(tenant);
        let own = tenant.and_then(|tenant| tenant.home_max_mb);
        Quota {
            max_mb: own.unwrap_or(self.homes.max_mb),
            max_mb_key: if own.is_some() { "tenant.home_max_mb" } else { "homes.max_mb" },
            max_inodes: self.homes.max_inodes,
            all_max_mb: tenant.map_or(Limit::Unlimited, |tenant| tenant.max_homes_mb),
        }
    }

    /// Whether a tenant may have sessions in an environment.
    pub fn allows_environment(&self, tenant: &str, environment: &str) -> bool {
        let allowed = self.tenants.get(tenant).and_then(|it| it.allowed_environments.as_ref());
        allowed.is_none_or(|allowed| allowed.iter().any(|name| name == environment))
    }

    /// The tenants that requests can come from, with their ceilings.
    pub fn ceilings(&self) -> BTreeMap<String, Ceilings> {
        if self.tenants.is_empty() {
            return BTreeMap::from([(DEFAULT_TENANT.to_owned(), Ceilings::default())]);
        }
        let of = |(name, tenant): (&String, &Tenant)| (name.clone(), tenant.ceilings);
        self.tenants.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::settings;

    #[test]
    fn without_tenants_there_is_one() {
        let mut settings = settings();
        assert!(settings.ceilings().keys().eq([DEFAULT_TENANT]));
        settings.tenants.insert("a".to_owned(), Tenant::default());
        assert!(settings.ceilings().keys().eq(["a"]));
    }
}
