//! What the pools are to hold: the sessions that requests get which ask for nothing special.

use std::collections::{BTreeMap, BTreeSet};

use vivarium_api_types::PoolInfo;

use super::{DEFAULT_TENANT, Engine, admission, request, trial};
use crate::memory::MemoryPolicy;
use crate::pools::{Bounds, Key, PoolSpec, Watermarks};
use crate::settings::Settings;

/// What holds for all pools.
pub(super) const fn bounds(settings: &Settings) -> Bounds {
    let session = &settings.session;
    Bounds {
        cpu_share: session.pool_cpu_share,
        memory: MemoryPolicy {
            reserve_bytes: admission::reserve_bytes(settings),
            max_pressure_percent: session.pool_memory_pressure_percent,
        },
        start_timeout: session.start_timeout,
        idle_timeout: session.idle_timeout,
    }
}

/// How many sessions an environment keeps ready for each tenant; `None` if none.
pub(super) fn watermarks(settings: &Settings, environment: &str) -> Option<Watermarks> {
    let environment = settings.environments.get(environment)?;
    let high = environment.pool_size;
    let low = environment.pool_low.unwrap_or(high.div_ceil(2));
    (high > 0).then_some(Watermarks { low, high })
}

impl Engine {
    /// Has everything made in advance that the settings want: the templates, and then the pools,
    /// which wait for them. For an engine that is to serve for long.
    pub async fn warm_up(&self) {
        self.open_environments().await;
        self.build_templates().await;
        self.arrange_pools();
    }

    /// Has the pools hold what the settings say now. Where there are no tenants, all requests are
    /// of one, and its pools are there from the beginning; a tenant's own come with its first
    /// session.
    pub(super) fn arrange_pools(&self) {
        let settings = self.settings();
        let mut permanent = BTreeSet::new();
        if settings.tenants.is_empty() {
            let environments = self.inner.environments.keys();
            permanent.extend(environments.map(|name| (DEFAULT_TENANT.to_owned(), name.clone())));
        }
        self.inner.pools.arrange(bounds(&settings), &permanent, |key| self.spec(key));
        // They may have to give up some now.
        self.inner.memory.request_reading();
    }

    /// Sees to it that the tenant's next session in this environment can come from a pool.
    pub(super) fn ensure_pool(&self, tenant: &str, environment: &str) {
        let spec = || self.spec(&(tenant.to_owned(), environment.to_owned()));
        self.inner.pools.ensure(tenant, environment, spec);
    }

    /// What a pool is to hold by the settings as they are now; `None` if there is to be none.
    fn spec(&self, (tenant, environment): &Key) -> Option<PoolSpec> {
        let settings = self.settings_of(tenant);
        let is_known = match settings.tenants.is_empty() {
            true => tenant == DEFAULT_TENANT,
            false => settings.tenants.contains_key(tenant),
        };
        let may_be = is_known && settings.allows_environment(tenant, environment);
        let watermarks = watermarks(&settings, environment).filter(|_| may_be)?;
        let mut configured = settings.environments.get(environment)?.clone();
        // Another number of sessions makes none of them another.
        (configured.pool_size, configured.pool_low) = (0, None);
        let prepared = self.inner.environments.get(environment)?;
        let limits = request::limits(&settings.sandbox.limits, None).ok()?;
        let network = prepared.network(&settings, settings.sandbox.network);
        let policy = prepared.policy(&settings, limits, network, BTreeMap::new());
        let observer = self.observer(tenant);
        match trial::launch_plan(&self.inner.host, prepared, policy, tenant, observer) {
            Ok(plan) => Some(PoolSpec { plan, environment: configured, watermarks }),
            Err(error) => {
                tracing::warn!(tenant, environment, %error, "no pool");
                None
            }
        }
    }

    pub(super) fn pool_info(
        &self,
        settings: &Settings,
        tenant: &str,
        environment: &str,
    ) -> Option<PoolInfo> {
        let Watermarks { low, high } = watermarks(settings, environment)?;
        Some(PoolInfo { ready: self.inner.pools.ready(tenant, environment), low, high })
    }
}

#[cfg(test)]
mod tests;
