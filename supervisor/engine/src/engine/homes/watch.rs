//! What the watch over homes and volumes is told by the engine.

use std::sync::{Arc, Weak};
use std::time::Duration;

use vivarium_protocol::outcome::Cause;

use super::super::{Engine, Inner};
use crate::session::Session;
use crate::settings::{Quota, Settings};
use crate::stores::{self, Store};

/// Has them measured, and removed when they have expired, for as long as the engine is there.
pub(in crate::engine) fn watch(engine: &Arc<Inner>) {
    if let Ok(stores) = &engine.host.stores {
        let engine = Arc::downgrade(engine);
        let watched = move || engine.upgrade().map(|_| Watch(Weak::clone(&engine)));
        tokio::spawn(stores::watch(Arc::downgrade(stores), watched));
    }
}

struct Watch(Weak<Inner>);

impl Watch {
    fn writers(&self, store: &Store) -> Vec<Arc<Session>> {
        let sessions = self.0.upgrade().map(|engine| engine.registry.all()).unwrap_or_default();
        sessions.into_iter().filter(|session| session.writes_to(store)).collect()
    }

    fn settings(&self) -> Option<Arc<Settings>> {
        self.0.upgrade().map(|inner| Engine { inner }.settings())
    }
}

impl stores::Watched for Watch {
    fn quota(&self, tenant: &str) -> Option<Quota> {
        Some(self.settings()?.home_quota(tenant))
    }

    fn expire_after(&self) -> Option<Duration> {
        self.settings()?.homes.expire_after
    }

    fn is_busy(&self, store: &Store) -> bool {
        // Each is asked, as each remembers what it had used.
        self.writers(store).iter().filter(|session| session.is_busy()).count() > 0
    }

    fn sleeper_has(&self, store: &Store) -> bool {
        let has = |inner| Engine { inner }.sleeper_has(&store.tenant, &store.key);
        self.0.upgrade().is_some_and(has)
    }

    fn end_writers(&self, store: &Store) {
        for session in self.writers(store) {
            tokio::spawn(async move { session.close(Cause::DiskLimit).await });
        }
    }
}
