//! A home or volume, and who uses it.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use jiff::Timestamp;

use super::{Measured, StoreKey, disk, quota};

/// A home or volume.
#[derive(Debug)]
pub struct Store {
    pub tenant: String,
    pub key: StoreKey,
    /// Its directory; what sessions see is `data` in it.
    pub(super) dir: PathBuf,
    pub created_at: Timestamp,
    pub(super) uses: Mutex<Uses>,
    pub(super) quota: quota::State,
    /// Held while it is given to an id or measured before a session.
    pub(super) preparing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
pub(super) struct Uses {
    pub(super) readers: u32,
    pub(super) writers: u32,
}

/// What is known of a home or volume.
#[derive(Debug, Clone)]
pub struct StoreStatus {
    pub key: StoreKey,
    pub created_at: Timestamp,
    pub last_used_at: Timestamp,
    pub in_use: bool,
    pub measured: Option<Measured>,
}

impl Store {
    pub(super) fn data(&self) -> PathBuf {
        self.dir.join(disk::DATA)
    }

    pub(super) fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn use_count(&self) -> u32 {
        let uses = self.uses();
        uses.readers.saturating_add(uses.writers)
    }

    pub(super) fn in_use(&self) -> bool {
        self.use_count() > 0
    }

    pub fn status(&self) -> StoreStatus {
        let in_use = self.in_use();
        let last_used = if in_use { SystemTime::now() } else { disk::last_used(&self.dir) };
        StoreStatus {
            key: self.key.clone(),
            created_at: self.created_at,
            last_used_at: Timestamp::try_from(last_used).unwrap_or(self.created_at),
            in_use,
            measured: self.quota.measured(),
        }
    }
}
