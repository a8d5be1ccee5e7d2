//! A session's hold on its home and volumes.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use nix::unistd::{Gid, Uid};
use vivarium_protocol::message::{StorageOperation, StorageReply};
use vivarium_protocol::policy::{StoreMount, SubordinateIds};

use super::{Store, StoreError, StoreKey, Stores, disk};
use crate::settings::Quota;

/// What a session wants.
#[derive(Debug, Clone)]
pub struct Want {
    pub key: StoreKey,
    /// Where it is to appear.
    pub target: PathBuf,
    pub read_only: bool,
}

/// One home or volume of a session.
#[derive(Debug, Clone)]
pub struct StoreUse {
    pub store: Arc<Store>,
    pub target: PathBuf,
    pub read_only: bool,
}

/// The homes and volumes of a session, in use until this is dropped.
#[derive(Debug)]
pub struct StoreLease {
    pub uses: Vec<StoreUse>,
    /// The ids that the session has to have, if sessions have subordinate ids.
    pub ids: Option<SubordinateIds>,
}

impl StoreLease {
    pub fn mounts(&self) -> Vec<StoreMount> {
        let mount = |one: &StoreUse| StoreMount {
            source: one.store.data(),
            target: one.target.clone(),
            read_only: one.read_only,
        };
        self.uses.iter().map(mount).collect()
    }
}

impl Drop for StoreLease {
    fn drop(&mut self) {
        for StoreUse { store, read_only, .. } in &self.uses {
            if !*read_only {
                store.quota.stale();
            }
            if let Err(error) = disk::touch(&store.dir) {
                tracing::warn!(%error, "the use of a home or volume is not recorded");
            }
            let mut uses = store.uses();
            if *read_only {
                uses.readers -= 1;
            } else {
                uses.writers -= 1;
            }
        }
    }
}

impl Stores {
    /// Takes what a session wants, homes made where they are missing. `has_ids` tells whether it is to
    /// have subordinate ids.
    pub async fn claim(
        &self,
        tenant: &str,
        wants: Vec<Want>,
        has_ids: bool,
        quota: &Quota,
        max: Option<u64>,
    ) -> Result<Arc<StoreLease>, StoreError> {
        if wants.iter().any(|want| !want.read_only) {
            self.measure_tenant(tenant.to_owned(), *quota).await?;
        }
        let ids = if has_ids { self.pair_of(tenant).await? } else { None };
        let mut lease = StoreLease { uses: Vec::new(), ids };
        for want in wants {
            lease.uses.push(self.take(tenant, want, max)?);
        }
        for one in &lease.uses {
            let store = &one.store;
            let own = || (Uid::effective().as_raw(), Gid::effective().as_raw());
            let owner = ids.map_or_else(own, |ids| (ids.kernel, ids.kernel));
            let preparing = store.preparing.lock().await;
            self.give(store, owner).await?;
            if !one.read_only {
                self.check(store, quota).await?;
                store.quota.stale();
            }
            drop(preparing);
        }
        Ok(Arc::new(lease))
    }

    /// Finds a home or volume, or makes a home, and counts one more use of it.
    fn take(&self, tenant: &str, want: Want, max: Option<u64>) -> Result<StoreUse, StoreError> {
        let Want { key, target, read_only } = want;
        // Until it is counted, as nothing that is in use is removed.
        let mut state = self.state();
        let store = match state.stores.get(&(tenant.to_owned(), key.clone())) {
            Some(store) => Arc::clone(store),
            None if key.is_home() => self.make(&mut state, tenant, key.clone(), max)?,
            None => return Err(StoreError::Unknown(key)),
        };
        let mut uses = store.uses();
        if read_only {
            uses.readers += 1;
        } else if !key.is_home() && uses.writers > 0 {
            let reason = "another session writes to it; it can be read meanwhile (read_only)";
            return Err(StoreError::InUse { key, reason });
        } else {
            uses.writers += 1;
        }
        drop(uses);
        Ok(StoreUse { store, target, read_only })
    }

    /// Sees to it that its files belong to these ids.
    async fn give(&self, store: &Store, (uid, gid): (u32, u32)) -> Result<(), StoreError> {
        let data = store.data();
        let found = std::fs::symlink_metadata(&data);
        let found =
            found.map_err(|error| StoreError::Failed(format!("look at a home: {error}")))?;
        if found.uid() == uid {
            return Ok(());
        }
        if store.use_count() > 1 {
            let reason = "by sessions that have other ids";
            return Err(StoreError::InUse { key: store.key.clone(), reason });
        }
        match self.operate(&data, StorageOperation::Prepare { uid, gid }).await? {
            StorageReply::Prepared => Ok(()),
            _ => Err(StoreError::Failed("prepare a home: an answer to something else".to_owned())),
        }
    }
}
