//! What holds for all sessions of a tenant together: had to hold, at start and at every reload.

use std::collections::BTreeMap;

use super::{Host, StartError};
use crate::cgroup::{self, Support};
use crate::settings::{Ceilings, Settings};

/// Says what is to hold, before a session of these tenants can begin, and shows them in the
/// metrics.
pub(super) fn announce(ceilings: &BTreeMap<String, Ceilings>, settings: &Settings, host: &Host) {
    set_quotas(settings, host);
    if let Support::Available(tree) = &host.cgroups {
        tree.set_ceilings(ceilings);
    }
    for tenant in ceilings.keys() {
        host.metrics.introduce(tenant);
    }
}

/// Has the tenants' quotas hold, also for sessions that run.
pub(super) fn set_quotas(settings: &Settings, host: &Host) {
    host.quotas.set(&settings.tenants);
    host.results.set_maxima(&settings.tenants);
    host.approvals.set(settings);
}

/// Has it hold, and warns of what can not. That is never so in mode `on`, which does not start
/// without every controller. Blocks.
/// Returns the first error. Sessions of that tenant do not start until it holds.
pub(super) fn hold(ceilings: &BTreeMap<String, Ceilings>, host: &Host) -> Result<(), StartError> {
    let (tree, why, fix) = match &host.cgroups {
        Support::Available(tree) => (Some(tree), "", tree.fix()),
        Support::Unavailable(missing) => (None, missing.why.as_str(), missing.fix.as_str()),
    };
    let controllers = tree.map(|tree| tree.controllers()).unwrap_or_default();
    for (tenant, ceilings) in ceilings {
        for (key, controller) in cgroup::missing_ceilings(ceilings, controllers) {
            let key = format!("tenant.{tenant}.{key}");
            tracing::warn!(key, %controller, why, fix, "does not hold: there is no such controller");
        }
    }
    let Some(tree) = tree else { return Ok(()) };
    let mut result = Ok(());
    for tenant in ceilings.keys() {
        let held = tree.hold(tenant);
        let held = held.map_err(|source| StartError::Ceilings { tenant: tenant.clone(), source });
        result = result.and(held);
    }
    result
}
