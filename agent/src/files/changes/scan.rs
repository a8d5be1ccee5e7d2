//! Scanning directories, to watch them and to find what is changed in them.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, Entry, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::inotify::AddWatchFlags;
use nix::sys::stat::fstatat;
use vivarium_protocol::message::FileKind;

use super::{ChangeTracker, Changed, TrackingStage, changed_at, is_tool_directory};
use crate::files::{FileError, Workdir, kind, open_beneath};

/// The most directories watched. Each takes some 1 KiB of the host's kernel memory, and all
/// sessions of a user share `fs.inotify.max_user_watches`.
pub(crate) const WATCHES_MAX: usize = 1024;

/// The most directory entries scanned between two reports.
const SCANNED_MAX: usize = 10_000;

/// What makes or changes a file, or moves it in or out. Closing counts, as a write by way of a mapping
/// has no other event.
const EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_CLOSE_WRITE)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_ONLYDIR);

impl ChangeTracker {
    /// Scans the directory at `path` and all below it for changed files, and watches them in
    /// [`TrackingStage::Watching`].
    pub(super) fn scan(&mut self, workdir: &Workdir, path: PathBuf, changed: Changed) {
        let mut next = vec![path];
        while let Some(path) = next.pop() {
            match self.scan_directory(workdir, &path, changed, &mut next) {
                // It is gone again, or has become something else, which has an event of its own.
                Ok(()) | Err(FileError::NotFound | FileError::NotDirectory) => {}
                Err(_) => self.mark_incomplete(),
            }
        }
    }

    /// There is more than is scanned.
    const fn mark_incomplete(&mut self) {
        self.missed_events = true;
        self.more = true;
    }

    const fn is_exhausted(&self) -> bool {
        self.scanned >= SCANNED_MAX
    }

    fn scan_directory(
        &mut self,
        workdir: &Workdir,
        path: &Path,
        changed: Changed,
        next: &mut Vec<PathBuf>,
    ) -> Result<(), FileError> {
        let name = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let directory = open_beneath(workdir, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        // Before it is read, so that nothing is missed in between.
        if self.stage == TrackingStage::Watching {
            self.watch(&directory, path);
        }
        for found in Dir::from_fd(directory.try_clone()?)?.iter() {
            let found = found?;
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if self.is_exhausted() && self.missed_events {
                self.more = true; // scanned again next time
                return Ok(());
            }
            match kind_of(&found, &directory, name) {
                FileKind::Directory if is_tool_directory(path, name) => {}
                FileKind::Directory if next.len() < WATCHES_MAX => next.push(path.join(name)),
                FileKind::Directory => self.mark_incomplete(),
                // Directories are still watched then, so that from now on their files have events.
                FileKind::File if self.is_exhausted() => self.more = true,
                FileKind::File if self.is_changed(&directory, path, name, changed) => {
                    self.add(path.join(name));
                }
                FileKind::File | FileKind::Link | FileKind::Other => {}
            }
            self.scanned = self.scanned.saturating_add(1);
        }
        Ok(())
    }

    /// Whether the file `name` in the directory at `path` counts as changed.
    fn is_changed(&self, directory: &OwnedFd, path: &Path, name: &OsStr, changed: Changed) -> bool {
        let found = || {
            let stat = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW);
            stat.ok().map(|stat| changed_at(&stat))
        };
        match changed {
            Changed::All => true,
            Changed::None => false,
            Changed::Since(since) => found().is_some_and(|at| at >= since),
            Changed::SinceReported => found().as_ref() != self.reported.get(&path.join(name)),
        }
    }

    /// Watches a directory. inotify_add_watch(2) takes a path only: this one leads to the
    /// directory that is open, whatever has been put in its place.
    fn watch(&mut self, directory: &OwnedFd, path: &Path) {
        let watched = match &self.inotify {
            Some(inotify) if self.watched.len() < WATCHES_MAX => {
                let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
                inotify.add_watch(link.as_str(), EVENTS)
            }
            _ => Err(Errno::ENOSPC),
        };
        match watched {
            Ok(watch) => drop(self.watched.insert(watch, path.to_owned())),
            Err(_) => self.missed_events = true,
        }
    }
}

/// The kind of an entry, also on filesystems whose directories do not have it.
pub(in crate::files) fn kind_of(found: &Entry, directory: &OwnedFd, name: &OsStr) -> FileKind {
    match found.file_type() {
        Some(Type::Directory) => FileKind::Directory,
        Some(Type::File) => FileKind::File,
        Some(_) => FileKind::Other,
        None => fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_or(FileKind::Other, |stat| kind(&stat)),
    }
}
