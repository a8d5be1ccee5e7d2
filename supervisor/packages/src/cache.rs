//! Files from upstream, on disk: each tenant's in a directory of its own, under the hash that they were
//! verified by. Only the gate writes it, and one gate alone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::{Builder, TempPath};
use vivarium_protocol::discard;

use crate::fetch::{Body, FetchError};
use crate::hash::{Hash, Hasher};

/// What the name of a file that is being written begins with.
const UNFINISHED: &str = ".new-";

/// How often, in bytes, a file that is being written is counted; an eighth of a small cache.
const STEP_BYTES: u64 = 8 << 20;

/// A file to be sent.
#[derive(Debug)]
pub struct Stored {
    /// Open at its start.
    pub file: File,
    /// Its length.
    pub bytes: u64,
    /// Its name, if it is not kept: it goes with this.
    _unkept: Option<TempPath>,
}

impl Stored {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { bytes: about.len(), file, _unkept: None })
    }
}

/// The file that whoever has the cache has locked.
const LOCK: &str = "lock";

/// The cache of all tenants.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
    max_bytes: u64,
    _lock: File,
}

impl Cache {
    /// The cache in `dir`, which has to be there, and may have `max_bytes`. What another left unfinished is
    /// removed.
    ///
    /// # Errors
    /// The directory cannot be read or written; [`io::ErrorKind::WouldBlock`] if another has it.
    pub fn open(dir: &Path, max_bytes: u64) -> io::Result<Self> {
        let lock = File::create(dir.join(LOCK))?;
        lock.try_lock()?;
        let cache = Self { dir: dir.to_owned(), max_bytes, _lock: lock };
        for entry in cache.entries()? {
            if entry.is_unfinished {
                fs::remove_file(&entry.path)?;
            }
        }
        Ok(cache)
    }

    /// The file with this hash, if the tenant's part has it.
    #[must_use]
    pub fn find(&self, tenant: &str, hash: &Hash) -> Option<Stored> {
        let stored = Stored::open(&self.path(tenant, hash)).ok()?;
        // What was not asked for in the longest time goes first.
        discard(stored.file.set_modified(SystemTime::now()), "it then goes sooner");
        Some(stored)
    }

    /// Writes what comes, and keeps it if it has the `hash`. Without one it is not kept.
    ///
    /// # Errors
    /// [`FetchError`]; nothing is left of it then.
    pub async fn store(
        &self,
        tenant: &str,
        hash: Option<&Hash>,
        mut body: impl Body,
    ) -> Result<Stored, FetchError> {
        let dir = self.tenant_dir(tenant);
        fs::create_dir_all(&dir).map_err(failed)?;
        let new = Builder::new().prefix(UNFINISHED).tempfile_in(&dir).map_err(failed)?;
        let (mut file, path) = new.into_parts();
        let (mut hasher, mut bytes, mut counted) = (Hasher::like(hash), 0_u64, 0_u64);
        while let Some(next) = body.next().await? {
            hasher.update(&next);
            let len = u64::try_from(next.len()).unwrap_or(u64::MAX);
            bytes = bytes.saturating_add(len);
            if bytes > counted {
                counted = bytes.saturating_add(self.step_bytes());
                self.make_room(&dir, self.step_bytes().saturating_add(len)).map_err(failed)?;
            }
            if bytes > self.tenant_max() {
                return Err(FetchError::TooLong(self.tenant_max()));
            }
            file.write_all(&next).map_err(failed)?;
        }
        if hash.is_some_and(|hash| *hash != hasher.finish()) {
            return Err(FetchError::Hash);
        }
        file.rewind().map_err(failed)?;
        let Some(hash) = hash else {
            return Ok(Stored { file, bytes, _unkept: Some(path) });
        };
        path.persist(self.path(tenant, hash)).map_err(|error| failed(error.error))?;
        Ok(Stored { file, bytes, _unkept: None })
    }

    fn step_bytes(&self) -> u64 {
        STEP_BYTES.min(self.max_bytes / 8)
    }

    fn tenant_dir(&self, tenant: &str) -> PathBuf {
        // No name of a tenant's is a path.
        self.dir.join(Hash::sha256(tenant.as_bytes()).hex)
    }

    fn path(&self, tenant: &str, hash: &Hash) -> PathBuf {
        self.tenant_dir(tenant).join(format!("{}-{}", hash.algorithm, hash.hex))
    }

    /// The most that a tenant may have unfinished: half, so that others have room meanwhile.
    const fn tenant_max(&self) -> u64 {
        self.max_bytes / 2
    }

    /// Makes room for so much more of a tenant. The tenant that has most gives first, what it did not ask for
    /// in the longest time: a flood takes little from who has little.
    fn make_room(&self, dir: &Path, bytes: u64) -> io::Result<()> {
        let mut parts: BTreeMap<PathBuf, Part> = BTreeMap::new();
        for entry in self.entries()? {
            let part =
                parts.entry(entry.path.parent().unwrap_or(&self.dir).to_owned()).or_default();
            part.bytes = part.bytes.saturating_add(entry.bytes);
            if entry.is_unfinished {
                part.unfinished = part.unfinished.saturating_add(entry.bytes);
            } else {
                part.finished.push(entry);
            }
        }
        for part in parts.values_mut() {
            part.finished.sort_by_key(|entry| std::cmp::Reverse(entry.used_at));
        }
        let unfinished = parts.get(dir).map_or(0, |part| part.unfinished);
        if unfinished.saturating_add(bytes) > self.tenant_max().saturating_add(self.step_bytes()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        loop {
            let used = parts.values().map(|part| part.bytes).fold(0, u64::saturating_add);
            if used.saturating_add(bytes) <= self.max_bytes {
                return Ok(());
            }
            let giving = parts.values_mut().filter(|part| !part.finished.is_empty());
            let Some(part) = giving.max_by_key(|part| part.bytes) else {
                return Err(io::ErrorKind::StorageFull.into());
            };
            if let Some(oldest) = part.finished.pop() {
                fs::remove_file(&oldest.path)?;
                part.bytes = part.bytes.saturating_sub(oldest.bytes);
            }
        }
    }

    fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        for tenant in fs::read_dir(&self.dir)? {
            let tenant = tenant?.path();
            if !tenant.is_dir() {
                continue;
            }
            for entry in fs::read_dir(&tenant)? {
                let entry = entry?;
                // It may be gone by now.
                let Ok(about) = entry.metadata() else { continue };
                found.push(Entry {
                    path: entry.path(),
                    bytes: about.len(),
                    used_at: about.modified()?,
                    is_unfinished: entry.file_name().to_string_lossy().starts_with(UNFINISHED),
                });
            }
        }
        Ok(found)
    }
}

/// What a tenant has.
#[derive(Default)]
struct Part {
    bytes: u64,
    unfinished: u64,
    /// What was asked for last comes first.
    finished: Vec<Entry>,
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    used_at: SystemTime,
    is_unfinished: bool,
}

fn failed(error: io::Error) -> FetchError {
    FetchError::Cache(error.to_string())
}
