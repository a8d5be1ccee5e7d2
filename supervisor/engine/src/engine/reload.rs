//! Taking over new settings while sessions run.

use std::sync::{Arc, PoisonError};

use vivarium_protocol::error_chain;

use super::{Engine, tenants};
use crate::settings::Settings;

impl Engine {
    /// Uses these settings from now on. Returns when the tenants' ceilings hold.
    ///
    /// They may differ from those in use only in what can change while sessions run: the
    /// configuration decides that, key by key. The mode, the layers, the interpreters and the
    /// listeners were decided, tried and reported at start-up, and stay.
    pub async fn reload(&self, settings: Arc<Settings>) {
        self.inner.host.audit.reload(&settings.audit);
        let ceilings = settings.ceilings();
        tenants::announce(&ceilings, &settings, &self.inner.host);
        self.schedule_usage(&settings);
        *self.inner.settings.write().unwrap_or_else(PoisonError::into_inner) = settings.into();
        self.build_templates().await;
        self.arrange_pools();
        self.update_egress().await;
        let inner = Arc::clone(&self.inner);
        // It writes files, and may have to wait until memory is reclaimed.
        let held = tokio::task::spawn_blocking(move || tenants::hold(&ceilings, &inner.host)).await;
        match held {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("{}", error_chain(&error)),
            Err(error) => tracing::error!(%error, "ceilings of tenants were not set"),
        }
    }
}
