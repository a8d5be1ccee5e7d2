//! A file that appears whole or not at all.
//!
//! It is written under a temporary name in its directory, and renamed when it is complete. The session's
//! own code may see that name, and is free to spoil its own upload. Listings and reports of changes
//! leave it out by inode: a reserved name could be used by the tenant to hide files.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::BuildHasher;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, renameat};
use nix::sys::stat::{Mode, fchmod, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use vivarium_protocol::discard;
use vivarium_protocol::message::FileKind;

use super::{FileError, Workdir, kind, open_beneath};

/// How many temporary names are tried. One is enough, unless the tenant guesses them.
const NAMES_TRIED: u32 = 8;

#[derive(Debug)]
pub(crate) struct NewFile {
    directory: OwnedFd,
    name: OsString,
    temporary: Option<OsString>,
    file: File,
    inode: u64,
    written: u64,
    max_bytes: Option<u64>,
}

impl NewFile {
    pub(crate) fn create(workdir: &Workdir, path: &Path) -> Result<Self, FileError> {
        let name = path.file_name().ok_or(FileError::Name)?.to_owned();
        let directory = workdir.make_directories(path.parent().unwrap_or(Path::new("")))?;
        check_target(&directory, &name)?;
        let (temporary, file) = open_temporary(&directory)?;
        let new = Self {
            inode: fstat(&file)?.st_ino,
            directory,
            name,
            temporary: Some(temporary),
            file: file.into(),
            written: 0,
            max_bytes: workdir.max_file_bytes,
        };
        workdir.set_owner(&new.file)?;
        Ok(new)
    }

    /// By which listings and reports of changes leave it out.
    pub(crate) const fn inode(&self) -> u64 {
        self.inode
    }

    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), FileError> {
        let written = self.written.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
        // RLIMIT_FSIZE is the tenant's processes'; the agent has none.
        if let Some(max) = self.max_bytes
            && written > max
        {
            return Err(FileError::TooLarge(max));
        }
        self.file.write_all(data)?;
        self.written = written;
        Ok(())
    }

    /// Renames it to its own name, replacing a regular file.
    ///
    /// # Errors
    /// [`FileError`]; what was there is still there.
    pub(crate) fn commit(mut self, executable: bool) -> Result<(), FileError> {
        if executable {
            fchmod(&self.file, Mode::from_bits_truncate(0o755))?;
        }
        check_target(&self.directory, &self.name)?;
        if let Some(temporary) = &self.temporary {
            renameat(&self.directory, temporary.as_os_str(), &self.directory, &*self.name)?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let flags = UnlinkatFlags::NoRemoveDir;
            discard(
                unlinkat(&self.directory, temporary.as_os_str(), flags),
                "the tenant may have removed it",
            );
        }
    }
}

/// Refuses to replace anything but a regular file. For the client's sake, not for safety: rename(2)
/// follows no link.
fn check_target(directory: &OwnedFd, name: &OsStr) -> Result<(), FileError> {
    match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => match kind(&stat) {
            FileKind::File => Ok(()),
            FileKind::Link => Err(FileError::Escapes),
            FileKind::Directory | FileKind::Other => Err(FileError::NotRegular),
        },
        Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn open_temporary(directory: &OwnedFd) -> Result<(OsString, OwnedFd), FileError> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
    let mut last = FileError::Name;
    for _ in 0..NAMES_TRIED {
        let name = fresh_name("upload");
        match open_beneath(directory, Path::new(&name), flags) {
            Ok(file) => return Ok((name, file)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether a name may be one that [`fresh_name`] gave. Tenants may use such names too.
pub(super) fn is_fresh_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".upload-") || name.starts_with(b".deleted-")
}

/// An unpredictable name, which most likely nothing has yet.
pub(super) fn fresh_name(purpose: &str) -> OsString {
    // std's own source of randomness: its keys differ at each call.
    format!(".{purpose}-{:016x}", RandomState::new().hash_one(0)).into()
}

impl AsFd for NewFile {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}
