//! Removing a file, or a directory with all that is in it.
//!
//! However deep a tree is and whatever is done to it meanwhile, two directories are open and no
//! list is kept: a directory that is not empty is first moved up, into the one that is being
//! deleted, and then emptied in its turn. Every step names an entry of an open directory and
//! follows no link, so a tenant that moves directories about can spare some of them from being
//! deleted, but not have anything deleted outside.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::{Dir, OwningIter};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, renameat};
use nix::sys::stat::fstatat;
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::new_file::fresh_name;
use super::{FileError, Workdir, checked, open_beneath};

const STEP_ENTRIES: u32 = 256;

/// After so many entries, new ones must be made as fast as they are removed.
const ENTRIES_MAX: u64 = 1 << 24;

#[derive(Debug)]
pub(crate) struct Deletion {
    parent: OwnedFd,
    name: OsString,
    /// The directory of that name, once it is known not to be empty.
    top: Option<Level>,
    /// The one in it that is being emptied, and its name.
    inner: Option<(Level, OsString)>,
    entries: u64,
}

#[derive(Debug)]
struct Level {
    directory: OwnedFd,
    entries: OwningIter,
}

impl Level {
    /// `None` if it is gone, or no directory any more.
    fn open(parent: &OwnedFd, name: &OsStr) -> Result<Option<Self>, FileError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let directory = match open_beneath(parent, Path::new(name), flags) {
            Err(FileError::NotFound | FileError::NotDirectory) => return Ok(None),
            opened => opened?,
        };
        let entries = Dir::from_fd(directory.try_clone()?)?.into_iter();
        Ok(Some(Self { directory, entries }))
    }

    fn next(&mut self) -> Result<Option<OsString>, FileError> {
        for entry in &mut self.entries {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

impl Deletion {
    pub(crate) fn start(workdir: &Workdir, path: &str) -> Result<Self, FileError> {
        let path = checked(path)?;
        let (parent, name) = workdir.open_parent(&path)?;
        fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        Ok(Self::of(parent, name.to_owned()))
    }

    /// Of what has this name in an open directory.
    pub(crate) const fn of(parent: OwnedFd, name: OsString) -> Self {
        Self { parent, name, top: None, inner: None, entries: 0 }
    }

    pub(crate) fn step(&mut self) -> Option<Result<(), FileError>> {
        for _ in 0..STEP_ENTRIES {
            match self.advance() {
                Ok(false) => {}
                Ok(true) => return Some(Ok(())),
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }

    fn advance(&mut self) -> Result<bool, FileError> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            return Err(FileError::Aborted("files are made in it faster than they are deleted"));
        }
        match (&mut self.top, &mut self.inner) {
            (None, _) => match remove(&self.parent, &self.name)? {
                Removed::Yes => return Ok(true),
                Removed::NotEmpty => self.top = Level::open(&self.parent, &self.name)?,
            },
            (Some(top), Some((inner, name))) => match inner.next()? {
                Some(found) => {
                    if remove(&inner.directory, &found)? == Removed::NotEmpty {
                        let up = fresh_name("deleted");
                        renameat(&inner.directory, &*found, &top.directory, &*up)?;
                    }
                }
                None => {
                    // If there is something in it again, its turn comes again.
                    remove(&top.directory, name)?;
                    self.inner = None;
                }
            },
            (Some(top), None) => match top.next()? {
                Some(found) => {
                    if remove(&top.directory, &found)? == Removed::NotEmpty {
                        self.inner = Level::open(&top.directory, &found)?.map(|open| (open, found));
                    }
                }
                // Once more from the start, until nothing is left.
                None => self.top = None,
            },
        }
        Ok(false)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removed {
    Yes,
    NotEmpty,
}

fn remove(directory: &OwnedFd, name: &OsStr) -> Result<Removed, FileError> {
    match unlinkat(directory, name, UnlinkatFlags::NoRemoveDir) {
        // EPERM is POSIX's word for a directory, and some filesystems'.
        Err(Errno::EISDIR | Errno::EPERM) => {}
        Ok(()) | Err(Errno::ENOENT) => return Ok(Removed::Yes),
        Err(errno) => return Err(errno.into()),
    }
    match unlinkat(directory, name, UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(Removed::Yes),
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(Removed::NotEmpty),
        Err(errno) => Err(errno.into()),
    }
}
