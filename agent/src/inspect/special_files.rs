//! Which of the host's trees hold sockets or FIFOs.
//!
//! Neither a read-only mount nor Landlock before its ABI 9 keeps anybody from connecting to a
//! socket that has a path, or from opening a FIFO: it takes the inode's write permission and no
//! more. So the mounts layer shows the trees that are named here through overlayfs, in which both
//! are other ones than the host's. It does not show every tree so, because a kernel that is
//! executed would take some 4 % longer to start.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::{AccessFlags, access};

/// How long all trees may take. What is not searched by then counts as holding some.
const BUDGET: Duration = Duration::from_secs(5);

/// Those of `trees` that hold sockets or FIFOs, or that could not be searched whole.
pub(super) fn trees_with_some(trees: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let deadline = Instant::now() + BUDGET;
    let is_directory = |tree: &PathBuf| fs::symlink_metadata(tree).is_ok_and(|data| data.is_dir());
    trees.into_iter().filter(is_directory).filter(|tree| !has_none(tree, deadline)).collect()
}

/// Whether all of `tree` was searched, and there is neither socket nor FIFO in it.
fn has_none(tree: &Path, deadline: Instant) -> bool {
    let mut directories = vec![tree.to_owned()];
    while let Some(directory) = directories.pop() {
        if Instant::now() > deadline {
            return false;
        }
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // Sessions have no more rights than we, and get no further either.
            Err(_) if access(&directory, AccessFlags::X_OK).is_err() => continue,
            Err(_) => return false,
        };
        for entry in entries {
            let Ok((kind, entry)) = entry.and_then(|entry| Ok((entry.file_type()?, entry))) else {
                return false;
            };
            if kind.is_socket() || kind.is_fifo() {
                return false;
            }
            if kind.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let below = root.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("file"), "").unwrap();
        std::os::unix::fs::symlink("/", below.join("link")).unwrap();
        (root, below)
    }

    #[test]
    fn a_tree_with_a_socket_or_a_fifo_is_named() {
        let (clean, _) = tree();
        let (with_socket, below) = tree();
        let _listener = UnixListener::bind(below.join("socket")).unwrap();
        let (with_fifo, below) = tree();
        mkfifo(&below.join("fifo"), Mode::S_IRUSR).unwrap();
        let trees = [&clean, &with_socket, &with_fifo].map(|root| root.path().to_owned());
        assert_eq!(trees_with_some(trees.clone()), trees[1..]);
        assert!(trees_with_some([PathBuf::from("/nonexistent")]).is_empty());
    }

    #[test]
    fn a_tree_that_is_not_searched_whole_is_named() {
        let (clean, below) = tree();
        assert!(has_none(clean.path(), Instant::now() + BUDGET));
        assert!(!has_none(clean.path(), Instant::now()), "no time left");
        if nix::unistd::geteuid().is_root() {
            return; // whom no mode keeps out
        }
        fs::set_permissions(&below, fs::Permissions::from_mode(0o100)).unwrap();
        assert!(!has_none(clean.path(), Instant::now() + BUDGET), "entered, and not listed");
        fs::set_permissions(&below, fs::Permissions::from_mode(0o000)).unwrap();
        assert!(has_none(clean.path(), Instant::now() + BUDGET), "not entered");
        fs::set_permissions(&below, fs::Permissions::from_mode(0o700)).unwrap();
    }
}
