//! Changes below a directory, sent as they come.
//!
//! The host's kernel queues events (inotify(7)). They gather for a moment, those that cancel or repeat each
//! other become one, and go over the watcher's own socket in frames. What is bounded: the directories
//! watched, the entries looked at, and the events that wait for a slow client. Where a bound is reached, or the
//! kernel's queue overflowed, the client is told ([`FileEventKind::Overflow`]) and has to look for itself.
//!
//! Directories are opened as everything beneath a root is, and watched by their descriptors, so a link
//! in the place of one is never followed.

mod events;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use nix::unistd::{read, write};
use vivarium_protocol::discard;
use vivarium_protocol::frame;
use vivarium_protocol::message::{FileEventKind, FileKind, FileReply, WATCH_FRAME_BYTES};

use self::events::Pending;
use super::changes::kind_of;
use super::new_file::is_fresh_name;
use super::{FileError, WATCHES_MAX, Workdir, checked, is_own_directory, open_beneath, shown};

/// The most watchers of a session at one time.
pub(crate) const WATCHERS_MAX: usize = 4;

/// How long events gather.
const READ_DELAY: Duration = Duration::from_millis(50);

/// The most entries looked at for the directories among them, at the start and after each event.
const SCANNED_MAX: usize = 10_000;

/// The most readings of events in one step; each is of 4 KiB.
const READS_MAX: usize = 256;

const EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_CLOSE_WRITE)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_ONLYDIR);

#[derive(Debug)]
pub(crate) struct Watcher {
    socket: OwnedFd,
    inotify: Inotify,
    /// The directory it is for.
    top: PathBuf,
    recursive: bool,
    watched: BTreeMap<WatchDescriptor, PathBuf>,
    /// When to read the queued events.
    due: Option<Instant>,
    pending: Pending,
    /// A directory or file that went away, of which the next event may say where to.
    moving: Option<(u32, PathBuf, bool)>,
    /// A frame, and how much of it was sent.
    frame: Vec<u8>,
    sent: usize,
    ended: bool,
}

impl Watcher {
    pub(crate) fn start(
        workdir: &Workdir,
        path: &str,
        recursive: bool,
        socket: OwnedFd,
    ) -> Result<(Self, FileReply), FileError> {
        let top = if path.is_empty() { PathBuf::new() } else { checked(path)? };
        fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mut watcher = Self {
            socket,
            inotify: new_inotify()?,
            top,
            recursive,
            watched: BTreeMap::new(),
            due: None,
            pending: Pending::new(workdir.prefix),
            moving: None,
            frame: Vec::new(),
            sent: 0,
            ended: false,
        };
        watcher.watch_top(workdir)?;
        Ok((watcher, FileReply::Watching))
    }

    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What to wait for: events, room for them, and the client's end.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let waits = self.sent < self.frame.len();
        let flags = if waits { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
        let events = self.due.is_none().then(|| (self.inotify.as_fd(), PollFlags::POLLIN));
        events.into_iter().chain([(self.socket.as_fd(), flags)])
    }

    /// Does what can be done. Returns whether that was the end: of the directory, or of the client.
    pub(crate) fn step(&mut self, workdir: &Workdir) -> bool {
        match read(&self.socket, &mut [0; 16]) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            // It has nothing to say.
            Ok(_) | Err(_) => return true,
        }
        match self.due {
            Some(due) if due <= Instant::now() => {
                self.due = None;
                self.read_events(workdir);
            }
            Some(_) => {}
            None if self.has_events() => self.due = Some(Instant::now() + READ_DELAY),
            None => {}
        }
        self.send()
    }

    fn has_events(&self) -> bool {
        let mut polled = [PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    fn send(&mut self) -> bool {
        loop {
            let rest = self.frame.get(self.sent..).unwrap_or_default();
            if rest.is_empty() {
                let events = self.pending.take();
                if events.is_empty() {
                    return self.ended;
                }
                // Its paths are bounded, and so is their number.
                let Ok(frame) = frame::encode(&events, WATCH_FRAME_BYTES) else { return true };
                (self.frame, self.sent) = (frame, 0);
                continue;
            }
            match write(&self.socket, rest) {
                Ok(count) => self.sent += count,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return false,
                Err(_) => return true,
            }
        }
    }

    fn read_events(&mut self, workdir: &Workdir) {
        for _ in 0..READS_MAX {
            let Ok(events) = self.inotify.read_events() else { break };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    // What follows is of watches that are no more.
                    self.start_anew(workdir);
                    return;
                }
                self.apply(workdir, event);
            }
        }
        self.settle_move(None);
    }

    fn apply(&mut self, workdir: &Workdir, event: InotifyEvent) {
        use AddWatchFlags as Flags;
        let InotifyEvent { wd, mask, cookie, name } = event;
        if mask.contains(Flags::IN_IGNORED)
            && self.watched.remove(&wd).is_some_and(|path| path == self.top)
        {
            self.ended = true;
        }
        let (Some(directory), Some(name)) = (self.watched.get(&wd), name) else { return };
        let is_directory = mask.contains(Flags::IN_ISDIR);
        if is_directory && self.is_own(workdir, directory, &name) {
            return;
        }
        let path = directory.join(&name);
        let is_fresh = is_fresh_name(&name);
        if mask.contains(Flags::IN_MOVED_FROM) {
            self.settle_move(None);
            self.moving = Some((cookie, path, is_directory));
            return;
        }
        if mask.contains(Flags::IN_MOVED_TO) {
            let from = self.settle_move(Some(cookie));
            if is_directory {
                let (found, from) = (path.clone(), from.as_deref());
                self.move_watches(from, &found);
                self.pending.moved(from, &path, true);
                if from.is_none() {
                    self.watch_below(workdir, found, true);
                }
            } else {
                // An upload under its temporary name is none to be told of.
                let from = from.filter(|from| !from.file_name().is_some_and(is_fresh_name));
                self.pending.moved(from.as_deref(), &path, false);
            }
            return;
        }
        self.settle_move(None);
        if is_fresh {
            return;
        }
        if mask.contains(Flags::IN_CREATE) {
            self.pending.add(FileEventKind::Created, &path, is_directory);
            if is_directory {
                self.watch_below(workdir, path, true);
            }
        } else if mask.contains(Flags::IN_DELETE) {
            if is_directory {
                self.forget(&path);
            }
            self.pending.add(FileEventKind::Deleted, &path, is_directory);
        } else {
            self.pending.add(FileEventKind::Modified, &path, false);
        }
    }

    /// The path that moved if it is the one with this `cookie`; else that one has left.
    fn settle_move(&mut self, cookie: Option<u32>) -> Option<PathBuf> {
        let (moved, path, is_directory) = self.moving.take()?;
        if cookie == Some(moved) {
            return Some(path);
        }
        if is_directory {
            self.forget(&path);
        }
        if !path.file_name().is_some_and(is_fresh_name) {
            self.pending.add(FileEventKind::Deleted, &path, is_directory);
        }
        None
    }

    fn is_own(&self, workdir: &Workdir, directory: &Path, name: &OsStr) -> bool {
        workdir.prefix.is_empty() && directory.as_os_str().is_empty() && is_own_directory(name)
    }

    /// Directories that moved are still watched, under their new paths.
    fn move_watches(&mut self, from: Option<&Path>, to: &Path) {
        let Some(from) = from else { return };
        for path in self.watched.values_mut() {
            if let Ok(below) = path.strip_prefix(from) {
                *path = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
            }
        }
    }

    fn forget(&mut self, path: &Path) {
        let inotify = &self.inotify;
        self.watched.retain(|watch, directory| {
            let inside = directory.starts_with(path);
            if inside {
                discard(inotify.rm_watch(*watch), "gone already where the directory was removed");
            }
            !inside
        });
    }

    /// Events were lost, so it is unknown what is watched.
    fn start_anew(&mut self, workdir: &Workdir) {
        self.pending.overflow();
        self.moving = None;
        self.watched.clear();
        match new_inotify() {
            Ok(inotify) => {
                self.inotify = inotify;
                self.ended |= self.watch_top(workdir).is_err();
            }
            Err(_) => self.ended = true,
        }
    }

    fn watch_top(&mut self, workdir: &Workdir) -> Result<(), FileError> {
        let name = if self.top.as_os_str().is_empty() { Path::new(".") } else { &self.top };
        open_beneath(workdir, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        self.watch_below(workdir, self.top.clone(), false);
        if self.watched.is_empty() {
            return Err(FileError::Aborted("the host has no more watches of files"));
        }
        Ok(())
    }

    /// Watches the directory at `path`, and those below it. Their entries are new if `is_new`.
    fn watch_below(&mut self, workdir: &Workdir, path: PathBuf, is_new: bool) {
        if is_new && !self.recursive {
            return;
        }
        let (mut next, mut scanned) = (vec![path], 0);
        while let Some(path) = next.pop() {
            match self.watch_one(workdir, &path, is_new, &mut next, &mut scanned) {
                // It is gone again, or has become something else, which has an event of its own.
                Ok(())
                | Err(FileError::NotFound | FileError::NotDirectory | FileError::Escapes) => {}
                Err(_) => self.pending.overflow(),
            }
        }
    }

    fn watch_one(
        &mut self,
        workdir: &Workdir,
        path: &Path,
        is_new: bool,
        next: &mut Vec<PathBuf>,
        scanned: &mut usize,
    ) -> Result<(), FileError> {
        let name = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let directory = open_beneath(workdir, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        if self.watched.len() >= WATCHES_MAX {
            return Err(FileError::Aborted("too many directories"));
        }
        // inotify_add_watch(2) takes a path only: this one leads to the directory that is open. It is
        // watched before it is read, so that nothing is missed in between.
        let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let watch = self.inotify.add_watch(link.as_str(), EVENTS)?;
        self.watched.insert(watch, path.to_owned());
        if !self.recursive {
            return Ok(());
        }
        for found in Dir::from_fd(directory.try_clone()?)?.iter() {
            let found = found?;
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            *scanned += 1;
            if *scanned > SCANNED_MAX {
                return Err(FileError::Aborted("too many entries"));
            }
            let is_directory = kind_of(&found, &directory, name) == FileKind::Directory;
            if is_directory && self.is_own(workdir, path, name) {
                continue;
            }
            if is_new && !is_fresh_name(name) {
                self.pending.add(FileEventKind::Created, &path.join(name), is_directory);
            }
            if is_directory {
                next.push(path.join(name));
            }
        }
        Ok(())
    }
}

fn new_inotify() -> Result<Inotify, FileError> {
    // All sessions of a user share `fs.inotify.max_user_instances`.
    Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
        .map_err(|_| FileError::Aborted("the host has no more watchers of files"))
}

#[cfg(test)]
mod tests;
