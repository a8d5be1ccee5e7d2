//! The directories and records of homes and volumes, all of them the daemon's own.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use nix::fcntl::Flock;
use serde::{Deserialize, Serialize};
use vivarium_protocol::policy::SubordinateIds;

use super::StoreKey;
use crate::private_dir;

/// The longest name of a tenant, session or volume.
const MAX_NAME_BYTES: usize = 64;

/// Whether a name is one of those that can be a part of a path and nothing else, whoever checked it
/// before.
pub(crate) fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(plain)
}

/// What sessions see.
pub(super) const DATA: &str = "data";

const RECORD: &str = "record.json";
const IDS: &str = "ids.json";
const SESSION: &str = "session-";
const VOLUME: &str = "volume-";
const TENANT: &str = "tenant";

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    created_at: Timestamp,
}

/// What is there when a daemon starts.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) stores: Vec<(String, StoreKey, PathBuf)>,
    pub(super) pairs: Vec<(String, SubordinateIds)>,
    /// What was being made or removed.
    pub(super) leftovers: Vec<PathBuf>,
}

fn make_private(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Makes the directory if it is missing, and locks it; `None` if another process has.
pub(super) fn lock(root: &Path) -> io::Result<Option<Flock<File>>> {
    make_private(root)?;
    private_dir::lock(root)
}

/// Looks through the directory. What has a name that is none of ours is left alone.
pub(super) fn scan(root: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let Ok(tenant) = entry.file_name().into_string() else { continue };
        if !is_plain(&tenant) || !entry.file_type()?.is_dir() {
            continue;
        }
        for entry in fs::read_dir(entry.path())? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with(".new-") || name.starts_with(".deleted-") {
                found.leftovers.push(entry.path());
            } else if let Some(key) = key_of(&name) {
                found.stores.push((tenant.clone(), key, entry.path()));
            } else if name == IDS {
                let ids: Option<(u32, u32)> =
                    fs::read(entry.path()).ok().and_then(|text| serde_json::from_slice(&text).ok());
                let pair = ids.map(|(agent, kernel)| SubordinateIds { agent, kernel });
                found.pairs.extend(pair.map(|pair| (tenant.clone(), pair)));
            }
        }
    }
    Ok(found)
}

fn key_of(name: &str) -> Option<StoreKey> {
    let valid = |name: &str| is_plain(name).then(|| name.to_owned());
    if name == TENANT {
        Some(StoreKey::Tenant)
    } else if let Some(id) = name.strip_prefix(SESSION) {
        valid(id).map(StoreKey::Session)
    } else {
        valid(name.strip_prefix(VOLUME)?).map(StoreKey::Volume)
    }
}

fn name_of(key: &StoreKey) -> String {
    match key {
        StoreKey::Tenant => TENANT.to_owned(),
        StoreKey::Session(id) => format!("{SESSION}{id}"),
        StoreKey::Volume(name) => format!("{VOLUME}{name}"),
    }
}

/// Makes a home or volume: there as a whole, or not at all.
pub(super) fn make(root: &Path, tenant: &str, key: &StoreKey) -> io::Result<PathBuf> {
    // They become names in a directory.
    if !is_plain(tenant) || key_of(&name_of(key)).as_ref() != Some(key) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain name"));
    }
    let of_tenant = root.join(tenant);
    make_private(&of_tenant)?;
    let new = of_tenant.join(format!(".new-{}", uuid::Uuid::new_v4().simple()));
    let dir = of_tenant.join(name_of(key));
    make_private(&new)?;
    make_private(&new.join(DATA))?;
    let record = serde_json::to_vec(&Record { created_at: Timestamp::now() })?;
    fs::write(new.join(RECORD), record)?;
    fs::rename(&new, &dir)?;
    Ok(dir)
}

/// Records the ids of a tenant's sessions. On the disk before anything belongs to them.
pub(super) fn write_pair(root: &Path, tenant: &str, pair: SubordinateIds) -> io::Result<()> {
    if !is_plain(tenant) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain name"));
    }
    let of_tenant = root.join(tenant);
    make_private(&of_tenant)?;
    let new = of_tenant.join(".ids");
    let mut file = File::create(&new)?;
    file.write_all(&serde_json::to_vec(&(pair.agent, pair.kernel))?)?;
    file.sync_all()?;
    fs::rename(&new, of_tenant.join(IDS))
}

pub(super) fn created_at(dir: &Path) -> Timestamp {
    let record = fs::read(dir.join(RECORD)).ok();
    let record = record.and_then(|text| serde_json::from_slice::<Record>(&text).ok());
    record.map_or_else(Timestamp::now, |record| record.created_at)
}

pub(super) fn last_used(dir: &Path) -> SystemTime {
    let modified = fs::metadata(dir.join(RECORD)).and_then(|record| record.modified());
    modified.unwrap_or_else(|_| SystemTime::now())
}

/// Notes that it is used now.
pub(super) fn touch(dir: &Path) -> io::Result<()> {
    File::options().append(true).open(dir.join(RECORD))?.set_modified(SystemTime::now())
}

/// Gives a home or volume a name that no session finds.
pub(super) fn put_aside(dir: &Path) -> io::Result<PathBuf> {
    let aside = dir.with_file_name(format!(".deleted-{}", uuid::Uuid::new_v4().simple()));
    fs::rename(dir, &aside)?;
    Ok(aside)
}

/// Removes a directory whose `data` is empty.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    gone(fs::remove_dir(dir.join(DATA)))?;
    gone(fs::remove_file(dir.join(RECORD)))?;
    gone(fs::remove_dir(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_found_and_what_was_on_its_way_is_named() {
        let state = tempfile::tempdir().unwrap();
        let root = state.path().join("homes");
        let lock = lock(&root).unwrap();
        assert!(lock.is_some() && super::lock(&root).unwrap().is_none(), "one daemon at a time");
        let keys =
            [StoreKey::Tenant, StoreKey::Session("a".into()), StoreKey::Volume("tenant".into())];
        for key in &keys {
            let dir = make(&root, "t", key).unwrap();
            assert!(dir.join(DATA).is_dir());
            assert!(make(&root, "t", key).is_err(), "nothing is made over another");
        }
        let pair = SubordinateIds { agent: 5, kernel: 6 };
        write_pair(&root, "t", pair).unwrap();
        put_aside(&make(&root, "t", &StoreKey::Session("b".into())).unwrap()).unwrap();
        // None of ours.
        fs::create_dir_all(root.join("t/session-../x")).unwrap();
        fs::create_dir_all(root.join("not plain/tenant")).unwrap();
        let found = scan(&root).unwrap();
        let mut names: Vec<_> = found.stores.iter().map(|(_, key, _)| key.clone()).collect();
        names.retain(|key| keys.contains(key));
        names.sort();
        assert_eq!(names, keys);
        assert_eq!(found.pairs, [("t".to_owned(), pair)]);
        // Those that could not be made because there is one, and the one that was put aside.
        assert_eq!(found.leftovers.len(), 4);
        assert!(!found.stores.iter().any(|(tenant, ..)| tenant == "not plain"));
    }

    #[test]
    fn no_name_leads_out_of_its_directory() {
        let state = tempfile::tempdir().unwrap();
        for name in ["", ".", "..", "a/b", "../x", "a\0", "é", &"x".repeat(65)] {
            assert!(make(state.path(), "t", &StoreKey::Session(name.into())).is_err(), "{name:?}");
            assert!(make(state.path(), name, &StoreKey::Tenant).is_err(), "{name:?}");
        }
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_removed_one_leaves_nothing() {
        let state = tempfile::tempdir().unwrap();
        let dir = make(state.path(), "t", &StoreKey::Tenant).unwrap();
        let aside = put_aside(&dir).unwrap();
        fs::write(aside.join(DATA).join("f"), "").unwrap();
        assert!(remove(&aside).is_err(), "it is not empty");
        fs::remove_file(aside.join(DATA).join("f")).unwrap();
        remove(&aside).unwrap();
        remove(&aside).unwrap();
        assert_eq!(fs::read_dir(state.path().join("t")).unwrap().count(), 0);
    }
}
