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

use super::{FileError, Workdir, checked, entry, is_own_directory, kind, open_beneath, shown};

/// The most entries of one page.
const PAGE_MAX: usize = 1000;

/// The most bytes of the paths of one page. Tenant code chooses how long they are.
const PAGE_BYTES: usize = 1 << 20;

/// The longest path that is listed: no request can name a longer one (`PATH_MAX`).
const PATH_BYTES: usize = 4096;

/// How many levels of directories are gone into. What is deeper is not listed.
const DEPTH_MAX: usize = 64;

const STEP_ENTRIES: usize = 512;

#[derive(Debug)]
pub(crate) struct Listing {
    levels: Vec<Level>,
    /// What the paths begin with, as reported.
    prefix: &'static str,
    recursive: bool,
    /// Whether the session's own directories are left out.
    hides_own: bool,
    after: String,
    limit: usize,
    page: BTreeSet<Found>,
    bytes: usize,
    /// The first path that the page has no room for.
    cut: Option<String>,
}

/// An entry, ordered by its name as reported, by which the next page begins.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    name: String,
    path: PathBuf,
}

impl Found {
    fn bytes(&self) -> usize {
        self.name.len().saturating_add(self.path.as_os_str().len())
    }
}

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
        let prefix = workdir.prefix;
        let (page, bytes, cut) = (BTreeSet::new(), 0, None);
        let hides_own = prefix.is_empty() && !workdir.shows_all;
        Ok(Self { levels, prefix, recursive, hides_own, after, limit, page, bytes, cut })
    }

    /// Reads some more. Returns the page once it is complete, without files of the inodes `hidden`.
    pub(crate) fn step(&mut self, workdir: &Workdir, hidden: &[u64]) -> Option<FileReply> {
        for _ in 0..STEP_ENTRIES {
            let Some(level) = self.levels.last_mut() else {
                return Some(self.reply(workdir));
            };
            match level.entries.next() {
                Some(Ok(entry)) => {
                    let name = OsStr::from_bytes(entry.file_name().to_bytes());
                    if name != "." && name != ".." && !hidden.contains(&entry.ino()) {
                        self.visit(Path::new(name), entry.file_type());
                    }
                }
                // A directory that can not be read counts as empty.
                Some(Err(_)) | None => drop(self.levels.pop()),
            }
        }
        None
    }

    /// Adds one entry to the page, and descends into it if it is a directory that may hold some of it.
    fn visit(&mut self, name: &Path, kind: Option<Type>) {
        let Some(level) = self.levels.last() else {
            return;
        };
        let path = level.path.join(name);
        let reported = shown(self.prefix, &path);
        if reported.len() > PATH_BYTES {
            return;
        }
        let is_directory = || {
            let look = || is_directory(&level.directory, name);
            kind.map_or_else(look, |kind| kind == Type::Directory)
        };
        let is_at_the_top = self.hides_own && level.path.as_os_str().is_empty();
        if is_at_the_top && is_own_directory(name.as_os_str()) && is_directory() {
            return;
        }
        if self.recursive && self.levels.len() < DEPTH_MAX && self.may_hold_some(&reported) {
            // Not into one that is gone, or that has become something else.
            if is_directory()
                && let Ok(next) = Level::open(&level.directory, name, path.clone())
            {
                self.levels.push(next);
            }
        }
        if reported > self.after && self.cut.as_ref().is_none_or(|cut| reported < *cut) {
            self.insert(Found { name: reported, path });
        }
    }

    /// Puts an entry on the page, and takes the last ones off that there is then no room for.
    fn insert(&mut self, found: Found) {
        self.bytes = self.bytes.saturating_add(found.bytes());
        self.page.insert(found);
        while self.page.len() > self.limit || (self.bytes > PAGE_BYTES && self.page.len() > 1) {
            let Some(last) = self.page.pop_last() else { return };
            self.bytes = self.bytes.saturating_sub(last.bytes());
            self.cut = Some(last.name);
        }
    }

    /// Whether paths in `directory` can be on the page: they all come after `directory/` and before
    /// `directory0`, as 0 is the character after the slash.
    fn may_hold_some(&self, directory: &str) -> bool {
        let ends_before = format!("{directory}0") <= self.after;
        let begins_after = self.cut.as_ref().is_some_and(|cut| *cut < format!("{directory}/"));
        !ends_before && !begins_after
    }

    fn reply(&mut self, workdir: &Workdir) -> FileReply {
        let more = self.cut.is_some();
        let entries = std::mem::take(&mut self.page)
            .into_iter()
            // Without those that are gone by now.
            .filter_map(|found| {
                let stat = workdir.stat(&found.path).ok()?;
                Some(entry(found.name, &stat))
            })
            .collect();
        FileReply::Listed { entries, more }
    }
}

/// For filesystems whose directories do not have the kind of an entry.
fn is_directory(directory: &OwnedFd, name: &Path) -> bool {
    fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| kind(&stat) == FileKind::Directory)
}
