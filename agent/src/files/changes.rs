//! Which files of the workdir were made, changed or deleted since the last report.
//!
//! The host's kernel queues events (inotify(7)) that are read when an execution ends, so an execution
//! that changes nothing costs one system call however many files there are. The workdir is scanned,
//! within bounds, only where there is no inotify instance, where not every directory is watched, or
//! where the queue overflowed: then `more` may stand for what was not scanned, and a file that was
//! changed within a clock tick of the last report is reported twice.
//!
//! As long as the workdir has no file, every file found is new, so nothing is watched before the first
//! execution that leaves files. Without inotify a session ends sooner: the kernel waits for a grace
//! period of some 10 ms when the last descriptor of an inotify instance is closed.
//!
//! Deletions are known by their events alone, and by a comparison with the files of the first report. Of
//! a directory that is moved away, its own path is reported.
//!
//! Not reported are files in hidden directories at the top of the workdir (`.cache`, `.config`,
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
use vivarium_protocol::discard;
use vivarium_protocol::message::{Changes, FileKind};

use super::{Workdir, entry, kind};

mod deletions;
mod scan;

use deletions::Deletions;
pub(crate) use scan::WATCHES_MAX;
pub(super) use scan::kind_of;

/// The most names kept: more than are reported, as some files are gone again at the end.
const NAMES_MAX: usize = 4096;

/// The most directory entries, none of them a file, that are scanned again for each execution.
const RESCANNED_MAX: usize = 64;

/// The most events read at a time, which is as many as the kernel keeps
/// (`fs.inotify.max_queued_events`, and one that says that there were more): code may make more as
/// fast as they are read.
const EVENTS_MAX: usize = 16_384 + 1;

/// How long events gather before they are read: each reading wakes the agent.
const READ_DELAY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct ChangeTracker {
    inotify: Option<Inotify>,
    stage: TrackingStage,
    watched: BTreeMap<WatchDescriptor, PathBuf>,
    changed: BTreeSet<PathBuf>,
    deletions: Deletions,
    more: bool,
    /// A change may have had no event.
    missed_events: bool,
    /// Events were lost, so it is unknown what is watched.
    overflowed: bool,
    scanned: usize,
    /// When to read the queued events.
    due: Option<Instant>,
    since: Timestamp,
    /// In [`TrackingStage::Reported`]: the files that were reported or excluded, with their times then.
    reported: BTreeMap<PathBuf, Timestamp>,
}

/// A time as the host's kernel stamps files with: seconds and nanoseconds.
type Timestamp = (i64, i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrackingStage {
    /// There has been no file yet: any that is found is new.
    Empty,
    /// Files were reported, each as it was then, and nothing is watched yet.
    Reported,
    /// All directories are watched, or `missed_events` says that some are not.
    Watching,
}

#[derive(Debug, Clone, Copy)]
enum Changed {
    All,
    /// The directory was there at the start.
    None,
    /// Those whose status changed since: also one that was renamed, or made to look old.
    Since(Timestamp),
    /// Those that are not as they were reported: compared without a clock, since the clock that stamps
    /// files lags behind those that can be read. A change within the tick of the report is missed.
    SinceReported,
}

impl ChangeTracker {
    pub(crate) fn new(workdir: &Workdir) -> Self {
        let mut tracker = Self {
            inotify: None,
            stage: TrackingStage::Empty,
            watched: BTreeMap::new(),
            changed: BTreeSet::new(),
            deletions: Deletions::default(),
            more: false,
            missed_events: false,
            overflowed: false,
            scanned: 0,
            due: None,
            since: now(),
            reported: BTreeMap::new(),
        };
        tracker.scan_for_files(workdir);
        tracker.more = false;
        if !std::mem::take(&mut tracker.changed).is_empty() || tracker.missed_events {
            tracker.watch_all(workdir, Changed::None);
            tracker.more = false;
        }
        tracker
    }

    /// The inotify instance to poll for reading.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().filter(|_| self.due.is_none()).map(AsFd::as_fd)
    }

    /// Events are queued: reads them in a while.
    pub(crate) fn schedule_read(&mut self) {
        self.due = Some(Instant::now() + READ_DELAY);
    }

    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn read(&mut self, workdir: &Workdir) {
        self.due = None;
        let mut read = 0;
        while read < EVENTS_MAX
            && let Some(Ok(events)) = self.inotify.as_ref().map(Inotify::read_events)
        {
            read += events.len();
            for event in events {
                self.apply_event(workdir, event);
            }
        }
    }

    pub(crate) fn begin(&mut self, workdir: &Workdir) {
        if self.stage == TrackingStage::Reported {
            self.watch_all(workdir, Changed::SinceReported);
        }
        if self.missed_events {
            // Excludes what was written for the API until now.
            self.since = now();
        }
    }

    /// Leaves what is at `path` out of the next report: it was written for the API.
    pub(crate) fn exclude(&mut self, workdir: &Workdir, path: &Path) {
        match self.stage {
            TrackingStage::Empty => self.watch_all(workdir, Changed::All),
            TrackingStage::Reported => self.watch_all(workdir, Changed::SinceReported),
            TrackingStage::Watching => self.read(workdir),
        }
        self.changed.retain(|changed| !changed.starts_with(path));
    }

    /// Leaves what was at `path` out of the next report: it was removed for the API.
    pub(crate) fn exclude_deletion(&mut self, workdir: &Workdir, path: &Path) {
        match self.stage {
            TrackingStage::Empty => {}
            TrackingStage::Reported => {
                self.reported.retain(|reported, _| !reported.starts_with(path));
            }
            TrackingStage::Watching => {
                self.read(workdir);
                self.deletions.exclude(path);
            }
        }
    }

    /// Takes what was made, changed or deleted since the last call, without files of the inodes `hidden`.
    pub(crate) fn take(&mut self, workdir: &Workdir, hidden: &[u64]) -> Changes {
        match self.stage {
            TrackingStage::Empty => self.scan_for_files(workdir),
            TrackingStage::Reported => self.watch_all(workdir, Changed::SinceReported),
            TrackingStage::Watching => self.read(workdir),
        }
        if self.missed_events && self.stage == TrackingStage::Watching {
            self.walk(workdir);
        }
        let found = !self.changed.is_empty() || self.missed_events || self.scanned > RESCANNED_MAX;
        let mut changes = Changes { more: self.more, ..Changes::default() };
        for path in std::mem::take(&mut self.changed) {
            let Ok(stat) = workdir.stat(&path) else {
                continue; // gone again
            };
            if kind(&stat) != FileKind::File {
                continue;
            }
            if self.stage == TrackingStage::Empty {
                self.reported.insert(path.clone(), changed_at(&stat));
            }
            if hidden.contains(&stat.st_ino) {
                continue;
            }
            if changes.files.len() == Changes::FILES_MAX {
                changes.more = true;
                break;
            }
            changes.files.push(entry(path.to_string_lossy().into_owned(), &stat));
        }
        let (gone, more) = self.deletions.take();
        let room = Changes::FILES_MAX.saturating_sub(changes.files.len());
        let mut gone = gone.into_iter().filter(|path| workdir.stat(path).is_err());
        let deleted = gone.by_ref().take(room).map(|path| path.to_string_lossy().into_owned());
        changes.deleted = deleted.collect();
        changes.more |= more || gone.next().is_some();
        self.more = false;
        self.scanned = 0;
        self.since = now();
        if self.stage == TrackingStage::Empty && found {
            self.stage = TrackingStage::Reported;
            if changes.more {
                // Not every file is in `reported`, so [`Changed::SinceReported`] can not be used later.
                self.watch_all(workdir, Changed::None);
                self.more = false;
                self.scanned = 0;
            }
        }
        changes
    }

    fn scan_for_files(&mut self, workdir: &Workdir) {
        self.scan(workdir, PathBuf::new(), Changed::All);
    }

    /// Watches every directory, and adds the files in it that count as changed.
    fn watch_all(&mut self, workdir: &Workdir, changed: Changed) {
        self.stage = TrackingStage::Watching;
        self.inotify = start();
        self.missed_events = self.inotify.is_none();
        self.scan(workdir, PathBuf::new(), changed);
        for path in std::mem::take(&mut self.reported).into_keys() {
            if workdir.stat(&path).is_err() {
                self.deletions.removed(&path);
            }
        }
    }

    /// Finds changes without an event by their times, and watches what was not watched.
    fn walk(&mut self, workdir: &Workdir) {
        if std::mem::take(&mut self.overflowed) {
            self.watched.clear();
            self.inotify = start();
        }
        self.missed_events = self.inotify.is_none();
        self.scan(workdir, PathBuf::new(), Changed::Since(self.since));
    }

    fn apply_event(&mut self, workdir: &Workdir, event: InotifyEvent) {
        use AddWatchFlags as Flags;
        if event.mask.contains(Flags::IN_Q_OVERFLOW) {
            self.missed_events = true;
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
        if event.mask.contains(Flags::IN_CREATE) {
            self.deletions.created(&path);
        }
        if event.mask.contains(Flags::IN_ISDIR) {
            if is_tool_directory(directory, &name) {
                return;
            }
            if gone {
                if event.mask.contains(Flags::IN_MOVED_FROM) {
                    self.deletions.removed(&path);
                }
                self.forget_directory(&path);
            } else if event.mask.intersects(Flags::IN_CREATE | Flags::IN_MOVED_TO) {
                // Its files had no event of their own.
                self.deletions.created(&path);
                self.scan(workdir, path, Changed::All);
            }
        } else if gone {
            self.deletions.removed(&path);
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

    /// The directory at `path` is no longer there. If its content has moved, another event says so.
    fn forget_directory(&mut self, path: &Path) {
        let inotify = self.inotify.as_ref();
        self.watched.retain(|watch, directory| {
            let inside = directory.starts_with(path);
            if inside && let Some(inotify) = inotify {
                discard(inotify.rm_watch(*watch), "gone already where the directory was removed");
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

/// The time by the clock that stamps files, which moves in ticks. Since Linux 6.13 a file that was
/// queried before it was changed is stamped by a finer clock.
fn now() -> Timestamp {
    time(ClockId::CLOCK_REALTIME_COARSE)
}

fn time(clock: ClockId) -> Timestamp {
    clock_gettime(clock).map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec()))
}

const fn changed_at(stat: &FileStat) -> Timestamp {
    (stat.st_ctime, stat.st_ctime_nsec)
}

/// Whether a directory is one for the files of tools.
fn is_tool_directory(parent: &Path, name: &OsStr) -> bool {
    let at_the_top = parent.as_os_str().is_empty();
    name == "__pycache__" || (at_the_top && name.as_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests;
