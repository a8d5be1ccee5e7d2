//! Directories of wheels and source archives that the operator names.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::fetch::FetchError;
use crate::hash::{Hash, Hasher};
use crate::name;
use crate::page::File;

/// What tells whether a file is the one that was hashed.
type Stamp = (u64, SystemTime);

/// The hashes of files in directories of the operator's, each computed once.
#[derive(Debug, Default)]
pub struct Links {
    hashes: Mutex<BTreeMap<PathBuf, (Stamp, Hash)>>,
}

impl Links {
    /// The files of a project, each with the path where it is. An earlier directory comes first.
    ///
    /// # Errors
    /// A directory cannot be read. What would be there must not be looked for elsewhere.
    pub async fn files(
        &self,
        directories: &[PathBuf],
        project: &str,
    ) -> Result<Vec<(File, PathBuf)>, FetchError> {
        let mut found: BTreeMap<String, (File, PathBuf)> = BTreeMap::new();
        for directory in directories {
            for path in entries(directory).map_err(|error| FetchError::Links(error.kind()))? {
                let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
                if name::project_of(name).as_deref() != Some(project) || found.contains_key(name) {
                    continue;
                }
                // A file that goes away meanwhile is none.
                let Ok(hash) = self.hash(&path).await else { continue };
                let file = File {
                    name: name.to_owned(),
                    url: None,
                    hash: Some(hash),
                    metadata: None,
                    requires_python: None,
                    yanked: None,
                };
                found.insert(name.to_owned(), (file, path));
            }
        }
        Ok(found.into_values().collect())
    }

    async fn hash(&self, path: &Path) -> io::Result<Hash> {
        let mut file = fs::File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let stamp = (about.len(), about.modified()?);
        if let Some((_, hash)) = self.lock().get(path).filter(|(at, _)| *at == stamp) {
            return Ok(hash.clone());
        }
        let (mut hasher, mut buffer) = (Hasher::like(None), vec![0; 1 << 18]);
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => hasher.update(buffer.get(..count).unwrap_or_default()),
            }
            // A large file is not to hold others' connections up.
            tokio::task::yield_now().await;
        }
        let hash = hasher.finish();
        self.lock().insert(path.to_owned(), (stamp, hash.clone()));
        Ok(hash)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, (Stamp, Hash)>> {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
}
