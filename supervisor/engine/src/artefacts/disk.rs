//! The directories and records of built environments, all of them the daemon's own.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::fcntl::Flock;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Artefact, ArtefactError, ArtefactRecord, NameRecord, OPERATOR, Owner};
use crate::private_dir;
use crate::stores::is_plain;

pub(super) const ROOT: &str = "environments";

/// What sessions see.
pub(super) const DATA: &str = "data";

const RECORD: &str = "record.json";
const STAGING: &str = "staging";
const DELETED: &str = "deleted";
const ARTEFACTS: &str = "artefacts";
const NAMES: &str = "names";
const BUILDS: &str = "builds";

/// The files of builds, two of each, that are kept of names without an environment.
const FAILED_KEPT: usize = 32;

/// The last build of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BuildRecord {
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    /// Why there is nothing new; none if there is, or it goes on.
    pub(crate) error: Option<String>,
    /// What came of it.
    pub(crate) artefact: Option<String>,
}

fn failed<'a>(
    operation: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> ArtefactError + use<'a> {
    move |source| ArtefactError::Io { operation, path: path.to_owned(), source }
}

pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn make_private(dir: &Path) -> Result<(), ArtefactError> {
    private_dir::make(dir).map_err(failed("make", dir))
}

/// The directory of an owner, a name of which is checked before it becomes part of a path.
fn of_owner(root: &Path, owner: &Owner, part: &'static str) -> Result<PathBuf, ArtefactError> {
    let plain = owner.tenant().is_none_or(is_plain);
    let dir = root.join(if plain { owner.dir() } else { "" }).join(part);
    if plain {
        make_private(&dir)?;
        Ok(dir)
    } else {
        Err(failed("name", &dir)(io::ErrorKind::InvalidInput.into()))
    }
}

fn of_name(
    root: &Path,
    owner: &Owner,
    part: &'static str,
    name: &str,
    ends: &str,
) -> Result<PathBuf, ArtefactError> {
    let dir = of_owner(root, owner, part)?;
    if is_plain(name) {
        Ok(dir.join(format!("{name}{ends}")))
    } else {
        Err(failed("name", &dir)(io::ErrorKind::InvalidInput.into()))
    }
}

/// Makes the directory if it is missing, and locks it; `None` if another process has.
pub(super) fn lock(root: &Path) -> Result<Option<Flock<File>>, ArtefactError> {
    for dir in [root.to_owned(), root.join(STAGING), root.join(DELETED)] {
        make_private(&dir)?;
    }
    private_dir::lock(root).map_err(failed("lock", root))
}

/// The entries of a directory, by name; none if there is none.
fn entries(dir: &Path) -> Result<Vec<(String, PathBuf)>, ArtefactError> {
    let read = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(failed("list", dir))?,
    };
    let mut found = Vec::new();
    for entry in read {
        let entry = entry.map_err(failed("list", dir))?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn owners(root: &Path) -> Result<Vec<(Owner, PathBuf)>, ArtefactError> {
    let owner = |(name, dir): (String, PathBuf)| match name.as_str() {
        OPERATOR => Some((Owner::Operator, dir)),
        STAGING | DELETED => None,
        name if is_plain(name) && dir.is_dir() => Some((Owner::Tenant(name.to_owned()), dir)),
        _ => None,
    };
    Ok(entries(root)?.into_iter().filter_map(owner).collect())
}

/// What can be read of a record; what can not is told, and is as if it were not there.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        read => read,
    };
    let read = text.and_then(|text| Ok(serde_json::from_slice(&text)?));
    match read {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::error!(%error, path = %path.display(), "a record of an environment can not be read");
            None
        }
    }
}

/// Writes a record as a whole or not at all, and onto the disk.
fn write(path: &Path, text: &[u8]) -> Result<(), ArtefactError> {
    let new = path.with_extension("new");
    let written = || {
        let mut file = OpenOptions::new();
        let mut file = file.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    };
    written().map_err(failed("write", path))
}

fn json<T: Serialize>(path: &Path, record: &T) -> Result<Vec<u8>, ArtefactError> {
    serde_json::to_vec(record).map_err(|error| failed("write", path)(error.into()))
}

pub(super) fn artefacts(root: &Path) -> Result<Vec<(Owner, Artefact)>, ArtefactError> {
    let mut found = Vec::new();
    for (owner, dir) in owners(root)? {
        for (hash, dir) in entries(&dir.join(ARTEFACTS))? {
            let record: Option<ArtefactRecord> = read(&dir.join(RECORD));
            let own = record.filter(|record| is_hash(&hash) && record.hash == hash);
            found.extend(own.map(|record| (owner.clone(), Artefact { record, dir })));
        }
    }
    Ok(found)
}

pub(super) fn names(root: &Path) -> Result<Vec<(Owner, String, NameRecord)>, ArtefactError> {
    let mut found = Vec::new();
    for (owner, dir) in owners(root)? {
        for (file, path) in entries(&dir.join(NAMES))? {
            let name = file.strip_suffix(".json").filter(|name| is_plain(name));
            let record = name.and_then(|name| Some((name.to_owned(), read(&path)?)));
            found.extend(record.map(|(name, record)| (owner.clone(), name, record)));
        }
    }
    Ok(found)
}

/// What was being built or removed.
pub(super) fn leftovers(root: &Path) -> Result<Vec<PathBuf>, ArtefactError> {
    let mut all = entries(&root.join(STAGING))?;
    all.extend(entries(&root.join(DELETED))?);
    Ok(all.into_iter().map(|(_, dir)| dir).collect())
}

fn fresh(root: &Path, part: &str) -> PathBuf {
    root.join(part).join(uuid::Uuid::new_v4().simple().to_string())
}

pub(super) fn make_staging(root: &Path) -> Result<PathBuf, ArtefactError> {
    let dir = fresh(root, STAGING);
    make_private(&dir.join(DATA))?;
    Ok(dir)
}

/// Has a sealed build become an artefact: there as a whole, or not at all.
pub(super) fn move_in(
    root: &Path,
    staging: &Path,
    owner: &Owner,
    record: &ArtefactRecord,
) -> Result<PathBuf, ArtefactError> {
    let path = staging.join(RECORD);
    write(&path, &json(&path, record)?)?;
    let artefacts = of_owner(root, owner, ARTEFACTS)?;
    let dir = artefacts.join(&record.hash);
    if dir.exists() {
        // The same files, of which less was known. Sessions that have them keep them.
        put_aside(root, &dir)?;
    }
    fs::rename(staging, &dir).map_err(failed("move in", &dir))?;
    let synced = File::open(&artefacts).and_then(|dir| {
        nix::unistd::syncfs(&dir)?;
        dir.sync_all()
    });
    synced.map_err(failed("sync", &artefacts))?;
    Ok(dir)
}

pub(super) fn write_name(
    root: &Path,
    owner: &Owner,
    name: &str,
    record: &NameRecord,
) -> Result<(), ArtefactError> {
    let path = of_name(root, owner, NAMES, name, ".json")?;
    write(&path, &json(&path, record)?)
}

pub(super) fn remove_name(root: &Path, owner: &Owner, name: &str) -> Result<(), ArtefactError> {
    let path = of_name(root, owner, NAMES, name, ".json")?;
    fs::remove_file(&path).map_err(failed("remove", &path))
}

/// Gives a directory a name that no session finds.
pub(super) fn put_aside(root: &Path, dir: &Path) -> Result<PathBuf, ArtefactError> {
    let aside = fresh(root, DELETED);
    fs::rename(dir, &aside).map_err(failed("put aside", dir))?;
    Ok(aside)
}

/// Removes a directory whose `data` is empty.
pub(super) fn remove(dir: &Path) -> Result<(), ArtefactError> {
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed("remove", dir)),
    };
    gone(fs::remove_dir(dir.join(DATA)))?;
    gone(fs::remove_file(dir.join(RECORD)))?;
    gone(fs::remove_file(dir.join("record.new")))?;
    gone(fs::remove_dir(dir))
}

pub(super) fn write_build(
    root: &Path,
    owner: &Owner,
    name: &str,
    record: &BuildRecord,
    log: Option<&str>,
) -> Result<(), ArtefactError> {
    if let Some(log) = log {
        write(&of_name(root, owner, BUILDS, name, ".log")?, log.as_bytes())?;
    }
    let path = of_name(root, owner, BUILDS, name, ".json")?;
    write(&path, &json(&path, record)?)
}

/// Forgets the oldest builds of names that are none of these: there may be any number of those.
pub(super) fn forget_builds(
    root: &Path,
    owner: &Owner,
    names: &BTreeSet<String>,
) -> Result<(), ArtefactError> {
    let mut others: Vec<_> = entries(&of_owner(root, owner, BUILDS)?)?
        .into_iter()
        .filter(|(file, _)| file.split('.').next().is_none_or(|name| !names.contains(name)))
        .filter_map(|(_, path)| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    others.sort();
    let surplus = others.len().saturating_sub(FAILED_KEPT);
    for (_, path) in others.into_iter().take(surplus) {
        fs::remove_file(&path).map_err(failed("remove", &path))?;
    }
    Ok(())
}

pub(super) fn read_build(root: &Path, owner: &Owner, name: &str) -> Option<BuildRecord> {
    read(&of_name(root, owner, BUILDS, name, ".json").ok()?)
}

pub(super) fn read_log(root: &Path, owner: &Owner, name: &str) -> Option<String> {
    let log = fs::read(of_name(root, owner, BUILDS, name, ".log").ok()?).ok()?;
    Some(String::from_utf8_lossy(&log).into_owned())
}
