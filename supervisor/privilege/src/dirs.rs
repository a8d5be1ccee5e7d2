//! The daemon's directories.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use nix::unistd::Uid;

use crate::{Account, PrivilegeError};

/// Creates the directory `path` with `mode` for `account` (or the current user), or checks that it is
/// theirs. An existing directory never changes its owner: it may hold another user's files.
pub fn ensure(
    key: &'static str,
    path: &Path,
    mode: u32,
    account: Option<&Account>,
) -> Result<(), PrivilegeError> {
    let error = |why: String| PrivilegeError::Directory { key, path: path.to_owned(), why };
    let owner = account.map_or_else(Uid::effective, |account| account.uid);
    match make(path, mode) {
        Ok(()) => {
            if let Some(account) = account {
                let (uid, gid) = (account.uid.as_raw(), account.gid.as_raw());
                std::os::unix::fs::lchown(path, Some(uid), Some(gid)).map_err(|source| {
                    error(format!("cannot give it to {}: {source}", account.name))
                })?;
            }
            Ok(())
        }
        Err(made) if made.kind() == io::ErrorKind::AlreadyExists => {
            // Links are not followed: in a directory that others can write to, one is a trap.
            let found = fs::symlink_metadata(path).map_err(|e| error(e.to_string()))?;
            if !found.is_dir() {
                return Err(error("is there and is not a directory".to_owned()));
            }
            if found.uid() != owner.as_raw() {
                return Err(error(format!(
                    "belongs to the user id {}, not to {owner}: change its owner, or name another",
                    found.uid()
                )));
            }
            if found.mode() & 0o022 != 0 {
                return Err(error("others can write to it: chmod go-w".to_owned()));
            }
            Ok(())
        }
        Err(made) => Err(error(format!("cannot be made: {made}"))),
    }
}

fn make(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        // Missing parents are searchable by all and writable by their owner.
        DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
    }
    DirBuilder::new().mode(mode).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn why(path: &Path) -> String {
        ensure("server.state_dir", path, 0o700, None).unwrap_err().to_string()
    }

    #[test]
    fn directory_is_created_once_and_then_reused() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b");
        ensure("server.state_dir", &path, 0o700, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        ensure("server.state_dir", &path, 0o700, None).unwrap();
    }

    #[test]
    fn links_files_and_open_directories_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(temp.path(), &link).unwrap();
        assert!(why(&link).contains("is not a directory"));
        let file = temp.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(why(&file).contains("is not a directory"));
        let open = temp.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(why(&open).contains("others can write"));
    }

    #[test]
    fn directory_of_another_user_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let other = Account {
            name: "other".into(),
            uid: Uid::from_raw(Uid::effective().as_raw() + 1),
            gid: nix::unistd::Gid::from_raw(1),
        };
        let error = ensure("server.state_dir", temp.path(), 0o700, Some(&other)).unwrap_err();
        assert!(error.to_string().contains("belongs to the user id"), "{error}");
    }
}
