//! The home and volumes of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vivarium_api_types::{HomeKind, SessionState, VolumeMount};

use super::Session;
use crate::stores::{Store, StoreKey, StoreLease, StoreUse};

/// CPU time, in microseconds, below which a session has done nothing worth a measurement.
const BUSY_US: u64 = 20_000;

#[derive(Debug)]
pub(super) struct SessionStores {
    uses: Vec<StoreUse>,
    /// CPU time when it was last asked whether it is busy.
    cpu_us: AtomicU64,
}

impl Session {
    /// Keeps what it has, but not the right to it, which ends with its processes.
    pub(super) fn set_stores(&self, lease: Option<&Arc<StoreLease>>) {
        if let Some(lease) = lease {
            let (uses, cpu_us) = (lease.uses.clone(), AtomicU64::new(0));
            self.stores.get_or_init(|| SessionStores { uses, cpu_us });
        }
    }

    pub(crate) fn stores(&self) -> &[StoreUse] {
        self.stores.get().map_or(&[], |stores| &stores.uses)
    }

    pub(crate) fn writes_to(&self, store: &Store) -> bool {
        let is_it = |one: &StoreUse| std::ptr::eq(&*one.store, store) && !one.read_only;
        self.stores().iter().any(is_it)
    }

    /// Whether code runs, or has used CPU since this was last asked.
    pub(crate) fn is_busy(&self) -> bool {
        let Some(SessionStores { cpu_us: before, .. }) = self.stores.get() else { return false };
        let running = self.status().state() == SessionState::Running;
        // Without a cgroup nobody knows what goes on in the background.
        let used = match self.scope.get() {
            Some(scope) => scope.usage().cpu_us,
            None => return true,
        };
        let used = used.unwrap_or(u64::MAX);
        let is_busy = running || used.saturating_sub(before.load(Ordering::Relaxed)) > BUSY_US;
        if is_busy {
            before.store(used, Ordering::Relaxed);
        }
        is_busy
    }

    pub(super) fn home(&self) -> HomeKind {
        let of = |one: &StoreUse| match one.store.key {
            StoreKey::Tenant => Some(HomeKind::Tenant),
            StoreKey::Session(_) => Some(HomeKind::Session),
            StoreKey::Volume(_) => None,
        };
        self.stores().iter().find_map(of).unwrap_or_default()
    }

    /// What the API calls its home.
    pub(super) fn home_id(&self) -> Option<&str> {
        let home = self.stores().iter().find(|one| one.store.key.is_home())?;
        Some(home.store.key.id())
    }

    pub(super) fn volumes(&self) -> Vec<VolumeMount> {
        let of = |one: &StoreUse| match &one.store.key {
            StoreKey::Volume(name) => Some(VolumeMount {
                name: name.clone(),
                path: Some(one.target.display().to_string()),
                read_only: one.read_only,
            }),
            StoreKey::Tenant | StoreKey::Session(_) => None,
        };
        self.stores().iter().filter_map(of).collect()
    }
}
