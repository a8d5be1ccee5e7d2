//! What a directory takes, added up.
//!
//! One directory is open for each level, so a tree that is deeper than [`DEPTH_MAX`] counts as too
//! large: tenant code chooses its depth. What has no name any more and is still open somewhere is not
//! seen.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::{Dir, OwningIter, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, fstat, fstatat};
use vivarium_protocol::message::{FileKind, StorageUsage};

use crate::files::{FileError, kind, open_beneath};

/// How many levels of directories are gone into.
const DEPTH_MAX: usize = 200;

/// The unit of `st_blocks`: stat(3type).
const BLOCK_BYTES: u64 = 512;

struct Level {
    directory: OwnedFd,
    entries: OwningIter,
}

impl Level {
    fn open(parent: &OwnedFd, name: &Path) -> Result<Self, FileError> {
        let directory = open_beneath(parent, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let entries = Dir::from_fd(directory.try_clone()?)?.into_iter();
        Ok(Self { directory, entries })
    }
}

/// What is in `directory`, itself included. It may change meanwhile.
pub(super) fn usage(directory: &OwnedFd, max_inodes: u64) -> Result<StorageUsage, FileError> {
    let mut usage = StorageUsage { bytes: bytes(&fstat(directory)?), inodes: 1, is_cut: false };
    let mut linked = HashSet::new();
    let mut levels = vec![Level::open(directory, Path::new("."))?];
    while !levels.is_empty() {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        let Some(entry) = level.entries.next() else {
            levels.pop();
            continue;
        };
        // A directory that can not be read on counts as far as it was.
        let Ok(entry) = entry else {
            levels.pop();
            continue;
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(stat) = fstatat(&level.directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
            continue; // gone meanwhile
        };
        usage.inodes = usage.inodes.saturating_add(1);
        if usage.inodes > max_inodes {
            usage.is_cut = true;
            break;
        }
        let is_directory = kind(&stat) == FileKind::Directory;
        if is_directory || stat.st_nlink < 2 || linked.insert(stat.st_ino) {
            usage.bytes = usage.bytes.saturating_add(bytes(&stat));
        }
        let may_be_one = matches!(entry.file_type(), Some(Type::Directory) | None);
        if is_directory && may_be_one {
            if depth >= DEPTH_MAX {
                usage.is_cut = true;
                break;
            }
            let name = OsStr::from_bytes(name.to_bytes());
            // One that is gone, or can not be read.
            let next = Level::open(&level.directory, Path::new(name)).ok();
            levels.extend(next);
        }
    }
    Ok(usage)
}

fn bytes(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES)
}
