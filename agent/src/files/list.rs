//! What is in a directory, in byte order of the paths, a page at a time.
//!
//! A directory is read in no order, so all of it is read for each page. However much there is,
//! what is kept is one page of paths, bounded in entries and in bytes, and one open directory for
//! each level: the walk is depth first, goes [`DEPTH_MAX`] levels deep, and leaves out what can not
//! be on the page. It is done in steps, so that nothing else waits for it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, OwningIter, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::fstatat;
use vivarium_protocol::message::{FileKind, FileReply};

use super::{FileError, Workdir, checked, entry, kind, open_beneath};

/// The most entries of one page.
const PAGE_MAX: usize = 1000;

/// The most bytes of the paths of one page. Tenant code chooses how long they are.
const PAGE_BYTES: usize = 1 << 20;

/// The longest path that is listed: no request can name a longer one (`PATH_MAX`).
const PATH_BYTES: usize = 4096;

/// How many levels of directories are gone into. What is deeper is not listed.
const DEPTH_MAX: usize = 64;

/// How many entries are read before others have their turn.
const STEP_ENTRIES: usize = 512;

/// A directory that is being listed.
#[derive(Debug)]
pub(crate) struct Listing {
    levels: Vec<Level>,
    recursive: bool,
    after: String,
    limit: usize,
    page: BTreeSet<Found>,
    /// Bytes of the page's paths.
    bytes: usize,
    /// The first that the page has no room for: neither has it for what comes after.
    cut: Option<String>,
}

/// What has been found: ordered by what is told of it, by which the next page begins.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    told: String,
    path: PathBuf,
}

impl Found {
    fn bytes(&self) -> usize {
        self.told.len().saturating_add(self.path.as_os_str().len())
    }
}

/// A directory that is being read.
#[derive(Debug)]
struct Level {
    directory: OwnedFd,
    entries: OwningIter,
    path: PathBuf,
}

impl Level {
    fn open(parent: &OwnedFd, name: &Path, path: PathBuf) -> Result<Self, FileError> {
        let directory = open_beneath(parent, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let entries = Dir::from_fd(directory.try_clone()?)?.into_iter();
        Ok(Self { directory, entries, path })
    }
}

impl Listing {
    /// Begins to list what is in the directory at `path` and comes after `after`.
    ///
    /// # Errors
    /// [`FileError`]
    pub(crate) fn start(
        workdir: &Workdir,
        path: &str,
        recursive: bool,
        after: String,
        limit: u32,
    ) -> Result<Self, FileError> {
        let limit = usize::try_from(limit).unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX);
        let path = if path.is_empty() { PathBuf::new() } else { checked(path)? };
        let name = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
        let levels = vec![Level::open(&workdir.root, name, path.clone())?];
        let (page, bytes, cut) = (BTreeSet::new(), 0, None);
        Ok(Self { levels, recursive, after, limit, page, bytes, cut })
    }

    /// Reads some more. The page, once it is certain. Files with the inodes `hidden` are not
    /// there.
    pub(crate) fn step(&mut self, workdir: &Workdir, hidden: &[u64]) -> Option<FileReply> {
        for _ in 0..STEP_ENTRIES {
            let Some(level) = self.levels.last_mut() else {
                return Some(self.reply(workdir));
            };
            match level.entries.next() {
                Some(Ok(entry)) => {
                    let name = OsStr::from_bytes(entry.file_name().to_bytes());
                    if name != "." && name != ".." && !hidden.contains(&entry.ino()) {
                        self.look_at(Path::new(name), entry.file_type());
                    }
                }
                // What can not be read is as good as empty.
                Some(Err(_)) | None => drop(self.levels.pop()),
            }
        }
        None
    }

    /// Notes one entry, and goes into it if it is a directory that may hold some of the page.
    fn look_at(&mut self, name: &Path, kind: Option<Type>) {
        let Some(level) = self.levels.last() else {
            return;
        };
        let path = level.path.join(name);
        let told = path.to_string_lossy().into_owned();
        if told.len() > PATH_BYTES {
            return;
        }
        if self.recursive && self.levels.len() < DEPTH_MAX && self.may_hold_some(&told) {
            let is_directory = kind.map_or_else(
                || is_directory(&level.directory, name),
                |kind| kind == Type::Directory,
            );
            // One that is gone, or that has become something else, is not gone into.
            if is_directory && let Ok(next) = Level::open(&level.directory, name, path.clone()) {
                self.levels.push(next);
            }
        }
        if told > self.after && self.cut.as_ref().is_none_or(|cut| told < *cut) {
            self.insert(Found { told, path });
        }
    }

    /// Puts an entry on the page, and takes the last ones off that there is then no room for.
    fn insert(&mut self, found: Found) {
        self.bytes = self.bytes.saturating_add(found.bytes());
        self.page.insert(found);
        while self.page.len() > self.limit || (self.bytes > PAGE_BYTES && self.page.len() > 1) {
            let Some(last) = self.page.pop_last() else { return };
            self.bytes = self.bytes.saturating_sub(last.bytes());
            self.cut = Some(last.told);
        }
    }

    /// Whether paths in the directory told as `told` can be on the page: they all come after
    /// `told/` and before `told0`, as 0 is the character after the slash.
    fn may_hold_some(&self, told: &str) -> bool {
        let ends_before = format!("{told}0") <= self.after;
        let begins_after = self.cut.as_ref().is_some_and(|cut| *cut < format!("{told}/"));
        !ends_before && !begins_after
    }

    fn reply(&mut self, workdir: &Workdir) -> FileReply {
        let more = self.cut.is_some();
        let entries = std::mem::take(&mut self.page)
            .into_iter()
            // What is gone by now is not there.
            .filter_map(|found| {
                let stat = workdir.stat(&found.path).ok()?;
                Some(entry(found.told, &stat))
            })
            .collect();
        FileReply::Listed { entries, more }
    }
}

/// For filesystems that do not say in the directory what an entry is.
fn is_directory(directory: &OwnedFd, name: &Path) -> bool {
    fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| kind(&stat) == FileKind::Directory)
}
