//! What of new settings can be taken over while sessions run.

use std::sync::{Arc, PoisonError};

use vivarium_protocol::error_chain;

use super::{Engine, tenants};
use crate::settings::Settings;

impl Engine {
    /// Takes over what can be changed while running, and names what can not. Returns when the
    /// tenants' ceilings hold.
    pub async fn reload(&self, settings: Arc<Settings>) -> Vec<&'static str> {
        let ceilings = settings.ceilings();
        tenants::announce(&ceilings, &self.inner.host);
        let kept = {
            let mut slot = self.inner.settings.write().unwrap_or_else(PoisonError::into_inner);
            let (kept, new) = merge(&slot, &settings);
            *slot = Arc::new(new);
            kept
        };
        self.build_templates().await;
        self.arrange_pools();
        let inner = Arc::clone(&self.inner);
        // It writes files, and may have to wait until memory is reclaimed.
        let held = tokio::task::spawn_blocking(move || tenants::hold(&ceilings, &inner.host)).await;
        match held {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("{}", error_chain(&error)),
            Err(error) => tracing::error!(%error, "ceilings of tenants were not set"),
        }
        kept
    }
}

/// The settings to use from now on, and the names of what takes a restart.
///
/// New sessions get the new limits and times; the mode, the layers, the interpreters and the
/// listeners were decided, tried and reported at start-up, and stay.
fn merge(old: &Settings, new: &Settings) -> (Vec<&'static str>, Settings) {
    let mut kept = Vec::new();
    let mut keep = |name, changed: bool| {
        if changed {
            kept.push(name);
        }
    };
    keep("server", old.server != new.server);
    keep("sandbox.mode", old.sandbox.mode != new.sandbox.mode);
    keep("sandbox.disable_layers", old.sandbox.disable_layers != new.sandbox.disable_layers);
    keep("sandbox.require", old.sandbox.require != new.sandbox.require);
    keep("sandbox.workdir", old.sandbox.workdir != new.sandbox.workdir);
    keep("sandbox.cgroup_root", old.sandbox.cgroup_root != new.sandbox.cgroup_root);
    keep("session.reap_interval", old.session.reap_interval != new.session.reap_interval);
    let mut merged = old.clone();
    for (name, environment) in &mut merged.environments {
        if let Some(new) = new.environments.get(name) {
            environment.template = new.template;
            environment.preimport.clone_from(&new.preimport);
            environment.warmup.clone_from(&new.warmup);
            environment.pool_size = new.pool_size;
            environment.pool_low = new.pool_low;
        }
    }
    keep("environments", merged.environments != new.environments);
    merged.sandbox.limits = new.sandbox.limits.clone();
    merged.sandbox.network = new.sandbox.network;
    merged.sandbox.network_fallback = new.sandbox.network_fallback;
    merged.sandbox.allowed_networks.clone_from(&new.sandbox.allowed_networks);
    merged.session = new.session.clone();
    merged.session.reap_interval = old.session.reap_interval;
    merged.tenants.clone_from(&new.tenants);
    (kept, merged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::engine::testing::{settings, tenant};
    use crate::settings::Mode;
    use vivarium_protocol::units::Limit;

    #[test]
    fn limits_and_times_change_and_the_rest_is_named() {
        let old = settings();
        let mut new = old.clone();
        new.sandbox.limits.max_procs = Limit::new(3).unwrap();
        new.session.queue_depth = 99;
        new.tenants.insert("a".to_owned(), tenant("1"));
        assert!(merge(&old, &new).0.is_empty());
        new.sandbox.mode = Mode::On;
        new.server.user = "other".into();
        let (kept, merged) = merge(&old, &new);
        assert_eq!(kept, ["server", "sandbox.mode"]);
        assert_eq!(merged.sandbox.mode, old.sandbox.mode);
        assert_eq!(merged.sandbox.limits.max_procs, Limit::new(3).unwrap());
        assert_eq!(merged.session.queue_depth, 99);
        assert_eq!(merged.tenants, new.tenants);
    }
}
