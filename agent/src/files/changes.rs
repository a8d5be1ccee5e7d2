//! Which files of the workdir were made or changed since last asked for.
//!
//! The host's kernel keeps the list (inotify(7)) and it is read when an execution ends, so one
//! that changes nothing costs one system call however many files there are. Only where there is
//! no such list, or not of every directory, or where it had no room, is the workdir walked,
//! within bounds: then `more` may be said of what was not looked at, and a file that was changed
//! within a clock tick of the last time is told twice.
//!
//! As long as no file has been there, none can be but a new one, so the list is kept from the
//! first execution on that finds files. Without one a session ends sooner: the kernel waits for a
//! grace period of some 10 ms when the last descriptor of an inotify instance is closed.
//!
//! Not told are files in hidden directories at the top of the workdir (`.cache`, `.config`,
//! `.tmp`) and in any `__pycache__`: what tools leave there is nobody's result. Neither are files
//! that were written for the API, until the tenant's code changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use nix::sys::stat::FileStat;
use nix::time::{ClockId, clock_gettime};
use vivarium_protocol::message::{Changes, FileKind};

use super::{Workdir, entry, kind};

mod scan;

pub(crate) use scan::WATCHES_MAX;

/// The most files told of at one time.
const TOLD_MAX: usize = 1000;

/// The most names kept: more than are told, as some of them are gone again at the end.
const NAMES_MAX: usize = 4096;

/// The most directory entries, none of them a file, that are looked at again for each execution.
const UNWATCHED_MAX: usize = 64;

/// The most events read at a time, which is as many as the kernel keeps
/// (`fs.inotify.max_queued_events`, and one that says that there were more): code may make more as
/// fast as they are read.
const EVENTS_MAX: usize = 16_384 + 1;

/// How long events may gather before they are read: each reading wakes the agent.
const GATHER: Duration = Duration::from_millis(100);

/// Keeps track of the workdir.
#[derive(Debug)]
pub(crate) struct Tracker {
    inotify: Option<Inotify>,
    stage: Stage,
    watched: BTreeMap<WatchDescriptor, PathBuf>,
    changed: BTreeSet<PathBuf>,
    more: bool,
    /// Something may have been changed that no event told of.
    blind: bool,
    /// Events were lost, so it is not known any more what is watched.
    overflowed: bool,
    looked_at: usize,
    /// When events that are there are read.
    due: Option<Instant>,
    since: Tick,
    /// In [`Stage::Told`]: the files that were told of or passed over, with their times then.
    told: BTreeMap<PathBuf, Tick>,
}

/// A time as the host's kernel stamps files with: seconds and nanoseconds.
type Tick = (i64, i64);

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There has been no file yet: any that is found is new.
    NoFile,
    /// Files were told of, each as it was then, and nothing is watched yet.
    Told,
    /// All directories are watched, or else it is known that they are not.
    Watching,
}

/// Which files of a directory that is looked through are changed.
#[derive(Debug, Clone, Copy)]
enum Changed {
    /// All: the directory is new.
    All,
    /// None: it was there at the start.
    None,
    /// Those whose status changed since: also one that was renamed, or made to look old.
    Since(Tick),
    /// Those that are not as they were told of: that is no question of clocks, of which those that
    /// stamp files lag behind those that are read. What was changed again within the tick in which
    /// it was told of is missed.
    NotAsTold,
}

impl Tracker {
    /// Keeps track of `workdir` from now on.
    pub(crate) fn new(workdir: &Workdir) -> Self {
        let mut tracker = Self {
            inotify: None,
            stage: Stage::NoFile,
            watched: BTreeMap::new(),
            changed: BTreeSet::new(),
            more: false,
            blind: false,
            overflowed: false,
            looked_at: 0,
            due: None,
            since: now(),
            told: BTreeMap::new(),
        };
        tracker.look_for_files(workdir);
        tracker.more = false;
        if !std::mem::take(&mut tracker.changed).is_empty() || tracker.blind {
            tracker.watch_all(workdir, Changed::None);
            tracker.more = false;
        }
        tracker
    }

    /// What to poll for reading.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().filter(|_| self.due.is_none()).map(AsFd::as_fd)
    }

    /// There are events: they are read in a while.
    pub(crate) fn gather(&mut self) {
        self.due = Some(Instant::now() + GATHER);
    }

    /// When they are read.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Reads the events that are there.
    pub(crate) fn read(&mut self, workdir: &Workdir) {
        self.due = None;
        let mut read = 0;
        while read < EVENTS_MAX
            && let Some(Ok(events)) = self.inotify.as_ref().map(Inotify::read_events)
        {
            read += events.len();
            for event in events {
                self.note(workdir, event);
            }
        }
    }

    /// An execution begins.
    pub(crate) fn begin(&mut self, workdir: &Workdir) {
        if self.stage == Stage::Told {
            self.watch_all(workdir, Changed::NotAsTold);
        }
        if self.blind {
            // What was written for the API until now is not to be told.
            self.since = now();
        }
    }

    /// The file at `path` was written for the API.
    pub(crate) fn own(&mut self, workdir: &Workdir, path: &Path) {
        match self.stage {
            Stage::NoFile => self.watch_all(workdir, Changed::All),
            Stage::Told => self.watch_all(workdir, Changed::NotAsTold),
            Stage::Watching => self.read(workdir),
        }
        self.changed.remove(path);
    }

    /// What was made or changed since this was last asked for. Files with the inodes `hidden`
    /// are not there.
    pub(crate) fn take(&mut self, workdir: &Workdir, hidden: &[u64]) -> Changes {
        match self.stage {
            Stage::NoFile => self.look_for_files(workdir),
            Stage::Told => self.watch_all(workdir, Changed::NotAsTold),
            Stage::Watching => self.read(workdir),
        }
        if self.blind && self.stage == Stage::Watching {
            self.walk(workdir);
        }
        let found = !self.changed.is_empty() || self.blind || self.looked_at > UNWATCHED_MAX;
        let mut changes = Changes { files: Vec::new(), more: self.more };
        for path in std::mem::take(&mut self.changed) {
            let Ok(stat) = workdir.stat(&path) else {
                continue; // gone again
            };
            if kind(&stat) != FileKind::File {
                continue;
            }
            if self.stage == Stage::NoFile {
                self.told.insert(path.clone(), changed_at(&stat));
            }
            if hidden.contains(&stat.st_ino) {
                continue;
            }
            if changes.files.len() == TOLD_MAX {
                changes.more = true;
                break;
            }
            changes.files.push(entry(path.to_string_lossy().into_owned(), &stat));
        }
        self.more = false;
        self.looked_at = 0;
        self.since = now();
        if self.stage == Stage::NoFile && found {
            self.stage = Stage::Told;
            if changes.more {
                // Not all that is there is known, so what is not as it was can not be told later.
                self.watch_all(workdir, Changed::None);
                self.more = false;
                self.looked_at = 0;
            }
        }
        changes
    }

    /// Finds every file, and watches nothing.
    fn look_for_files(&mut self, workdir: &Workdir) {
        self.look_through(workdir, PathBuf::new(), Changed::All);
    }

    /// Watches every directory, and notes what is changed in them.
    fn watch_all(&mut self, workdir: &Workdir, changed: Changed) {
        self.stage = Stage::Watching;
        self.inotify = start();
        self.blind = self.inotify.is_none();
        self.look_through(workdir, PathBuf::new(), changed);
        self.told.clear();
    }

    /// Finds by their times what no event told of, and watches what was not watched.
    fn walk(&mut self, workdir: &Workdir) {
        if std::mem::take(&mut self.overflowed) {
            self.watched.clear();
            self.inotify = start();
        }
        self.blind = self.inotify.is_none();
        self.look_through(workdir, PathBuf::new(), Changed::Since(self.since));
    }

    fn note(&mut self, workdir: &Workdir, event: InotifyEvent) {
        use AddWatchFlags as Flags;
        if event.mask.contains(Flags::IN_Q_OVERFLOW) {
            self.blind = true;
            self.overflowed = true;
        }
        if event.mask.contains(Flags::IN_IGNORED) {
            self.watched.remove(&event.wd);
        }
        let (Some(directory), Some(name)) = (self.watched.get(&event.wd), event.name) else {
            return;
        };
        let path = directory.join(&name);
        let gone = event.mask.intersects(Flags::IN_DELETE | Flags::IN_MOVED_FROM);
        if event.mask.contains(Flags::IN_ISDIR) {
            if gone {
                self.forget(&path);
            } else if event.mask.intersects(Flags::IN_CREATE | Flags::IN_MOVED_TO)
                && !is_tools_own(directory, &name)
            {
                self.look_through(workdir, path, Changed::All);
            }
        } else if gone {
            self.changed.remove(&path);
        } else {
            self.add(path);
        }
    }

    fn add(&mut self, path: PathBuf) {
        if self.changed.len() < NAMES_MAX {
            self.changed.insert(path);
        } else if !self.changed.contains(&path) {
            self.more = true;
        }
    }

    /// The directory at `path` is no longer there. What was in it may be elsewhere, of which
    /// another event tells.
    fn forget(&mut self, path: &Path) {
        let inotify = self.inotify.as_ref();
        self.watched.retain(|watch, directory| {
            let inside = directory.starts_with(path);
            if inside && let Some(inotify) = inotify {
                // Gone already where the directory was removed.
                let _gone = inotify.rm_watch(*watch).is_err();
            }
            !inside
        });
        self.changed.retain(|changed| !changed.starts_with(path));
    }
}

fn start() -> Option<Inotify> {
    // All sessions of a user share `fs.inotify.max_user_instances`, 128 by default.
    Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()
}

/// The time by the clock that files are stamped by, which moves in ticks. Since Linux 6.13 a file
/// that was looked at before it was changed is stamped by the finer one.
fn now() -> Tick {
    time(ClockId::CLOCK_REALTIME_COARSE)
}

fn time(clock: ClockId) -> Tick {
    clock_gettime(clock).map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec()))
}

/// When the status of a file changed last.
const fn changed_at(stat: &FileStat) -> Tick {
    (stat.st_ctime, stat.st_ctime_nsec)
}

/// Whether a directory is one that tools keep for themselves.
fn is_tools_own(parent: &Path, name: &OsStr) -> bool {
    let at_the_top = parent.as_os_str().is_empty();
    name == "__pycache__" || (at_the_top && name.as_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests;
