//! Homes and volumes: what a request asks for is checked, and done by [`crate::stores`].

mod disk;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vivarium_api_types::{
    FileInfo, FileList, FilePage, HomeInfo, HomeKind, HomeList, SessionSpec, StorageInfo,
    VolumeInfo, VolumeList, VolumeMount,
};
use vivarium_audit::AuditLog;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{FileOperation, FileProblem, FileReply};
use vivarium_protocol::places;

pub(super) use watch::watch;

use super::{Engine, EngineError, files, is_valid_id};
use crate::backend::Backend;
use crate::backend::ids::IdPool;
use crate::session::Session;
use crate::settings::{Quota, Settings};
use crate::stores::{Store, StoreDownload, StoreError, StoreKey, StoreLease, Stores, Want};

/// The most volumes of one session.
const MAX_VOLUMES: usize = 16;

/// Opens the homes and volumes, if sessions may have any.
pub(super) async fn open(
    settings: &Settings,
    backend: &Arc<dyn Backend>,
    ids: Option<&Arc<IdPool>>,
    audit: &AuditLog,
) -> Result<Arc<Stores>, &'static str> {
    if !settings.homes.are_offered() {
        return Err("the operator does not offer homes and volumes (homes.allowed)");
    }
    let backend = Arc::clone(backend);
    match Stores::open(&settings.server.state_dir, backend, ids.map(Arc::clone), audit.clone())
        .await
    {
        Ok(Some(stores)) => Ok(stores),
        Ok(None) => {
            tracing::warn!("no homes and volumes: another daemon uses those of server.state_dir");
            Err("another daemon uses the homes and volumes")
        }
        Err(error) => {
            tracing::error!(%error, "no homes and volumes: server.state_dir can not be used");
            Err("the directory of homes and volumes can not be used; the daemon's log has more")
        }
    }
}

impl Engine {
    fn stores(&self) -> Result<&Arc<Stores>, EngineError> {
        let stores = self.inner.host.stores.as_ref();
        stores.map_err(|reason| EngineError::invalid("home", *reason))
    }

    /// Takes the home and volumes that a session asks for; `None` if it asks for none.
    pub(super) async fn claim_stores(
        &self,
        tenant: &str,
        spec: &SessionSpec,
        environment: &str,
    ) -> Result<Option<Arc<StoreLease>>, EngineError> {
        let home = spec.home.unwrap_or_default();
        if home == HomeKind::Off && spec.volumes.is_empty() {
            return Ok(None);
        }
        self.check_open(tenant)?;
        let settings = self.settings();
        let stores = self.stores()?;
        let homes = &settings.homes;
        let refused = |field: &str| {
            EngineError::invalid(field, "the operator does not offer this (homes.allowed)")
        };
        match home {
            HomeKind::Session if !homes.session => return Err(refused("home")),
            HomeKind::Tenant if !homes.tenant => return Err(refused("home")),
            HomeKind::Off | HomeKind::Session | HomeKind::Tenant => {}
        }
        if !homes.volumes && !spec.volumes.is_empty() {
            return Err(refused("volumes"));
        }
        let prepared = self.environment(environment)?;
        if !prepared.plan.applies(Layer::Mounts) {
            let reason = "homes and volumes need the mounts layer, which is off here";
            return Err(EngineError::invalid("home", reason));
        }
        let mut wants = volumes(&spec.volumes)?;
        let key = match (home, &spec.id) {
            (HomeKind::Off, _) => None,
            (HomeKind::Tenant, _) => Some(StoreKey::Tenant),
            (HomeKind::Session, Some(id)) if is_valid_id(id) => Some(StoreKey::Session(id.clone())),
            (HomeKind::Session, Some(_)) => None, // refused for its id
            (HomeKind::Session, None) => {
                let reason = "a home is found again by the session's id: give one";
                return Err(EngineError::Missing { field: "id", reason });
            }
        };
        let target = PathBuf::from(places::HOME);
        wants.extend(key.map(|key| Want { key, target, read_only: false }));
        check_places(&wants, &settings.sandbox.workdir)?;
        let (has_ids, quota) = (prepared.session_ids().is_some(), settings.home_quota(tenant));
        let max = settings.homes.max_per_tenant.get();
        let claimed = stores.claim(tenant, wants, has_ids, &quota, max).await;
        claimed.map(Some).map_err(|error| self.not_stored(tenant, error))
    }

    /// Refuses work for a session whose home or volumes are full.
    pub(super) async fn admit_stores(&self, session: &Session) -> Result<(), EngineError> {
        let uses = session.stores();
        if uses.is_empty() {
            return Ok(());
        }
        let quota = self.settings().home_quota(&session.identity.tenant);
        let admitted = self.stores()?.admit(uses, &quota).await;
        admitted.map_err(|error| self.not_stored(&session.identity.tenant, error))
    }

    pub fn homes(&self, tenant: &str) -> Result<HomeList, EngineError> {
        let quota = self.settings().home_quota(tenant);
        let mut homes = self.stores()?.of(tenant);
        homes.retain(|store| store.key.is_home());
        Ok(HomeList { homes: homes.iter().map(|store| home_info(store, &quota)).collect() })
    }

    pub fn volumes(&self, tenant: &str) -> Result<VolumeList, EngineError> {
        let quota = self.settings().home_quota(tenant);
        let mut volumes = self.stores()?.of(tenant);
        volumes.retain(|store| !store.key.is_home());
        Ok(VolumeList { volumes: volumes.iter().map(|store| volume_info(store, &quota)).collect() })
    }

    pub async fn home(&self, tenant: &str, id: &str) -> Result<HomeInfo, EngineError> {
        let (store, quota) = self.measured(tenant, &StoreKey::home(id)).await?;
        Ok(home_info(&store, &quota))
    }

    pub async fn volume(&self, tenant: &str, name: &str) -> Result<VolumeInfo, EngineError> {
        let (store, quota) = self.measured(tenant, &StoreKey::Volume(name.to_owned())).await?;
        Ok(volume_info(&store, &quota))
    }

    /// A home or volume, measured if that is not known.
    async fn measured(
        &self,
        tenant: &str,
        key: &StoreKey,
    ) -> Result<(Arc<Store>, Quota), EngineError> {
        let stores = self.stores()?;
        let store = stores.find(tenant, key)?;
        let quota = self.settings().home_quota(tenant);
        stores.refresh(&store, &quota).await?;
        Ok((store, quota))
    }

    /// Makes a volume.
    pub async fn make_volume(&self, tenant: &str, name: &str) -> Result<VolumeInfo, EngineError> {
        self.check_open(tenant)?;
        check_name(name)?;
        self.admit_audit().await?;
        let settings = self.settings();
        let max = settings.homes.max_per_tenant.get();
        let (stores, quota) = (self.stores()?, settings.home_quota(tenant));
        let made = stores
            .check_tenant(tenant, &quota)
            .and_then(|()| stores.make_volume(tenant, name, max));
        let store = made.map_err(|error| self.not_stored(tenant, error))?;
        Ok(volume_info(&store, &quota))
    }

    /// Removes a home or volume that no session has, with all that is in it.
    pub async fn remove_store(&self, tenant: &str, key: StoreKey) -> Result<(), EngineError> {
        self.check_open(tenant)?;
        let (stores, tenant) = (Arc::clone(self.stores()?), tenant.to_owned());
        let engine = self.clone();
        // A task: if the caller goes away, what has begun is still finished.
        let removing = tokio::spawn(async move {
            let sleeper_has = |store: &Store| engine.sleeper_has(&store.tenant, &store.key);
            stores.remove(&tenant, &key, "removed", sleeper_has).await
        });
        let removed = removing.await.map_err(|error| EngineError::Internal(error.to_string()))?;
        Ok(removed?)
    }

    pub async fn list_stored(
        &self,
        tenant: &str,
        key: &StoreKey,
        page: FilePage,
    ) -> Result<FileList, EngineError> {
        let FilePage { path, recursive, after, limit } = page;
        if !(1..=files::MAX_FILE_PAGE).contains(&limit) {
            let reason = format!("it is 1 to {}", files::MAX_FILE_PAGE);
            return Err(EngineError::invalid("limit", reason));
        }
        let after = after.unwrap_or_default();
        let operation = FileOperation::List { path: path.clone(), recursive, after, limit };
        match self.file(tenant, key, &path, operation).await? {
            FileReply::Listed { entries, more } => {
                let last = entries.last().filter(|_| more);
                let next = last.map(|entry| entry.path.clone());
                Ok(FileList { entries: entries.into_iter().map(files::info).collect(), next })
            }
            _ => Err(out_of_turn()),
        }
    }

    pub async fn stat_stored(
        &self,
        tenant: &str,
        key: &StoreKey,
        path: &str,
    ) -> Result<FileInfo, EngineError> {
        let operation = FileOperation::Stat { path: path.to_owned() };
        match self.file(tenant, key, path, operation).await? {
            FileReply::Entry(entry) => Ok(files::info(entry)),
            _ => Err(out_of_turn()),
        }
    }

    /// Opens a file of a home or volume.
    pub async fn read_stored(
        &self,
        tenant: &str,
        key: &StoreKey,
        path: &str,
    ) -> Result<StoreDownload, EngineError> {
        check_path(path)?;
        let stores = self.stores()?;
        let store = stores.find(tenant, key)?;
        let read = stores.read(&store, path.to_owned(), 0, None).await?;
        read.map_err(|problem| files::refusal(problem, path))
    }

    pub async fn delete_stored(
        &self,
        tenant: &str,
        key: &StoreKey,
        path: &str,
    ) -> Result<(), EngineError> {
        let operation = FileOperation::Delete { path: path.to_owned() };
        self.file(tenant, key, path, operation).await.map(drop)
    }

    async fn file(
        &self,
        tenant: &str,
        key: &StoreKey,
        path: &str,
        operation: FileOperation,
    ) -> Result<FileReply, EngineError> {
        check_path(path)?;
        let stores = self.stores()?;
        let store = stores.find(tenant, key)?;
        let done: Result<FileReply, FileProblem> = stores.file(&store, operation).await?;
        done.map_err(|problem| files::refusal(problem, path))
    }
}

fn out_of_turn() -> EngineError {
    EngineError::Internal("a home's files: an answer to something else".to_owned())
}

/// For a clear answer: the program that opens it refuses it anyway.
fn check_path(path: &str) -> Result<(), EngineError> {
    let plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if path.is_empty() || (plain && !path.contains('\0') && path.len() <= files::MAX_PATH_BYTES) {
        return Ok(());
    }
    let reason = "a path is relative to the home or volume, without empty parts, \".\" and \"..\"";
    Err(EngineError::BadPath { path: path.to_owned(), reason: reason.to_owned() })
}

fn check_name(name: &str) -> Result<(), EngineError> {
    if is_valid_id(name) {
        return Ok(());
    }
    let reason = "a name is 1 to 64 of A-Z, a-z, 0-9, '_' and '-'";
    Err(EngineError::invalid("name", reason))
}

fn volumes(asked: &[VolumeMount]) -> Result<Vec<Want>, EngineError> {
    if asked.len() > MAX_VOLUMES {
        return Err(EngineError::invalid("volumes", format!("at most {MAX_VOLUMES}")));
    }
    let mut wants: Vec<Want> = Vec::new();
    for VolumeMount { name, path, read_only } in asked {
        if !is_valid_id(name) {
            return Err(StoreError::Unknown(StoreKey::Volume(name.clone())).into());
        }
        let key = StoreKey::Volume(name.clone());
        if wants.iter().any(|want| want.key == key) {
            return Err(EngineError::invalid("volumes", format!("{name:?} is there twice")));
        }
        let target = match path {
            Some(path) => path.into(),
            None => Path::new(places::VOLUMES).join(name),
        };
        wants.push(Want { key, target, read_only: *read_only });
    }
    Ok(wants)
}

/// Each has to have a place of its own: beneath /mnt, or the home's.
fn check_places(wants: &[Want], workdir: &Path) -> Result<(), EngineError> {
    let nested = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
    let taken = || [workdir].into_iter().chain(places::ALIASES.map(Path::new));
    for (index, want) in wants.iter().enumerate() {
        let target = &want.target;
        let text = target.to_str().unwrap_or_default();
        let below = text.strip_prefix(places::VOLUMES).and_then(|rest| rest.strip_prefix('/'));
        let is_plain = |path: &str| path.split('/').all(is_valid_id);
        let fits = want.key.is_home() || below.is_some_and(is_plain);
        let others = wants.iter().skip(index + 1).map(|want| want.target.as_path());
        if !fits || others.chain(taken()).any(|other| nested(target, other)) {
            let field = if want.key.is_home() { "home" } else { "volumes" };
            let reason = format!(
                "{text:?} is no place for it: volumes appear beneath /mnt, each in a directory of its \
                 own, of A-Z, a-z, 0-9, '_' and '-', and nothing where the workdir is"
            );
            return Err(EngineError::invalid(field, reason));
        }
    }
    Ok(())
}

fn home_info(store: &Store, quota: &Quota) -> HomeInfo {
    let kind = match store.key {
        StoreKey::Tenant => HomeKind::Tenant,
        StoreKey::Session(_) | StoreKey::Volume(_) => HomeKind::Session,
    };
    HomeInfo { id: store.key.id().to_owned(), kind, storage: storage_info(store, quota) }
}

fn volume_info(store: &Store, quota: &Quota) -> VolumeInfo {
    VolumeInfo { name: store.key.id().to_owned(), storage: storage_info(store, quota) }
}

fn storage_info(store: &Store, quota: &Quota) -> StorageInfo {
    let status = store.status();
    StorageInfo {
        created_at: status.created_at,
        last_used_at: status.last_used_at,
        in_use: status.in_use,
        used_bytes: status.measured.as_ref().map(|measured| measured.bytes),
        used_inodes: status.measured.map(|measured| measured.inodes),
        max_bytes: quota.max_mb.times(1 << 20),
        max_inodes: quota.max_inodes.get(),
    }
}
