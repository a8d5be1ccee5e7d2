//! Sealing a built environment: nothing in it but plain files, directories and links that stay in it;
//! made unchangeable, given to the daemon's own id, and hashed.
//!
//! Whoever built it chose every name, mode and byte. Nothing is executed or followed here.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, readlinkat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, fstatat};
use nix::unistd::{Gid, Uid, fchown, fchownat};
use sha2::{Digest, Sha256};
use vivarium_protocol::message::{FileKind, SealRequest, SealedInfo};

use crate::files::{FileError, kind, open_beneath};

/// How many levels of directories are gone into.
const DEPTH_MAX: usize = 64;

/// The most distributions that are told of, and the longest name of one.
const DISTRIBUTIONS_MAX: usize = 10_000;
const DISTRIBUTION_BYTES_MAX: usize = 200;

const DIRECTORY_MODE: u32 = 0o555;
const FILE_MODE: u32 = 0o444;
const PROGRAM_MODE: u32 = 0o555;

/// Why a directory is no environment.
#[derive(Debug, thiserror::Error)]
pub(super) enum SealError {
    #[error("{} is a {kind}, which no environment has", path.display())]
    Kind { path: PathBuf, kind: &'static str },
    #[error("{} has a set-user-id, set-group-id or sticky bit", .0.display())]
    Privileged(PathBuf),
    #[error("{} leads out of the environment, to {}", path.display(), target.display())]
    Leaves { path: PathBuf, target: PathBuf },
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    #[error("it has more than {0} files, directories and links")]
    TooMany(u64),
    #[error("directories nest too deeply at {}", .0.display())]
    TooDeep(PathBuf),
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: FileError },
}

struct Sealing<'a> {
    request: &'a SealRequest,
    hash: Sha256,
    info: SealedInfo,
}

/// A directory whose entries are sealed one after the other.
struct Level {
    directory: OwnedFd,
    path: PathBuf,
    /// Sorted the other way round: the next is the last.
    names: Vec<OsString>,
}

pub(super) fn seal(root: &OwnedFd, request: &SealRequest) -> Result<SealedInfo, SealError> {
    let info = SealedInfo { hash: String::new(), bytes: 0, inodes: 0, distributions: Vec::new() };
    let mut sealing = Sealing { request, hash: Sha256::new(), info };
    let mut levels = vec![sealing.enter(root, OsStr::new("."), PathBuf::new())?];
    while !levels.is_empty() {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        let Some(name) = level.names.pop() else {
            levels.pop();
            continue;
        };
        let path = level.path.join(&name);
        let stat = fstatat(&level.directory, &*name, AtFlags::AT_SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|errno| failed(&path)(errno.into()))?;
        match kind(&stat) {
            FileKind::Directory if depth >= DEPTH_MAX => {
                return Err(SealError::TooDeep(path));
            }
            FileKind::Directory => {
                let next = sealing.enter(&level.directory, &name, path)?;
                levels.push(next);
            }
            FileKind::File => sealing.file(&level.directory, &name, &path)?,
            FileKind::Link => sealing.link(&level.directory, &name, &path)?,
            _ => return Err(SealError::Kind { path, kind: "device, socket or FIFO" }),
        }
    }
    let Sealing { hash, mut info, .. } = sealing;
    info.hash = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    info.distributions.sort();
    Ok(info)
}

impl Sealing<'_> {
    fn enter(&mut self, parent: &OwnedFd, name: &OsStr, path: PathBuf) -> Result<Level, SealError> {
        let failed = failed(&path);
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let directory = open_beneath(parent, Path::new(name), flags).map_err(&failed)?;
        let stat = fstat(&directory).map_err(|errno| failed(errno.into()))?;
        self.begin(b'd', &path, &stat, DIRECTORY_MODE)?;
        self.take(&directory, &path, DIRECTORY_MODE)?;
        self.note_distribution(&path);
        let mut names = names(&directory).map_err(&failed)?;
        names.sort_by(|one, other| other.cmp(one));
        Ok(Level { directory, path, names })
    }

    fn file(&mut self, parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), SealError> {
        let failed = failed(path);
        let opened = open_beneath(parent, Path::new(name), OFlag::O_RDONLY).map_err(&failed)?;
        let stat = fstat(&opened).map_err(|errno| failed(errno.into()))?;
        if kind(&stat) != FileKind::File {
            return Err(SealError::Kind { path: path.to_owned(), kind: "file no more" });
        }
        let mode = if stat.st_mode & 0o111 == 0 { FILE_MODE } else { PROGRAM_MODE };
        self.begin(b'f', path, &stat, mode)?;
        self.take(&opened, path, mode)?;
        let length = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        self.info.bytes = self.info.bytes.saturating_add(length);
        if self.info.bytes > self.request.max_bytes {
            return Err(SealError::TooLarge(self.request.max_bytes));
        }
        self.hash.update(length.to_le_bytes());
        let mut content = File::from(opened).take(length);
        let mut buffer = vec![0; 64 << 10];
        let mut read = 0_u64;
        loop {
            let count = match content.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => return Err(failed(FileError::Io(error))),
            };
            self.hash.update(buffer.get(..count).unwrap_or_default());
            read = read.saturating_add(count as u64);
        }
        if read == length {
            Ok(())
        } else {
            Err(failed(FileError::Io(io::ErrorKind::UnexpectedEof.into())))
        }
    }

    fn link(&mut self, parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), SealError> {
        let failed = failed(path);
        let stat = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        let stat = stat.map_err(|errno| failed(errno.into()))?;
        let target = readlinkat(parent, name).map_err(|errno| failed(errno.into()))?;
        let target = PathBuf::from(target);
        if target != self.request.interpreter && !stays(path, &target) {
            return Err(SealError::Leaves { path: path.to_owned(), target });
        }
        self.begin(b'l', path, &stat, 0)?;
        let (uid, gid) = self.owner();
        fchownat(parent, name, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(|errno| failed(errno.into()))?;
        self.text(target.as_os_str());
        Ok(())
    }

    /// Counts an entry, and hashes what it is but for its content.
    fn begin(
        &mut self,
        what: u8,
        path: &Path,
        stat: &FileStat,
        mode: u32,
    ) -> Result<(), SealError> {
        if what != b'l' && stat.st_mode & 0o7000 != 0 {
            return Err(SealError::Privileged(path.to_owned()));
        }
        self.info.inodes = self.info.inodes.saturating_add(1);
        if self.info.inodes > self.request.max_inodes {
            return Err(SealError::TooMany(self.request.max_inodes));
        }
        self.hash.update([what]);
        self.text(path.as_os_str());
        self.hash.update(mode.to_le_bytes());
        Ok(())
    }

    fn text(&mut self, text: &OsStr) {
        self.hash.update((text.len() as u64).to_le_bytes());
        self.hash.update(text.as_bytes());
    }

    const fn owner(&self) -> (Option<Uid>, Option<Gid>) {
        (Some(Uid::from_raw(self.request.uid)), Some(Gid::from_raw(self.request.gid)))
    }

    fn take(&self, opened: &impl AsFd, path: &Path, mode: u32) -> Result<(), SealError> {
        let (uid, gid) = self.owner();
        fchown(opened, uid, gid)
            .and_then(|()| fchmod(opened, Mode::from_bits_truncate(mode)))
            .map_err(|errno| failed(path)(errno.into()))
    }

    fn note_distribution(&mut self, path: &Path) {
        let in_packages = path.parent().is_some_and(|parent| parent.ends_with("site-packages"));
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+!".contains(&byte);
        if let Some(name) = name.strip_suffix(".dist-info")
            && in_packages
            && (1..=DISTRIBUTION_BYTES_MAX).contains(&name.len())
            && name.bytes().all(plain)
            && self.info.distributions.len() < DISTRIBUTIONS_MAX
        {
            self.info.distributions.push(name.to_owned());
        }
    }
}

/// Whether a link at `path` leads to somewhere beneath the root. Every `..` has to come first, where it
/// counts from the link's own directory: after another link it could lead anywhere.
fn stays(path: &Path, target: &Path) -> bool {
    let depth = path.components().count().saturating_sub(1);
    let mut climbed = 0;
    let mut went_down = false;
    target.components().all(|part| match part {
        Component::ParentDir => {
            climbed += 1;
            !went_down && climbed <= depth
        }
        Component::Normal(_) => {
            went_down = true;
            true
        }
        Component::CurDir => true,
        Component::RootDir | Component::Prefix(_) => false,
    })
}

fn names(directory: &OwnedFd) -> Result<Vec<OsString>, FileError> {
    let mut names = Vec::new();
    for entry in Dir::from_fd(directory.try_clone()?)?.into_iter() {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

fn failed(path: &Path) -> impl Fn(FileError) -> SealError + use<> {
    let path = path.to_owned();
    move |error| SealError::Io { path: path.clone(), error }
}

#[cfg(test)]
mod tests;
