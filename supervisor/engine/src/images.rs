//! Images: sessions that are suspended, below the state directory.
//!
//! ```text
//! images/.lock             held by the daemon that uses the rest
//! images/.key              seals all the rest (seal.rs), unless images.key_file is another
//! images/.templates/ENV/…  what their templates had in memory (bases.rs)
//! images/TENANT/ID/record  what the session is: JSON
//! images/TENANT/ID/kernel  memory and files, as its kernel wrote them (agent/src/image/format.rs): zstd
//! images/.programs/…       the library and kernel program of those (programs.rs)
//! images/.checkpoints/…    what sessions can go back to (checkpoints.rs)
//! images/TENANT/.new-…     being made; removed when a daemon starts
//! ```

pub(crate) mod bases;
mod checkpoints;
mod key_file;
pub(crate) mod names;
mod obstacle;
mod parts;
mod place;
pub(crate) mod portable;
mod programs;
mod record;
mod seal;
pub(crate) mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::fcntl::Flock;
use tokio::sync::Semaphore;
use uuid::Uuid;
use vivarium_audit::Hash;

use self::bases::Bases;
use self::checkpoints::Checkpoints;
pub use self::key_file::{ImageKeyError, check_image_key};
pub(crate) use self::obstacle::Obstacle;
pub(crate) use self::parts::KnownParts;
pub(crate) use self::place::Place;
use self::place::Slot;
use self::programs::Programs;
pub(crate) use self::record::{Content, Image, KernelFile, Record, Unfinished};
use self::seal::{SealKey, What};
use crate::private_dir;
use crate::recover::remove_tree;

/// How many images are held in memory at a time.
const AHEAD_AT_ONCE: usize = 8;

const ROOT: &str = "images";
const TEMPLATES: &str = ".templates";
const PROGRAMS: &str = ".programs";
const CHECKPOINTS: &str = ".checkpoints";
const KEY: &str = ".key";
const RECORD: &str = "record";
const KERNEL: &str = "kernel";
const UNFINISHED_PREFIX: &str = ".new-";

/// A tenant and an id.
type Key = (String, String);

#[derive(Debug)]
pub(crate) struct Images {
    root: PathBuf,
    key: SealKey,
    pub(crate) bases: Bases,
    pub(crate) programs: Programs,
    pub(crate) checkpoints: Checkpoints,
    slots: Mutex<BTreeMap<Key, Slot>>,
    /// What lists show, by the same keys.
    suspended: Mutex<BTreeMap<Key, Arc<Record>>>,
    /// Each is the right to hold an image in memory while it is put into parts.
    pub(crate) ahead: Arc<Semaphore>,
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

    /// Takes the directory, with what an earlier daemon left there; `library` is kept for images. Blocks.
    pub(crate) fn open(
        state_dir: &Path,
        key_file: Option<&Path>,
        library: Option<Arc<OwnedFd>>,
    ) -> Result<Self, OpenError> {
        let root = state_dir.join(ROOT);
        private_dir::make(&root)?;
        let lock = private_dir::lock(&root)?.ok_or(OpenError::InUse)?;
        let key = match key_file {
            Some(path) => SealKey::read(path),
            None => SealKey::read_or_make(&root.join(KEY)),
        };
        let key = key.map_err(OpenError::Key)?;
        let bases = Bases::new(root.join(TEMPLATES), key.clone());
        let keeps_programs = library.is_some();
        let programs = Programs::new(root.join(PROGRAMS), key.clone(), library);
        let checkpoints = Checkpoints::new(root.join(CHECKPOINTS), key.clone());
        let (slots, suspended) = (Mutex::default(), Mutex::default());
        let ahead = Arc::new(Semaphore::new(AHEAD_AT_ONCE));
        let images =
            Self { root, key, bases, programs, checkpoints, slots, suspended, ahead, _lock: lock };
        let all_read = images.find_kept()?;
        let has_ended = |tenant: &str, id: &str| all_read && images.record(tenant, id).is_none();
        if images.checkpoints.find_kept(has_ended)? && all_read {
            images.bases.keep_only(&images.used_templates())?;
            let used = images.records().filter_map(|record| record.programs);
            images.programs.keep_only(&used.filter(|_| keeps_programs).collect())?;
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
                let what = What::Record { tenant: &tenant, session: &id };
                match Record::read(&dir, &self.key, what) {
                    Ok(record) => {
                        let (place, record) = ((tenant.clone(), id), Arc::new(record));
                        lock(&self.suspended).insert(place.clone(), Arc::clone(&record));
                        let image = Image::new(dir, self.key.clone(), record);
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

    fn used_templates(&self) -> BTreeSet<(String, Hash)> {
        self.records().map(|it| (it.info.environment.clone(), it.template)).collect()
    }

    /// Of all images.
    fn records(&self) -> impl Iterator<Item = Arc<Record>> {
        let suspended = lock(&self.suspended).values().cloned().collect::<Vec<_>>();
        suspended.into_iter().chain(self.checkpoints.records())
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
        let all = of(&lock(&self.suspended), tenant, after).cloned().collect::<Vec<_>>();
        all.into_iter().filter(|record| matches(record)).take(limit).collect()
    }

    /// How many a tenant has, checkpoints too, and their bytes.
    pub(crate) fn used_by(&self, tenant: &str) -> (u64, u64) {
        let suspended = of(&lock(&self.suspended), tenant, "").cloned().collect::<Vec<_>>();
        let checkpoints = self.checkpoints.used_by(tenant);
        suspended
            .iter()
            .fold(checkpoints, |(count, bytes), record| (count + 1, bytes + record.size_bytes))
    }

    /// The tenants and ids of those whose time is over.
    pub(crate) fn expired(&self, expire_after: Option<Duration>) -> Vec<(String, String)> {
        let suspended = lock(&self.suspended);
        let over = suspended.iter().filter(|(_, record)| record.is_over(expire_after));
        over.map(|(key, _)| key.clone()).collect()
    }

    /// How many each tenant has, checkpoints too, and their bytes.
    pub(crate) fn totals(&self) -> BTreeMap<String, (u64, u64)> {
        let mut tenants: BTreeSet<_> = self.checkpoints.tenants().into_iter().collect();
        tenants.extend(lock(&self.suspended).keys().map(|(tenant, _)| tenant.clone()));
        tenants.into_iter().map(|tenant| (tenant.clone(), self.used_by(&tenant))).collect()
    }

    /// A directory for an image that is being made. Dropped, it is removed.
    pub(crate) fn begin(&self, tenant: &str) -> io::Result<Unfinished> {
        let parent = self.root.join(tenant);
        private_dir::make(&parent)?;
        let dir = tempfile::Builder::new().prefix(UNFINISHED_PREFIX).tempdir_in(parent)?;
        Ok(Unfinished { dir, key: self.key.clone(), image: Uuid::new_v4() })
    }

    /// The same with the content of an image that there is, and what its record says then. Blocks.
    pub(crate) fn begin_with(
        &self,
        tenant: &str,
        image: &Image,
    ) -> io::Result<(Unfinished, Record)> {
        let mut unfinished = self.begin(tenant)?;
        if image.record.parts.is_some() {
            let record = image.write_whole(&unfinished)?;
            return Ok((unfinished, record));
        }
        unfinished.image = image.record.image;
        fs::hard_link(image.dir.join(KERNEL), unfinished.dir.path().join(KERNEL))?;
        Ok((unfinished, Record::clone(&image.record)))
    }

    /// Puts a whole image in its place: from now on the session is suspended. Blocks.
    pub(crate) fn keep(
        &self,
        (tenant, id): (&str, &str),
        unfinished: Unfinished,
        record: Record,
    ) -> io::Result<Image> {
        // They are the session's, which outlives the host from now on.
        self.checkpoints.sync(tenant, id)?;
        unfinished.finish(What::Record { tenant, session: id }, &record)?;
        record::sync(unfinished.dir.path())?;
        let dir = self.root.join(tenant).join(id);
        if dir.exists() {
            // One that could not be read when the daemon started: this session has its id now.
            remove_tree(&put_aside(&dir, &self.root.join(tenant))?)?;
        }
        unfinished.move_to(&dir)?;
        if let Err(error) = record::sync(&dir) {
            remove_tree(&dir)?;
            return Err(error);
        }
        let (place, record) = ((tenant.to_owned(), id.to_owned()), Arc::new(record));
        lock(&self.suspended).insert(place, Arc::clone(&record));
        Ok(Image::new(dir, self.key.clone(), record))
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

/// Takes a directory out of its place at once, so that whoever is killed leaves no half of it there; to be removed
/// from where it is then. What this leaves the next start removes.
fn put_aside(dir: &Path, of_tenant: &Path) -> io::Result<PathBuf> {
    let aside = of_tenant.join(format!("{UNFINISHED_PREFIX}{}", Uuid::new_v4()));
    fs::rename(dir, &aside)?;
    Ok(aside)
}

fn subdirectories(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && ![TEMPLATES, CHECKPOINTS].contains(&name.as_str())
            && entry.file_type()?.is_dir()
        {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}
