//! Images: sessions that are suspended, below the state directory.
//!
//! ```text
//! images/.lock             held by the daemon that uses the rest
//! images/.key              seals all the rest (seal.rs), unless images.key_file is another
//! images/.templates/ENV/…  what their templates had in memory (bases.rs)
//! images/TENANT/ID/record  what the session is: JSON
//! images/TENANT/ID/kernel  memory and files, as its kernel wrote them (agent/src/image/format.rs): zstd
//! images/TENANT/.new-…     being made; removed when a daemon starts
//! ```

pub(crate) mod bases;
mod seal;
pub(crate) mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use nix::fcntl::Flock;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;
use vivarium_api_types::{ImageInfo, SessionInfo, SessionSpec};
use vivarium_audit::Hash;
use vivarium_metrics::families::images::ObstacleKind;
use vivarium_protocol::message::ExecutionNumber;

use self::bases::Bases;
use self::seal::{SealKey, What};
use crate::private_dir;
use crate::recover::remove_tree;

const ROOT: &str = "images";
const TEMPLATES: &str = ".templates";
const KEY: &str = ".key";
const RECORD: &str = "record";
const KERNEL: &str = "kernel";
const UNFINISHED_PREFIX: &str = ".new-";

/// Of what is below the directory. What has another is not resumed.
const VERSION: u32 = 1;

/// What an image says of its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    /// What another session has to be asked for to be the same.
    pub(crate) spec: SessionSpec,
    /// As it was when it was suspended.
    pub(crate) info: SessionInfo,
    /// The number of its last execution.
    pub(crate) executions: ExecutionNumber,
    pub(crate) suspended_at: Timestamp,
    pub(crate) size_bytes: u64,
    /// The fingerprint of its kernel's template.
    pub(crate) template: Hash,
    /// The name that its kernel's file is sealed with.
    image: Uuid,
}

impl Record {
    pub(crate) fn new(
        spec: SessionSpec,
        info: SessionInfo,
        executions: ExecutionNumber,
        unfinished: &Unfinished,
        template: Hash,
    ) -> io::Result<Self> {
        let (version, suspended_at) = (VERSION, Timestamp::now());
        let (size_bytes, image) = (unfinished.size_bytes()?, unfinished.image);
        Ok(Self { version, spec, info, executions, suspended_at, size_bytes, template, image })
    }

    /// What lists show of the session.
    pub(crate) fn info(&self, expire_after: Option<Duration>) -> SessionInfo {
        let image = ImageInfo {
            size_bytes: self.size_bytes,
            suspended_at: self.suspended_at,
            expires_at: self.expires_at(expire_after),
        };
        SessionInfo { image: Some(image), ..self.info.clone() }
    }

    /// Whether it is to be deleted: nobody resumed it in time, or its session's deadline has passed.
    pub(crate) fn is_over(&self, expire_after: Option<Duration>) -> bool {
        let now = Timestamp::now();
        let ends = [self.expires_at(expire_after), self.spec.deadline];
        ends.into_iter().flatten().any(|end| end <= now)
    }

    fn expires_at(&self, expire_after: Option<Duration>) -> Option<Timestamp> {
        self.suspended_at.checked_add(expire_after?).ok()
    }
}

/// A session that is suspended.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    dir: PathBuf,
    key: SealKey,
    pub(crate) record: Arc<Record>,
}

impl Image {
    /// What its kernel wrote. Blocks.
    pub(crate) fn open(&self) -> io::Result<impl Read + Send + use<>> {
        let sealed = File::open(self.dir.join(KERNEL))?;
        let image = self.record.image.to_string();
        zstd::Decoder::new(self.key.open(sealed, What::Kernel { image: &image })?)
    }
}

/// A session that is being suspended or resumed, or is suspended. Whoever moves it holds the lock; there is
/// nothing in it while it is awake.
type Slot = Arc<tokio::sync::Mutex<Option<Image>>>;

type Key = (String, String);

/// The place of a session, held: nobody else suspends, resumes, branches or deletes it meanwhile.
pub(crate) struct Place {
    images: Arc<Images>,
    key: Key,
    slot: Option<OwnedMutexGuard<Option<Image>>>,
}

impl Place {
    /// Its image; `None` while the session is awake.
    pub(crate) fn image(&self) -> Option<&Image> {
        self.slot.as_ref()?.as_ref()
    }

    /// The session is suspended from now on.
    pub(crate) fn put(&mut self, image: Image) {
        if let Some(slot) = &mut self.slot {
            **slot = Some(image);
        }
    }

    /// Removes the image: its session is awake, or to be no more. Whether there was one.
    pub(crate) fn remove(&mut self) -> bool {
        let Some(image) = self.slot.as_mut().and_then(|slot| slot.take()) else { return false };
        lock(&self.images.suspended).remove(&self.key);
        if let Err(error) = remove_tree(&image.dir) {
            tracing::warn!(%error, session = self.key.1, "an image that is not needed stays");
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.slot = None;
        self.images.forget(&self.key);
    }
}

#[derive(Debug)]
pub(crate) struct Images {
    root: PathBuf,
    key: SealKey,
    pub(crate) bases: Bases,
    slots: Mutex<BTreeMap<Key, Slot>>,
    /// What lists show, by the same keys.
    suspended: Mutex<BTreeMap<Key, Arc<Record>>>,
    _lock: Flock<File>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("another daemon uses the images of server.state_dir")]
    InUse,
    #[error("the key of images (images.key_file)")]
    Key(#[source] io::Error),
    #[error("the images of server.state_dir")]
    Io(#[from] io::Error),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Images {
    /// Whether a daemon has had any there.
    pub(crate) fn are_in(state_dir: &Path) -> bool {
        state_dir.join(ROOT).exists()
    }

    /// Takes the directory, with what an earlier daemon left there. Blocks.
    pub(crate) fn open(state_dir: &Path, key_file: Option<&Path>) -> Result<Self, OpenError> {
        let root = state_dir.join(ROOT);
        private_dir::make(&root)?;
        let lock = private_dir::lock(&root)?.ok_or(OpenError::InUse)?;
        let key = match key_file {
            Some(path) => SealKey::read(path),
            None => SealKey::read_or_make(&root.join(KEY)),
        };
        let key = key.map_err(OpenError::Key)?;
        let bases = Bases::new(root.join(TEMPLATES), key.clone());
        let (slots, suspended) = (Mutex::default(), Mutex::default());
        let images = Self { root, key, bases, slots, suspended, _lock: lock };
        if images.find_kept()? {
            images.bases.keep_only(&images.used_templates())?;
        }
        Ok(images)
    }

    /// Whether all could be read: else nobody knows which templates they need.
    fn find_kept(&self) -> io::Result<bool> {
        let mut all_read = true;
        for (tenant, tenant_dir) in subdirectories(&self.root)? {
            for (id, dir) in subdirectories(&tenant_dir)? {
                if id.starts_with(UNFINISHED_PREFIX) {
                    remove_tree(&dir)?;
                    continue;
                }
                match self.read_record(&dir, (&tenant, &id)) {
                    Ok(record) => {
                        let (place, record) = ((tenant.clone(), id), Arc::new(record));
                        lock(&self.suspended).insert(place.clone(), Arc::clone(&record));
                        let image = Image { dir, key: self.key.clone(), record };
                        let slot = Arc::new(tokio::sync::Mutex::new(Some(image)));
                        lock(&self.slots).insert(place, slot);
                    }
                    Err(error) => {
                        all_read = false;
                        tracing::warn!(tenant, session = id, %error, "an image that can not be read");
                    }
                }
            }
        }
        Ok(all_read)
    }

    fn read_record(&self, dir: &Path, (tenant, session): (&str, &str)) -> io::Result<Record> {
        let mut text = Vec::new();
        let sealed = File::open(dir.join(RECORD))?;
        self.key.open(sealed, What::Record { tenant, session })?.read_to_end(&mut text)?;
        let record: Record = serde_json::from_slice(&text)?;
        if record.version != VERSION || !dir.join(KERNEL).exists() {
            return Err(io::Error::other("it is of another version, or not whole"));
        }
        Ok(record)
    }

    fn used_templates(&self) -> BTreeSet<(String, Hash)> {
        let suspended = lock(&self.suspended);
        suspended.values().map(|it| (it.info.environment.clone(), it.template)).collect()
    }

    /// Waits until nobody else holds a session's place.
    pub(crate) async fn hold(self: &Arc<Self>, tenant: &str, id: &str) -> Place {
        let key = (tenant.to_owned(), id.to_owned());
        let slot = Arc::clone(lock(&self.slots).entry(key.clone()).or_default());
        Place { images: Arc::clone(self), key, slot: Some(slot.lock_owned().await) }
    }

    /// The same without waiting: `None` if somebody holds it.
    pub(crate) fn try_hold(self: &Arc<Self>, tenant: &str, id: &str) -> Option<Place> {
        let key = (tenant.to_owned(), id.to_owned());
        let slot = Arc::clone(lock(&self.slots).entry(key.clone()).or_default());
        let slot = Some(slot.try_lock_owned().ok()?);
        Some(Place { images: Arc::clone(self), key, slot })
    }

    /// What is known of a session that is suspended.
    pub(crate) fn record(&self, tenant: &str, id: &str) -> Option<Arc<Record>> {
        lock(&self.suspended).get(&(tenant.to_owned(), id.to_owned())).cloned()
    }

    /// The first of a tenant that are suspended and match, after this id.
    pub(crate) fn page(
        &self,
        tenant: &str,
        after: &str,
        limit: usize,
        matches: impl Fn(&Record) -> bool,
    ) -> Vec<Arc<Record>> {
        let suspended = lock(&self.suspended);
        let found = of(&suspended, tenant, after).filter(|record| matches(record));
        found.take(limit).map(Arc::clone).collect()
    }

    /// How many a tenant has, and their bytes.
    pub(crate) fn used_by(&self, tenant: &str) -> (u64, u64) {
        of(&lock(&self.suspended), tenant, "")
            .fold((0, 0), |(count, bytes), record| (count + 1, bytes + record.size_bytes))
    }

    /// The tenants and ids of those whose time is over.
    pub(crate) fn expired(&self, expire_after: Option<Duration>) -> Vec<(String, String)> {
        let suspended = lock(&self.suspended);
        let over = suspended.iter().filter(|(_, record)| record.is_over(expire_after));
        over.map(|(key, _)| key.clone()).collect()
    }

    /// How many each tenant has, and their bytes.
    pub(crate) fn totals(&self) -> BTreeMap<String, (u64, u64)> {
        let mut totals: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for ((tenant, _), record) in &*lock(&self.suspended) {
            let (count, bytes) = totals.entry(tenant.clone()).or_default();
            *count += 1;
            *bytes += record.size_bytes;
        }
        totals
    }

    /// A directory for an image that is being made. Dropped, it is removed.
    pub(crate) fn begin(&self, tenant: &str) -> io::Result<Unfinished> {
        let parent = self.root.join(tenant);
        private_dir::make(&parent)?;
        let dir = tempfile::Builder::new().prefix(UNFINISHED_PREFIX).tempdir_in(parent)?;
        Ok(Unfinished { dir, key: self.key.clone(), image: Uuid::new_v4() })
    }

    /// Puts a whole image in its place: from now on the session is suspended. Blocks.
    pub(crate) fn keep(
        &self,
        (tenant, id): (&str, &str),
        unfinished: Unfinished,
        record: Record,
    ) -> io::Result<Image> {
        let file = File::create_new(unfinished.dir.path().join(RECORD))?;
        let mut sealing = self.key.seal(file, What::Record { tenant, session: id })?;
        sealing.write_all(&serde_json::to_vec(&record)?)?;
        sealing.finish()?.sync_all()?;
        File::open(unfinished.dir.path())?.sync_all()?;
        let parent = self.root.join(tenant);
        let dir = parent.join(id);
        if dir.exists() {
            // What could not be read when the daemon started: this session has its id now.
            remove_tree(&dir)?;
        }
        fs::rename(unfinished.dir.path(), &dir)?;
        // It is not there any more under that name.
        drop(unfinished.dir.keep());
        File::open(parent)?.sync_all()?;
        let (place, record) = ((tenant.to_owned(), id.to_owned()), Arc::new(record));
        lock(&self.suspended).insert(place, Arc::clone(&record));
        Ok(Image { dir, key: unfinished.key, record })
    }

    /// Forgets the place of a session that is not suspended, unless somebody waits there.
    fn forget(&self, key: &Key) {
        let mut slots = lock(&self.slots);
        let is_over = |slot: &Slot| {
            Arc::strong_count(slot) == 1 && slot.try_lock().is_ok_and(|image| image.is_none())
        };
        if slots.get(key).is_some_and(is_over) {
            slots.remove(key);
        }
    }
}

/// Those of a tenant, after this id.
fn of<'m>(
    suspended: &'m BTreeMap<Key, Arc<Record>>,
    tenant: &'m str,
    after: &str,
) -> impl Iterator<Item = &'m Arc<Record>> {
    let after = (tenant.to_owned(), after.to_owned());
    suspended
        .range((Bound::Excluded(after), Bound::Unbounded))
        .take_while(move |((owner, _), _)| owner == tenant)
        .map(|(_, record)| record)
}

fn subdirectories(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && name != TEMPLATES
            && entry.file_type()?.is_dir()
        {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

/// What keeps a session from being suspended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    pub kind: ObstacleKind,
    /// What it is, and what to do about it.
    pub text: String,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An image that is being made, or that is needed for a while only.
#[derive(Debug)]
pub(crate) struct Unfinished {
    dir: tempfile::TempDir,
    key: SealKey,
    image: Uuid,
}

impl Unfinished {
    /// Takes what its kernel writes.
    pub(crate) fn create(&self) -> io::Result<KernelFile> {
        let path = self.dir.path().join(KERNEL);
        Ok(KernelFile { file: File::create_new(path)?, key: self.key.clone(), image: self.image })
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(fs::metadata(self.dir.path().join(KERNEL))?.len())
    }

    /// The image that it is, as long as `self` is there.
    pub(crate) fn image(&self, record: Record) -> Image {
        let (dir, key) = (self.dir.path().to_owned(), self.key.clone());
        Image { dir, key, record: Arc::new(record) }
    }
}

/// An empty file for what a kernel writes.
#[derive(Debug)]
pub(crate) struct KernelFile {
    file: File,
    key: SealKey,
    image: Uuid,
}
