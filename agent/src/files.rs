//! The files of the workdir and of /tmp, as the agent reads and writes them on a client's behalf.
//!
//! They are the tenant's, so any name in them may be a trap: a symbolic link out, a
//! FIFO that blocks, a directory swapped while we look. Every open is one openat2(2) beneath
//! their root, through no link and onto no other mount, never blocks (`O_NONBLOCK`: neither on
//! a FIFO nor on a lease, fcntl(2)), and is used only if it turns out to be what is wanted.
//!
//! The agent may open more than the tenant's own processes (`CAP_DAC_OVERRIDE`). Beneath the
//! roots that is nothing of anybody else's: their filesystem holds only what the tenant made or
//! was given, and what is mounted into it (`read_paths`) is left alone by `RESOLVE_NO_XDEV`. A /tmp
//! that is the host's is none of them.

mod archive;
mod changes;
mod delete;
mod download;
mod entries;
mod error;
mod list;
mod new_file;
mod roots;
mod tar;
mod unpack;
mod upload;
mod watch;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat};
use nix::unistd::{Gid, Uid, fchown};
use vivarium_protocol::message::{FileEntry, FileKind};

pub(crate) use archive::Archive;
pub(crate) use changes::{ChangeTracker, WATCHES_MAX};
pub(crate) use delete::Deletion;
pub(crate) use download::Download;
pub(crate) use error::FileError;
pub(crate) use list::Listing;
pub(crate) use new_file::NewFile;
pub(crate) use roots::Roots;
pub(crate) use upload::Upload;
pub(crate) use watch::{WATCHERS_MAX, Watcher};

/// A directory beneath which everything stays: the workdir, the session's /tmp, or one in it.
#[derive(Debug)]
pub(crate) struct Workdir {
    root: OwnedFd,
    /// What paths in it begin with in answers: nothing in the workdir.
    prefix: &'static str,
    owner: Option<u32>,
    max_file_bytes: Option<u64>,
    /// Whether lists have the session's own directories ([`OWN_DIRECTORIES`]) too.
    shows_all: bool,
}

impl Workdir {
    /// The workdir at `path`. What is made in it belongs to `owner`, where that is not the
    /// agent's own id, and is no larger than `max_file_bytes`.
    pub(crate) fn open(
        path: &Path,
        owner: Option<u32>,
        max_file_bytes: Option<u64>,
    ) -> Result<Self, FileError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = open(path, flags, Mode::empty())?;
        Ok(Self { root, prefix: "", owner, max_file_bytes, shows_all: false })
    }

    /// A home or volume, open as `root`.
    pub(crate) const fn of(root: OwnedFd) -> Self {
        Self { root, prefix: "", owner: None, max_file_bytes: None, shows_all: true }
    }

    /// The directory at `path` as one beneath which everything stays, made if it is missing.
    pub(crate) fn beneath(&self, path: &Path) -> Result<Self, FileError> {
        let root = self.make_directories(path)?;
        let (owner, max_file_bytes) = (self.owner, self.max_file_bytes);
        Ok(Self { root, prefix: self.prefix, owner, max_file_bytes, shows_all: self.shows_all })
    }

    /// Writes a file of an execution's, making its parent directories.
    ///
    /// # Errors
    /// [`FileError`]; nothing has then been replaced.
    pub(crate) fn put(&self, path: &str, data: &[u8]) -> Result<(), FileError> {
        let mut new = NewFile::create(self, &checked(path)?)?;
        new.write(data)?;
        new.commit(false)
    }

    pub(crate) fn open_file(&self, path: &Path) -> Result<(File, FileStat), FileError> {
        let opened = open_beneath(&self.root, path, OFlag::O_RDONLY | OFlag::O_NOCTTY)?;
        let stat = fstat(&opened)?;
        if kind(&stat) == FileKind::File {
            Ok((opened.into(), stat))
        } else {
            Err(FileError::NotRegular)
        }
    }

    pub(crate) fn stat(&self, path: &Path) -> Result<FileStat, FileError> {
        Ok(fstat(&open_beneath(&self.root, path, OFlag::O_PATH)?)?)
    }

    /// The path of what lies at `path` in it, as answers have it.
    fn shown(&self, path: &Path) -> String {
        shown(self.prefix, path)
    }

    /// Opens the directory that `path` lies in; with the name it has there.
    fn open_parent<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), FileError> {
        let name = path.file_name().ok_or(FileError::Name)?;
        let parent = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => open_beneath(&self.root, parent, OFlag::O_PATH | OFlag::O_DIRECTORY)?,
            None => self.root.try_clone()?,
        };
        Ok((parent, name))
    }

    /// Opens the directory at `path`, making it and those it lies in where they are missing.
    fn make_directories(&self, path: &Path) -> Result<OwnedFd, FileError> {
        let mut at = self.root.try_clone()?;
        for part in path.components() {
            let part = Path::new(part.as_os_str());
            at = match mkdirat(&at, part, Mode::from_bits_truncate(0o755)) {
                Ok(()) => {
                    let made = open_beneath(&at, part, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
                    self.set_owner(&made)?;
                    made
                }
                Err(Errno::EEXIST) => open_beneath(&at, part, OFlag::O_PATH | OFlag::O_DIRECTORY)?,
                Err(errno) => return Err(errno.into()),
            };
        }
        Ok(at)
    }

    fn set_owner(&self, file: &impl AsFd) -> Result<(), FileError> {
        match self.owner {
            Some(id) => Ok(fchown(file, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)))?),
            None => Ok(()),
        }
    }
}

impl AsFd for Workdir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

/// The names in a directory.
pub(crate) fn names(directory: &OwnedFd) -> Result<Vec<OsString>, FileError> {
    let opened = open_beneath(directory, Path::new("."), OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
    let mut names = Vec::new();
    for entry in Dir::from_fd(opened)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Opens `path` beneath `directory`, as the module describes.
pub(crate) fn open_beneath(
    directory: &impl AsFd,
    path: &Path,
    flags: OFlag,
) -> Result<OwnedFd, FileError> {
    let more = match (flags.contains(OFlag::O_PATH), flags.contains(OFlag::O_DIRECTORY)) {
        // Names a file without opening it: then a link may be what is named.
        (true, false) => OFlag::O_NOFOLLOW,
        (true, true) => OFlag::empty(),
        (false, _) => OFlag::O_NONBLOCK,
    };
    let mode = if flags.contains(OFlag::O_CREAT) { 0o644 } else { 0 };
    let how = OpenHow::new()
        .flags(flags | more | OFlag::O_CLOEXEC)
        .mode(Mode::from_bits_truncate(mode))
        .resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS
                | ResolveFlag::RESOLVE_NO_XDEV,
        );
    Ok(openat2(directory, path, how)?)
}

/// The name as a path of plain components.
pub(crate) fn checked(name: &str) -> Result<PathBuf, FileError> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    // Components leave out redundant parts. Refusing those makes a path's text the only name of a file.
    let exact = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
    if name.is_empty() || name.contains('\0') || !plain || !exact {
        return Err(FileError::Name);
    }
    Ok(path.to_owned())
}

/// Where the session's variables send what programs keep (`env_scrub`), and its packages: nobody's
/// result.
const OWN_DIRECTORIES: [&str; 5] = [".cache", ".config", ".local", ".tmp", ".vivarium"];

/// Whether a directory at the top of the workdir is one of the session's own. Lists and archives of
/// what it lies in leave it out; who names it gets it.
fn is_own_directory(name: &OsStr) -> bool {
    OWN_DIRECTORIES.iter().any(|own| name == *own)
}

fn shown(prefix: &str, path: &Path) -> String {
    let path = path.to_string_lossy();
    match (prefix, &*path) {
        ("", path) => path.to_owned(),
        (prefix, "") => prefix.to_owned(),
        (prefix, path) => format!("{prefix}/{path}"),
    }
}

pub(crate) fn entry(path: String, stat: &FileStat) -> FileEntry {
    FileEntry {
        path,
        kind: kind(stat),
        size_bytes: size_bytes(stat),
        modified_ms: stat
            .st_mtime
            .saturating_mul(1000)
            .saturating_add(stat.st_mtime_nsec.saturating_div(1_000_000)),
        mode: stat.st_mode & 0o777,
    }
}

pub(crate) fn kind(stat: &FileStat) -> FileKind {
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => FileKind::File,
        SFlag::S_IFDIR => FileKind::Directory,
        SFlag::S_IFLNK => FileKind::Link,
        _ => FileKind::Other,
    }
}

pub(crate) fn size_bytes(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

#[cfg(test)]
mod tests;
