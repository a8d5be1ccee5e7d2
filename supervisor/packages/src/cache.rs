//! Files from upstream, on disk: each tenant's in a directory of its own, under the hash that they were
//! verified by. Only the gate writes it.

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

/// The cache of all tenants.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
    max_bytes: u64,
}

impl Cache {
    /// The cache in `dir`, which has to be there, and may have `max_bytes`. What another left unfinished is
    /// removed.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn open(dir: &Path, max_bytes: u64) -> io::Result<Self> {
        let cache = Self { dir: dir.to_owned(), max_bytes };
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
            bytes = bytes.saturating_add(u64::try_from(next.len()).unwrap_or(u64::MAX));
            if bytes > counted {
                counted = bytes.saturating_add(self.step_bytes());
                self.make_room(self.step_bytes()).map_err(failed)?;
            }
            if bytes > self.max_bytes {
                return Err(FetchError::TooLong(self.max_bytes));
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

    /// Removes the files that were not asked for in the longest time, until there is room for so much.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut entries = self.entries()?;
        let mut used = entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add);
        entries.sort_by_key(|entry| entry.used_at);
        for entry in entries.iter().filter(|entry| !entry.is_unfinished) {
            if used.saturating_add(bytes) <= self.max_bytes {
                return Ok(());
            }
            fs::remove_file(&entry.path)?;
            used = used.saturating_sub(entry.bytes);
        }
        if used.saturating_add(bytes) <= self.max_bytes {
            return Ok(());
        }
        Err(io::ErrorKind::StorageFull.into())
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

struct Entry {
    path: PathBuf,
    bytes: u64,
    used_at: SystemTime,
    is_unfinished: bool,
}

fn failed(error: io::Error) -> FetchError {
    FetchError::Cache(error.to_string())
}
