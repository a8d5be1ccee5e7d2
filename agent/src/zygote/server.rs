//! The loop of a template that is ready: it says when to fork for a launcher, and tells launchers
//! how their kernels ended. It runs inside Python's process and calls nothing of Python's; the fork
//! itself, which Python has to prepare for, is the caller's to make.
//!
//! It is single-threaded and waits for nobody: what it reads comes from the supervisor and from
//! launchers, in small messages sent at once.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::prctl;
use nix::unistd::Pid;
use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::message::{
    ForkNumber, FromNewborn, FromNursery, FromTemplate, ToNursery, ToTemplate,
};

use super::forked_child::Entrant;
use super::pages;
use crate::children::Children;
use crate::launch::failure_to_fork;
use crate::sandbox;
use crate::stream::{self, StreamError};
use crate::sys::{self, Ended, StartedWith};

/// A launcher, by its number.
type LinkNumber = u64;

/// What epoll gives for the supervisor's socket, and for the end of children.
const CONTROL: LinkNumber = 0;
const CHILDREN: LinkNumber = 1;

/// Why the loop is left.
#[derive(Debug)]
pub(crate) enum Left {
    /// The process is to be forked for a birth. [`Nursery::forked`] or [`Nursery::not_forked`] has
    /// to follow, or, in the process that is forked, [`Nursery::entrant`].
    ToFork,
    /// The supervisor let go.
    Over,
}

/// A birth that was asked for.
#[derive(Debug)]
struct Asked {
    link: LinkNumber,
    fork: ForkNumber,
    /// The launcher's, for this birth.
    request: UnixStream,
    /// Where the kernel says which process it is.
    told: UnixStream,
    /// The kernel's end of that.
    tells: UnixStream,
}

/// A birth whose process was forked and has not said yet which one is the kernel.
#[derive(Debug)]
struct Entering {
    link: LinkNumber,
    fork: ForkNumber,
    told: UnixStream,
}

/// The state of a template.
#[derive(Debug)]
pub(crate) struct Nursery {
    control: UnixStream,
    epoll: Epoll,
    children: Children,
    links: BTreeMap<LinkNumber, UnixStream>,
    last_link: LinkNumber,
    asked: Option<Asked>,
    entering: Vec<Entering>,
    born: BTreeMap<Pid, (LinkNumber, ForkNumber)>,
    started_with: StartedWith,
}

impl Nursery {
    /// Says that the template is ready.
    ///
    /// # Errors
    /// If the system refuses what it needs, or the supervisor is gone.
    pub(crate) fn open(control: UnixStream) -> Result<Self, StreamError> {
        // Where there is no pid namespace a kernel's orphans become ours, who collects them: prctl(2).
        prctl::set_child_subreaper(true).map_err(io::Error::from)?;
        // Executed by descriptor, it has the descriptor's number for a name before Linux 6.14.
        let program = std::fs::read_link("/proc/self/exe")?;
        let name = program.file_name().unwrap_or_default().as_bytes();
        let name = CString::new(name).map_err(io::Error::from)?;
        prctl::set_name(&name).map_err(io::Error::from)?;
        let children = Children::watch()?;
        let started_with = StartedWith::find()?;
        sandbox::prepare().map_err(|failed| io::Error::other(failed.to_string()))?;
        // For those that are forked: what they receive is not their tenants' to find.
        sys::overwrite_freed_memory();
        pages::fill_gaps();
        pages::collapse();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(io::Error::from)?;
        for (fd, number) in [(control.as_fd(), CONTROL), (children.as_fd(), CHILDREN)] {
            epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, number)).map_err(io::Error::from)?;
        }
        // Requests come from now on, and the end is read where they are: see super::end_with_supervisor.
        fcntl(&control, FcntlArg::F_SETFL(OFlag::empty())).map_err(io::Error::from)?;
        stream::send(&control, &FromTemplate::Ready, MAX_SMALL_FRAME_BYTES)?;
        Ok(Self {
            control,
            epoll,
            children,
            links: BTreeMap::new(),
            last_link: CHILDREN,
            asked: None,
            entering: Vec::new(),
            born: BTreeMap::new(),
            started_with,
        })
    }

    /// Serves until a birth is asked for, or the supervisor lets go.
    ///
    /// # Errors
    /// If the system fails it; the template is then to end.
    pub(crate) fn serve(&mut self) -> Result<Left, StreamError> {
        loop {
            let mut events = [EpollEvent::empty(); 32];
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                found => found.map_err(io::Error::from)?,
            };
            for event in events.iter().take(count) {
                match event.data() {
                    CONTROL => match stream::receive_with::<ToTemplate>(
                        &self.control,
                        MAX_SMALL_FRAME_BYTES,
                    ) {
                        Ok((ToTemplate::Serve, fds)) => self.add(fds)?,
                        Ok((ToTemplate::Ping(number), _)) => {
                            let pong = FromTemplate::Pong(number);
                            stream::send(&self.control, &pong, MAX_SMALL_FRAME_BYTES)?;
                        }
                        Err(StreamError::Closed) => return Ok(Left::Over),
                        Err(error) => return Err(error),
                    },
                    CHILDREN => self.reap(),
                    link => {
                        self.hear(link)?;
                        if self.asked.is_some() {
                            return Ok(Left::ToFork);
                        }
                    }
                }
            }
        }
    }

    /// Takes up a launcher.
    fn add(&mut self, fds: Vec<OwnedFd>) -> io::Result<()> {
        for fd in fds {
            let socket = UnixStream::from(fd);
            // One that does not read is not waited for.
            socket.set_nonblocking(true)?;
            self.last_link = self.last_link.saturating_add(1);
            self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, self.last_link))?;
            self.links.insert(self.last_link, socket);
        }
        Ok(())
    }

    /// Hears a launcher.
    fn hear(&mut self, number: LinkNumber) -> io::Result<()> {
        let Some(link) = self.links.get(&number) else { return Ok(()) };
        match stream::receive_with::<ToNursery>(link, MAX_SMALL_FRAME_BYTES) {
            Ok((ToNursery::Fork(fork), fds)) => {
                if let Some(request) = fds.into_iter().next().map(UnixStream::from) {
                    let (told, tells) = UnixStream::pair()?;
                    told.set_nonblocking(true)?;
                    self.asked = Some(Asked { link: number, fork, request, told, tells });
                }
            }
            Err(_) => {
                // It is gone, and its session with it. Closing takes it out of the epoll set.
                self.links.remove(&number);
            }
        }
        Ok(())
    }

    /// The process was forked that was to be.
    pub(crate) fn forked(&mut self) {
        let asked = self.asked.take();
        self.entering.extend(asked.map(|Asked { link, fork, told, .. }| Entering {
            link,
            fork,
            told,
        }));
    }

    /// It could not be.
    pub(crate) fn not_forked(&mut self, reason: io::Error) {
        if let Some(Asked { request, .. }) = self.asked.take() {
            let failed = FromNewborn::Failed(failure_to_fork("fork for a birth", reason));
            // A launcher that is gone needs no telling.
            let _gone = stream::send(&request, &failed, MAX_SMALL_FRAME_BYTES).is_err();
        }
    }

    /// What the process is that was forked. Its descriptors are closed by that, with all others.
    pub(crate) fn entrant(mut self) -> Option<Entrant> {
        let asked = self.asked.take();
        let started_with = self.started_with.clone();
        std::mem::forget(self);
        asked.map(|Asked { request, told, tells, .. }| {
            std::mem::forget(told);
            Entrant { request, told: tells, started_with }
        })
    }

    /// Collects every child that has ended, and tells of the kernels among them.
    fn reap(&mut self) {
        let ended = self.children.ended();
        // A kernel says who it is before it can end.
        self.entering.retain(|Entering { link, fork, told }| {
            match stream::receive::<i32>(told, MAX_SMALL_FRAME_BYTES) {
                Ok(pid) => {
                    self.born.insert(Pid::from_raw(pid), (*link, *fork));
                    false
                }
                Err(StreamError::Io(error)) => error.kind() == io::ErrorKind::WouldBlock,
                // There is none: why, the launcher was told.
                Err(_) => false,
            }
        });
        for ended in ended {
            self.tell(&ended);
        }
    }

    fn tell(&mut self, ended: &Ended) {
        let Some((link, fork)) = self.born.remove(&ended.pid) else { return };
        let Some(link) = self.links.get(&link) else { return };
        let told = FromNursery::Ended { fork, end: ended.end(), usage: ended.usage() };
        // A launcher that does not listen any more is on its way out.
        let _gone = stream::send(link, &told, MAX_SMALL_FRAME_BYTES).is_err();
    }
}
