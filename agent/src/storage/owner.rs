//! Giving a directory, and all that is in it, to an id.
//!
//! The directory's own owner is changed last: if this is interrupted, the next time finds it as it was
//! and begins anew.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::{Dir, OwningIter};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{fstat, fstatat};
use nix::unistd::{Gid, Uid, fchown, fchownat};
use vivarium_protocol::message::FileKind;

use crate::files::{FileError, kind, open_beneath};

/// How many levels of directories are gone into.
const DEPTH_MAX: usize = 200;

pub(super) fn give(directory: &OwnedFd, uid: u32, gid: u32) -> Result<(), FileError> {
    let stat = fstat(directory)?;
    if stat.st_uid == uid {
        return Ok(());
    }
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    let mut levels = vec![open(directory, Path::new("."))?];
    while let Some((parent, entries)) = levels.last_mut() {
        let Some(Ok(entry)) = entries.next() else {
            levels.pop();
            continue;
        };
        let name = Path::new(OsStr::from_bytes(entry.file_name().to_bytes()));
        if name == Path::new(".") || name == Path::new("..") {
            continue;
        }
        fchownat(&*parent, name, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        let stat = fstatat(&*parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if kind(&stat) == FileKind::Directory {
            if levels.len() >= DEPTH_MAX {
                return Err(FileError::Aborted("it has directories too deep to be given away"));
            }
            let (parent, _) = levels.last().ok_or(FileError::NotFound)?;
            let next = open(parent, name)?;
            levels.push(next);
        }
    }
    // O_PATH descriptors have no fchown(2).
    let opened = open_beneath(directory, Path::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
    Ok(fchown(&opened, uid, gid)?)
}

fn open(parent: &OwnedFd, name: &Path) -> Result<(OwnedFd, OwningIter), FileError> {
    let directory = open_beneath(parent, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
    let entries = Dir::from_fd(directory.try_clone()?)?.into_iter();
    Ok((directory, entries))
}
