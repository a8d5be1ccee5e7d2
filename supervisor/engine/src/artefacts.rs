//! Built environments: directories that sessions see read-only, named by what is in them.
//!
//! ```text
//! environments/.lock                        held by the daemon that uses the rest
//! environments/OWNER/artefacts/HASH/        record.json, and data/, which sessions see
//! environments/OWNER/names/NAME.json        which artefact a name stands for
//! environments/OWNER/builds/NAME.json, .log the last build of a name
//! environments/staging/…                    a build on its way; removed when a daemon starts
//! environments/deleted/…                    likewise
//! ```
//!
//! OWNER is a tenant, or `@all` for what the operator builds for everybody. Nothing in `data` is ever
//! opened or executed here: what looks at it is `vivarium-agent storage`. An artefact that a session or a
//! pool has is never removed, and none is ever changed.

mod artefact;
mod disk;
mod staging;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use nix::fcntl::Flock;
use tokio::task::spawn_blocking;
use vivarium_protocol::message::StorageOperation;

use crate::backend::ids::IdPool;
use crate::storage_helper::StorageHelper;

use artefact::OPERATOR;
pub use artefact::Owner;
pub(crate) use artefact::{Artefact, ArtefactError, ArtefactRecord, Held, NameRecord, Named};
pub(crate) use disk::BuildRecord;
pub(crate) use staging::{Plan, Staging};

type Key = (Owner, String);

#[derive(Debug)]
pub(crate) struct Artefacts {
    root: PathBuf,
    helper: StorageHelper,
    state: Mutex<State>,
    /// Held while artefacts come or go.
    changing: tokio::sync::Mutex<()>,
    /// No other daemon uses the directory.
    _lock: Flock<File>,
}

#[derive(Debug, Default)]
struct State {
    /// By their hashes.
    artefacts: BTreeMap<Key, Arc<Artefact>>,
    names: BTreeMap<Key, NameRecord>,
}

/// What a collection removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    pub(crate) artefacts: u64,
    pub(crate) bytes: u64,
}

impl Artefacts {
    /// Whether there is anything that could be opened.
    pub(crate) fn exist(state_dir: &Path) -> bool {
        state_dir.join(disk::ROOT).is_dir()
    }

    /// Opens the directory, and clears what a daemon left on its way there.
    pub(crate) async fn open(
        state_dir: &Path,
        helper: StorageHelper,
    ) -> Result<Arc<Self>, ArtefactError> {
        let root = state_dir.join(disk::ROOT);
        let lock = disk::lock(&root)?.ok_or(ArtefactError::Locked)?;
        let mut state = State::default();
        for (owner, artefact) in disk::artefacts(&root)? {
            let hash = artefact.record.hash.clone();
            state.artefacts.insert((owner, hash), Arc::new(artefact));
        }
        for (owner, name, record) in disk::names(&root)? {
            if state.artefacts.contains_key(&(owner.clone(), record.hash.clone())) {
                state.names.insert((owner, name), record);
            } else {
                tracing::error!(name, "what an environment stands for is gone: build it again");
            }
        }
        let (state, changing) = (Mutex::new(state), tokio::sync::Mutex::default());
        let artefacts = Arc::new(Self { root, helper, state, changing, _lock: lock });
        for dir in disk::leftovers(&artefacts.root)? {
            if let Err(error) = artefacts.remove_dir(&dir).await {
                tracing::warn!(%error, dir = %dir.display(), "a part of an environment is left behind");
            }
        }
        Ok(artefacts)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, owner: &Owner, name: &str) -> Option<Named> {
        let state = self.state();
        let record = state.names.get(&(owner.clone(), name.to_owned()))?;
        let artefact = state.artefacts.get(&(owner.clone(), record.hash.clone()))?;
        let artefact = Arc::clone(artefact);
        Some(Named { name: name.to_owned(), built_at: record.built_at, artefact })
    }

    /// The names of an owner's environments.
    pub(crate) fn names_of(&self, owner: &Owner) -> Vec<String> {
        let state = self.state();
        let own = state.names.keys().filter(|(whose, _)| whose == owner);
        own.map(|(_, name)| name.clone()).collect()
    }

    /// Everybody's, by owner.
    pub(crate) fn owners(&self) -> Vec<Owner> {
        let mut owners: Vec<_> =
            self.state().names.keys().map(|(owner, _)| owner.clone()).collect();
        owners.dedup();
        owners
    }

    /// Whether a session has it now, apart from the caller.
    pub(crate) fn in_use(artefact: &Arc<Artefact>) -> bool {
        // The map's own, and the caller's.
        Arc::strong_count(artefact) > 2
    }

    /// What an owner's artefacts take of the disk together.
    pub(crate) fn bytes_of(&self, owner: &Owner) -> u64 {
        let state = self.state();
        let own = state.artefacts.iter().filter(|((whose, _), _)| whose == owner);
        own.map(|(_, artefact)| artefact.record.bytes).sum()
    }

    /// How many artefacts there are, and what they take together.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let state = self.state();
        let bytes = state.artefacts.values().map(|artefact| artefact.record.bytes).sum();
        (state.artefacts.len() as u64, bytes)
    }

    /// A directory for a build, which the session with these ids can write to.
    pub(crate) async fn stage(
        &self,
        ids: Option<&Arc<IdPool>>,
    ) -> Result<Arc<Staging>, ArtefactError> {
        staging::make(&self.root, &self.helper, ids).await
    }

    /// Bytes and inodes that a build takes now.
    pub(crate) async fn measure(
        &self,
        staging: &Staging,
        max_inodes: u64,
    ) -> Result<(u64, u64), ArtefactError> {
        staging::measure(&self.helper, staging, max_inodes).await
    }

    /// Makes an artefact of what was built, and has the name stand for it. The session that built it is
    /// gone.
    pub(crate) async fn publish(
        &self,
        staging: Arc<Staging>,
        owner: &Owner,
        name: &str,
        plan: Plan,
    ) -> Result<ArtefactRecord, ArtefactError> {
        let staging = Arc::into_inner(staging).ok_or(ArtefactError::StillUsed)?;
        let sealed = match staging::seal(&self.helper, &staging, &plan).await {
            Ok(sealed) => sealed,
            Err(error) => {
                self.discard(staging).await;
                return Err(error);
            }
        };
        // The same bytes are as good, whatever they came from this time.
        let is_locked = |hash: &str| {
            let key = (owner.clone(), hash.to_owned());
            self.state().artefacts.get(&key).is_some_and(|it| it.record.hash_locked)
        };
        let hash_locked = plan.hash_locked || is_locked(&sealed.hash);
        let record = ArtefactRecord {
            hash: sealed.hash,
            base: plan.base,
            interpreter: plan.interpreter,
            python_version: plan.python_version,
            hash_locked,
            bytes: sealed.bytes,
            inodes: sealed.inodes,
            distributions: sealed.distributions,
        };
        let changing = self.changing.lock().await;
        let key = (owner.clone(), record.hash.clone());
        if self.bytes_of(owner).saturating_add(record.bytes) > plan.quota_bytes
            && !self.state().artefacts.contains_key(&key)
        {
            self.discard(staging).await;
            return Err(ArtefactError::Refused("it is over the tenant's quota of disk".to_owned()));
        }
        let is_there = self.state().artefacts.get(&key).is_some_and(|it| it.record == record);
        let leftover = if is_there {
            // It is the same to the last byte.
            Some(staging)
        } else {
            let (root, from) = (self.root.clone(), staging.dir.clone());
            let (owner, kept) = (owner.clone(), record.clone());
            let moving = move || disk::move_in(&root, &from, &owner, &kept);
            let dir = blocking(moving).await?;
            let artefact = Artefact { record: record.clone(), dir };
            self.state().artefacts.insert(key.clone(), Arc::new(artefact));
            None
        };
        let named = NameRecord { hash: record.hash.clone(), built_at: Timestamp::now() };
        let (root, whose, which, kept) =
            (self.root.clone(), owner.clone(), name.to_owned(), named.clone());
        blocking(move || disk::write_name(&root, &whose, &which, &kept)).await?;
        self.state().names.insert((owner.clone(), name.to_owned()), named);
        drop(changing);
        if let Some(staging) = leftover {
            self.discard(staging).await;
        }
        Ok(record)
    }

    /// Removes a build's directory. Its ids are free only then.
    pub(crate) async fn discard(&self, staging: Staging) {
        if let Err(error) = self.remove_dir(&staging.dir).await {
            tracing::warn!(%error, dir = %staging.dir.display(), "a build is left behind");
            staging.keep_ids();
        }
    }

    /// Takes a name away. What it stood for goes when no session has it.
    pub(crate) async fn unname(&self, owner: &Owner, name: &str) -> Result<bool, ArtefactError> {
        let changing = self.changing.lock().await;
        let key = (owner.clone(), name.to_owned());
        let is_named = self.state().names.contains_key(&key);
        if is_named {
            disk::remove_name(&self.root, owner, name)?;
            self.state().names.remove(&key);
        }
        drop(changing);
        Ok(is_named)
    }

    /// Removes every artefact that no name stands for and nobody has.
    pub(crate) async fn collect(&self) -> Collected {
        let mut collected = Collected::default();
        let mut aside = Vec::new();
        let changing = self.changing.lock().await;
        {
            let mut state = self.state();
            let State { artefacts, names } = &mut *state;
            artefacts.retain(|(owner, hash), artefact| {
                let is_named =
                    names.iter().any(|((whose, _), name)| whose == owner && name.hash == *hash);
                if is_named || Arc::strong_count(artefact) > 1 {
                    return true;
                }
                match disk::put_aside(&self.root, &artefact.dir) {
                    Ok(dir) => {
                        collected.artefacts += 1;
                        collected.bytes = collected.bytes.saturating_add(artefact.record.bytes);
                        aside.push(dir);
                        false
                    }
                    Err(error) => {
                        tracing::warn!(%error, hash, "an environment that nobody has stays");
                        true
                    }
                }
            });
        }
        for dir in aside {
            if let Err(error) = self.remove_dir(&dir).await {
                tracing::warn!(%error, dir = %dir.display(), "a part of an environment is left behind");
            }
        }
        drop(changing);
        collected
    }

    async fn remove_dir(&self, dir: &Path) -> Result<(), ArtefactError> {
        let data = dir.join(disk::DATA);
        if data.exists() {
            self.helper.operate(&data, StorageOperation::Clear).await?;
        }
        disk::remove(dir)
    }

    pub(crate) async fn write_build(
        &self,
        owner: &Owner,
        name: &str,
        record: &BuildRecord,
        log: Option<&str>,
    ) -> Result<(), ArtefactError> {
        let names = self.names_of(owner).into_iter().chain([name.to_owned()]).collect();
        let (root, owner, name) = (self.root.clone(), owner.clone(), name.to_owned());
        let (record, log) = (record.clone(), log.map(str::to_owned));
        blocking(move || {
            disk::write_build(&root, &owner, &name, &record, log.as_deref())?;
            disk::forget_builds(&root, &owner, &names)
        })
        .await
    }

    pub(crate) fn read_build(&self, owner: &Owner, name: &str) -> Option<BuildRecord> {
        disk::read_build(&self.root, owner, name)
    }

    pub(crate) fn read_log(&self, owner: &Owner, name: &str) -> Option<String> {
        disk::read_log(&self.root, owner, name)
    }
}

/// What waits for the disk, where others do not wait with it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArtefactError> + Send + 'static,
) -> Result<T, ArtefactError> {
    spawn_blocking(work).await.map_err(|_| ArtefactError::OutOfTurn)?
}

#[cfg(test)]
mod tests;
