//! Detached copies of host mounts, overlays of host directories, and where they are put.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::mount::MsFlags;
use nix::sys::stat::{Mode, SFlag, mknod};
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use super::{EMPTY, mount_fs};
use crate::sandbox::LayerError;
use crate::sys;

/// The mode of a file that something is mounted on.
const MOUNT_POINT: Mode = Mode::S_IRUSR.union(Mode::S_IRGRP).union(Mode::S_IROTH);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reading and executing; no set-user-id, no devices.
    ReadOnly,
    /// Reading, without executing.
    ReadOnlyNoExec,
    /// A device node, which `nodev` would make useless; nothing else lies on such a mount.
    Device,
    /// Writing and executing; no set-user-id, no devices.
    Writable,
    /// Writing only; no set-user-id, no devices.
    WritableNoExec,
}

impl Access {
    /// As `MOUNT_ATTR_*` of mount_setattr(2).
    const fn attributes(self) -> u64 {
        let common = libc::MOUNT_ATTR_NOSUID;
        match self {
            Self::ReadOnly => common | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_RDONLY,
            Self::ReadOnlyNoExec => {
                common | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOEXEC
            }
            Self::Device => common | libc::MOUNT_ATTR_NOEXEC,
            Self::Writable => common | libc::MOUNT_ATTR_NODEV,
            Self::WritableNoExec => common | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC,
        }
    }
}

/// Something of the host that is to appear inside at the same path.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    what: What,
}

#[derive(Debug)]
enum What {
    Link(PathBuf),
    Directory(OwnedFd),
    /// A directory that is to be shown through overlayfs: the host's, open.
    Isolated(OwnedFd),
    File(OwnedFd),
}

impl Source {
    /// Takes what is at `path` on the host; `None` if there is nothing, or a socket or a FIFO: who
    /// sees one can speak to the service behind it, however it is mounted.
    pub(super) fn take(path: &Path, access: Access) -> Result<Option<Self>, LayerError> {
        let kind = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LayerError::new(format!("stat {}", path.display()), error)),
        };
        let what = if kind.is_symlink() {
            let target = fs::read_link(path)
                .map_err(|error| LayerError::new(format!("readlink {}", path.display()), error))?;
            What::Link(target)
        } else if kind.is_socket() || kind.is_fifo() {
            return Ok(None);
        } else {
            let tree = detached(path, access)?;
            if kind.is_dir() { What::Directory(tree) } else { What::File(tree) }
        };
        Ok(Some(Self { path: path.to_owned(), what }))
    }

    /// Takes the directory at `path` to show it through overlayfs, and what is no directory as
    /// [`Self::take`] does.
    pub(super) fn take_isolated(path: &Path) -> Result<Option<Self>, LayerError> {
        if !fs::symlink_metadata(path).is_ok_and(|data| data.is_dir()) {
            return Self::take(path, Access::ReadOnly);
        }
        let lower = open_path(path)
            .map_err(|error| LayerError::new(format!("open {}", path.display()), error))?;
        Ok(Some(Self { path: path.to_owned(), what: What::Isolated(lower.into()) }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn is_tree(&self) -> bool {
        matches!(self.what, What::Directory(_) | What::Isolated(_))
    }

    pub(super) const fn is_isolated(&self) -> bool {
        matches!(self.what, What::Isolated(_))
    }
}

pub(super) fn attach(source: &Source, root: &Path) -> Result<(), LayerError> {
    let target = root.join(source.path.strip_prefix("/").unwrap_or(&source.path));
    match &source.what {
        What::Link(to) => below_parent(&target, || std::os::unix::fs::symlink(to, &target)),
        What::Directory(tree) => {
            make_directory(&target)?;
            place(tree, &target)
        }
        What::Isolated(lower) => {
            make_directory(&target)?;
            // Where the kernel refuses, as it does if other mounts lie below: what is read back
            // says so.
            overlay(lower, root, &target).or_else(|_| {
                let path = format!("/proc/self/fd/{}/.", lower.as_raw_fd());
                place(&detached(Path::new(&path), Access::ReadOnly)?, &target)
            })
        }
        What::File(tree) => {
            below_parent(&target, || mknod(&target, SFlag::S_IFREG, MOUNT_POINT, 0))?;
            place(tree, &target)
        }
    }
}

/// Shows the directory `lower` at `target` through overlayfs, which has sockets, FIFOs and locks of
/// its own: the service behind a socket of the host is not behind the one that is seen here. The
/// second layer is empty, and there because one alone is refused.
fn overlay(lower: &OwnedFd, root: &Path, target: &Path) -> Result<(), LayerError> {
    // By descriptor, as a path may hold what overlayfs takes for a separator.
    let layers =
        format!("lowerdir=/proc/self/fd/{}:{}", lower.as_raw_fd(), root.join(EMPTY).display());
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount_fs(Some("overlay"), target, Some("overlay"), flags, Some(&layers))
}

/// A detached copy of what is mounted at `path`, already restricted to `access`.
pub(super) fn detached(path: &Path, access: Access) -> Result<OwnedFd, LayerError> {
    let failed = |operation: &str| {
        let operation = format!("{operation} {}", path.display());
        move |error| LayerError::new(operation, error)
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let tree = open_tree(CWD, path, flags).map_err(|error| failed("open_tree")(error.into()))?;
    sys::add_mount_attributes(tree.as_fd(), access.attributes(), true)
        .map_err(failed("mount_setattr"))?;
    Ok(tree)
}

/// Attaches a detached mount.
pub(super) fn place(tree: &OwnedFd, target: &Path) -> Result<(), LayerError> {
    move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(|error| {
        LayerError::new(format!("move_mount to {}", target.display()), io::Error::from(error))
    })
}

/// Makes the mount at `path`, and not those below it, read-only.
pub(super) fn seal(path: &Path) -> Result<(), LayerError> {
    let failed = |error| LayerError::new(format!("make {} read-only", path.display()), error);
    let mount = open_path(path).map_err(failed)?;
    sys::add_mount_attributes(mount.as_fd(), libc::MOUNT_ATTR_RDONLY, false).map_err(failed)
}

/// Opens a directory to name it: O_PATH of open(2).
pub(super) fn open_path(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(path)
}

pub(super) fn make_directory(path: &Path) -> Result<(), LayerError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .map_err(|error| LayerError::new(format!("mkdir {}", path.display()), error))
}

/// Makes something at `path` by `make`, and the directories it lies in where they are missing: for
/// most they are there.
fn below_parent<E: Into<io::Error>>(
    path: &Path,
    make: impl Fn() -> Result<(), E>,
) -> Result<(), LayerError> {
    let made = match make().map_err(E::into) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), make_directory)?;
            make().map_err(E::into)
        }
        made => made,
    };
    made.map_err(|error| LayerError::new(format!("create {}", path.display()), error))
}

/// Makes a new file with `text` in it.
pub(super) fn write_file(path: &Path, text: &str, mode: u32) -> Result<(), LayerError> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
        .map_err(|error| LayerError::new(format!("create {}", path.display()), error))
}

pub(super) fn symlink(target: impl AsRef<Path>, link: &Path) -> Result<(), LayerError> {
    std::os::unix::fs::symlink(target, link)
        .map_err(|error| LayerError::new(format!("symlink {}", link.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `MOUNT_ATTR_*` of linux/mount.h.
    #[test]
    fn each_access_has_its_attributes() {
        const RDONLY: u64 = 1;
        const NOSUID: u64 = 2;
        const NODEV: u64 = 4;
        const NOEXEC: u64 = 8;
        for (access, attributes) in [
            (Access::ReadOnly, vec![RDONLY, NOSUID, NODEV]),
            (Access::ReadOnlyNoExec, vec![RDONLY, NOSUID, NODEV, NOEXEC]),
            (Access::Device, vec![NOSUID, NOEXEC]),
            (Access::Writable, vec![NOSUID, NODEV]),
            (Access::WritableNoExec, vec![NOSUID, NODEV, NOEXEC]),
        ] {
            assert_eq!(access.attributes(), attributes.iter().sum::<u64>(), "{access:?}");
        }
    }

    #[test]
    fn sockets_fifos_and_nothing_are_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [&fifo, &socket, &dir.path().join("nothing")] {
            assert!(Source::take(path, Access::ReadOnly).unwrap().is_none(), "{}", path.display());
            assert!(Source::take_isolated(path).unwrap().is_none(), "{}", path.display());
        }
        let below_a_file = Path::new("/proc/self/exe/below");
        assert!(
            Source::take(below_a_file, Access::ReadOnly).is_err(),
            "it is not known what it is"
        );

        let link = dir.path().join("link");
        symlink("fifo", &link).unwrap();
        let taken = Source::take(&link, Access::ReadOnly).unwrap().unwrap();
        assert!(!taken.is_tree() && !taken.is_isolated());
        let taken = Source::take_isolated(dir.path()).unwrap().unwrap();
        assert!(taken.is_tree() && taken.is_isolated());
    }
}
