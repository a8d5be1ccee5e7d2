//! Homes and volumes: directories of tenants that outlive sessions, below the state directory.
//!
//! ```text
//! homes/.lock                          held by the daemon that uses the rest
//! homes/TENANT/ids.json                the subordinate ids of this tenant's sessions that have any of it
//! homes/TENANT/session-ID/record.json  when it was made; its modification time: when it was last used
//! homes/TENANT/session-ID/data/        what sessions see; belongs to the subordinate id
//! homes/TENANT/tenant/…, homes/TENANT/volume-NAME/…
//! homes/TENANT/.new-…, .deleted-…      on their way; removed when a daemon starts
//! ```
//!
//! Names are checked before they become part of a path. Nothing in `data` is ever opened here: what
//! lists, reads, measures and removes it is `vivarium-agent storage` ([`crate::storage_helper`]). A home or volume is
//! never given to another tenant, nor its ids to anybody else while the tenant has one.

mod disk;
mod lease;
mod quota;
mod read;
mod store;
mod tenant_quota;
mod watch;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::fcntl::Flock;
use tokio::task::spawn_blocking;
use vivarium_audit::{AuditLog, Event, StoreChange};
use vivarium_protocol::message::{StorageOperation, StorageReply};
use vivarium_protocol::policy::SubordinateIds;

use crate::backend::Backend;
use crate::backend::Launched;
use crate::backend::ids::IdPool;
use crate::storage_helper::{HelperError, StorageHelper};

pub(crate) use disk::is_plain;
pub use lease::{StoreLease, StoreUse, Want};
pub use quota::Measured;
pub use read::StoreDownload;
pub use store::{Store, StoreStatus};
pub(crate) use watch::{Watched, run as watch};

/// Which of a tenant's homes and volumes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreKey {
    /// The home of all its sessions that ask for that.
    Tenant,
    /// The home of the sessions of this id.
    Session(String),
    Volume(String),
}

/// The id of a tenant's own home, which no session can have.
pub const TENANT_HOME: &str = "@tenant";

impl StoreKey {
    /// The home of this id.
    pub fn home(id: &str) -> Self {
        if id == TENANT_HOME { Self::Tenant } else { Self::Session(id.to_owned()) }
    }

    pub const fn is_home(&self) -> bool {
        !matches!(self, Self::Volume(_))
    }

    /// What the API calls it: a home's id, or a volume's name.
    pub fn id(&self) -> &str {
        match self {
            Self::Tenant => TENANT_HOME,
            Self::Session(id) | Self::Volume(id) => id,
        }
    }

    const fn what(&self) -> &'static str {
        if self.is_home() { "home" } else { "volume" }
    }
}

/// Why something about a home or volume is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("there is no {} {:?}", .0.what(), .0.id())]
    Unknown(StoreKey),
    #[error("there already is a volume {0:?}")]
    Exists(String),
    #[error("the {} {:?} is in use: {reason}", key.what(), key.id())]
    InUse { key: StoreKey, reason: &'static str },
    #[error("the {} {:?} is full: {used}; remove files or the whole by the API", key.what(), key.id())]
    Full { key: StoreKey, used: String },
    #[error(
        "homes and volumes of this tenant have {used_mb} MiB of {max_mb} (max_homes_mb); remove \
         files or the whole by the API"
    )]
    TenantFull { used_mb: u64, max_mb: u64 },
    #[error(
        "there are {max} homes and volumes of this tenant, as many as may (homes.max_per_tenant)"
    )]
    TooMany { max: u64 },
    #[error("as many files of homes and volumes are being read as may")]
    Busy,
    #[error("{0}")]
    Failed(String),
}

impl StoreError {
    /// The name that clients may rely on.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown(key) if key.is_home() => "unknown_home",
            Self::Unknown(_) => "unknown_volume",
            Self::Exists(_) => "volume_exists",
            Self::InUse { key, .. } if key.is_home() => "home_in_use",
            Self::InUse { .. } => "volume_in_use",
            Self::Full { key, .. } if key.is_home() => "home_full",
            Self::Full { .. } => "volume_full",
            Self::TenantFull { .. } => "quota_exceeded",
            Self::TooMany { .. } => "too_many_homes",
            Self::Busy => "too_many_transfers",
            Self::Failed(_) => "internal",
        }
    }
}

impl From<HelperError> for StoreError {
    fn from(error: HelperError) -> Self {
        Self::Failed(error.to_string())
    }
}

type Key = (String, StoreKey);

/// All homes and volumes of this daemon.
#[derive(Debug)]
pub struct Stores {
    root: PathBuf,
    helper: StorageHelper,
    ids: Option<Arc<IdPool>>,
    audit: AuditLog,
    state: Arc<Mutex<State>>,
    reads: Arc<tokio::sync::Semaphore>,
    /// Held while a tenant gets its ids.
    pairing: Arc<tokio::sync::Mutex<()>>,
    /// No other daemon uses the directory.
    _lock: Flock<File>,
}

#[derive(Debug, Default)]
struct State {
    stores: BTreeMap<Key, Arc<Store>>,
    /// The ids of tenants.
    pairs: BTreeMap<String, SubordinateIds>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stores {
    /// Opens the directory, and clears what a daemon left on its way there. `None` if another daemon
    /// uses it.
    pub async fn open(
        state_dir: &Path,
        backend: Arc<dyn Backend>,
        ids: Option<Arc<IdPool>>,
        audit: AuditLog,
    ) -> std::io::Result<Option<Arc<Self>>> {
        let root = state_dir.join("homes");
        let Some(lock) = disk::lock(&root)? else { return Ok(None) };
        let found = disk::scan(&root)?;
        let mut state = State::default();
        for (tenant, pair) in found.pairs {
            match ids.as_ref().and_then(|pool| pool.reserve(Some(pair))) {
                Some(pair) => drop(state.pairs.insert(tenant, pair)),
                // Its files are given to other ids when a session needs them.
                None => tracing::warn!(tenant, "the ids of its homes and volumes can not be had"),
            }
        }
        for (tenant, key, dir) in found.stores {
            let store = Arc::new(Self::store(&tenant, key.clone(), dir));
            state.stores.insert((tenant, key), store);
        }
        let reads = Arc::new(tokio::sync::Semaphore::new(read::MAX_READS));
        let state = Arc::new(Mutex::new(state));
        let helper = StorageHelper { backend, ids: ids.clone() };
        let stores = Arc::new(Self {
            root,
            helper,
            ids,
            audit,
            state,
            reads,
            pairing: Arc::default(),
            _lock: lock,
        });
        for dir in found.leftovers {
            if let Err(error) = stores.remove_dir(&dir).await {
                tracing::warn!(%error, dir = %dir.display(), "a removed home or volume is left behind");
            }
        }
        Ok(Some(stores))
    }

    fn store(tenant: &str, key: StoreKey, dir: PathBuf) -> Store {
        Store {
            tenant: tenant.to_owned(),
            key,
            created_at: disk::created_at(&dir),
            dir,
            uses: Mutex::default(),
            quota: quota::State::default(),
            preparing: tokio::sync::Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub fn find(&self, tenant: &str, key: &StoreKey) -> Result<Arc<Store>, StoreError> {
        let found = self.state().stores.get(&(tenant.to_owned(), key.clone())).map(Arc::clone);
        found.ok_or_else(|| StoreError::Unknown(key.clone()))
    }

    /// A tenant's homes and volumes, ordered.
    pub fn of(&self, tenant: &str) -> Vec<Arc<Store>> {
        let first = (tenant.to_owned(), StoreKey::Tenant);
        let state = self.state();
        let own = state.stores.range(first..).take_while(|((owner, _), _)| owner == tenant);
        own.map(|(_, store)| Arc::clone(store)).collect()
    }

    fn all(&self) -> Vec<Arc<Store>> {
        self.state().stores.values().map(Arc::clone).collect()
    }

    /// Makes a volume.
    pub fn make_volume(
        &self,
        tenant: &str,
        name: &str,
        max: Option<u64>,
    ) -> Result<Arc<Store>, StoreError> {
        let key = StoreKey::Volume(name.to_owned());
        let mut state = self.state();
        if state.stores.contains_key(&(tenant.to_owned(), key.clone())) {
            return Err(StoreError::Exists(name.to_owned()));
        }
        self.make(&mut state, tenant, key, max)
    }

    /// Makes a home or volume that is not there.
    fn make(
        &self,
        state: &mut State,
        tenant: &str,
        key: StoreKey,
        max: Option<u64>,
    ) -> Result<Arc<Store>, StoreError> {
        let count = state.stores.keys().filter(|(owner, _)| owner == tenant).count() as u64;
        if let Some(max) = max.filter(|max| count >= *max) {
            return Err(StoreError::TooMany { max });
        }
        let dir = disk::make(&self.root, tenant, &key).map_err(|error| {
            StoreError::Failed(format!("make the {} {:?}: {error}", key.what(), key.id()))
        })?;
        let store = Arc::new(Self::store(tenant, key.clone(), dir));
        // It is empty, and nobody has to look.
        store.quota.set(Measured::default());
        self.note(tenant, &key, "created");
        state.stores.insert((tenant.to_owned(), key), Arc::clone(&store));
        Ok(store)
    }

    /// Removes a home or volume with all that is in it. `change` is what the audit log calls that;
    /// `sleeper_has` says whether a suspended session has it.
    pub async fn remove(
        &self,
        tenant: &str,
        key: &StoreKey,
        change: &'static str,
        sleeper_has: impl FnOnce(&Store) -> bool,
    ) -> Result<(), StoreError> {
        let failed = |error: &dyn std::fmt::Display| {
            StoreError::Failed(format!("remove the {} {:?}: {error}", key.what(), key.id()))
        };
        let aside = {
            let mut state = self.state();
            let at = (tenant.to_owned(), key.clone());
            let store = state.stores.get(&at).ok_or_else(|| StoreError::Unknown(key.clone()))?;
            if store.in_use() {
                return Err(StoreError::InUse { key: key.clone(), reason: "sessions have it" });
            }
            // After that: one that is resumed takes it before its image goes.
            if sleeper_has(store) {
                let reason = "a suspended session has it";
                return Err(StoreError::InUse { key: key.clone(), reason });
            }
            let aside = disk::put_aside(&store.dir).map_err(|error| failed(&error))?;
            state.stores.remove(&at);
            // From here on it is gone for its tenant, whatever becomes of the rest.
            self.note(tenant, key, change);
            aside
        };
        self.remove_dir(&aside).await.map_err(|error| failed(&error))
    }

    fn note(&self, tenant: &str, key: &StoreKey, change: &'static str) {
        self.audit.record(|| {
            let (tenant, name) = (tenant.to_owned(), key.id().to_owned());
            let said = Box::new(StoreChange { tenant, name, change });
            if key.is_home() { Event::Home(said) } else { Event::Volume(said) }
        });
    }

    /// Removes a directory that no session can have any more.
    async fn remove_dir(&self, dir: &Path) -> Result<(), StoreError> {
        let data = dir.join(disk::DATA);
        if data.exists() {
            self.operate(&data, StorageOperation::Clear).await?;
        }
        disk::remove(dir).map_err(|error| StoreError::Failed(error.to_string()))
    }

    /// Has an operation done, and waits for the answer.
    async fn operate(
        &self,
        data: &Path,
        operation: StorageOperation,
    ) -> Result<StorageReply, StoreError> {
        Ok(self.helper.operate(data, operation).await?)
    }

    /// Has an operation done, and waits for the answer; content may follow it.
    async fn begin(
        &self,
        data: &Path,
        operation: StorageOperation,
    ) -> Result<(StorageReply, Launched), StoreError> {
        Ok(self.helper.begin(data, operation).await?)
    }

    /// The ids that a tenant's sessions with a home or volume have; `None` if no more can be had.
    async fn pair_of(&self, tenant: &str) -> Result<Option<SubordinateIds>, StoreError> {
        let Some(pool) = &self.ids else { return Ok(None) };
        let known = || self.state().pairs.get(tenant).copied();
        if let Some(pair) = known() {
            return Ok(Some(pair));
        }
        let pairing = Arc::clone(&self.pairing).lock_owned().await;
        if let Some(pair) = known() {
            return Ok(Some(pair));
        }
        let (pool, root) = (Arc::clone(pool), self.root.clone());
        let (owner, state) = (tenant.to_owned(), Arc::clone(&self.state));
        // To its end, also where nobody waits for it any more: a pair that is reserved and not known would be lost.
        let keeping = spawn_blocking(move || {
            let pair = pool.reserve(None).ok_or_else(|| "all are in use".to_owned())?;
            disk::write_pair(&root, &owner, pair).map_err(|error| error.to_string())?;
            lock(&state).pairs.insert(owner, pair);
            drop(pairing);
            Ok(pair)
        });
        let kept = keeping.await.map_err(|error| error.to_string()).flatten();
        let pair =
            kept.map_err(|why| StoreError::Failed(format!("keep subordinate ids: {why}")))?;
        Ok(Some(pair))
    }
}
