//! The loop of a template that is ready: it forks for launchers, and tells them how their kernels
//! ended. It runs inside Python's process and calls nothing of Python's.
//!
//! It is single-threaded and waits for nobody: what it reads comes from the supervisor and from
//! launchers, in small messages sent at once.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::prctl;
use nix::unistd::Pid;
use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::message::{
    BirthNumber, FromNewborn, FromNursery, FromTemplate, ToNursery, ToTemplate,
};

use super::newborn::Entrant;
use super::pages;
use crate::children::Children;
use crate::launch::failure;
use crate::stream::{self, StreamError};
use crate::sys::{self, Ended};

/// A launcher, by its number.
type LinkNumber = u64;

/// What epoll gives for the supervisor's socket, and for the end of children.
const CONTROL: LinkNumber = 0;
const CHILDREN: LinkNumber = 1;

/// Why the loop is left.
#[derive(Debug)]
pub(crate) enum Left {
    /// This is a process that was forked for a birth.
    AsEntrant(Entrant),
    /// The supervisor let go.
    Over,
}

/// A process that joins a session and forks the kernel.
struct Entering {
    pid: Pid,
    link: LinkNumber,
    birth: BirthNumber,
    /// Where it says which process that is, before it ends.
    told: UnixStream,
}

/// The state of a template.
pub(crate) struct Nursery {
    control: UnixStream,
    epoll: Epoll,
    children: Children,
    links: BTreeMap<LinkNumber, UnixStream>,
    last_link: LinkNumber,
    entering: Vec<Entering>,
    born: BTreeMap<Pid, (LinkNumber, BirthNumber)>,
}

impl Nursery {
    /// Says that the template is ready.
    ///
    /// # Errors
    /// If the system refuses what it needs, or the supervisor is gone.
    pub(crate) fn open(control: UnixStream) -> Result<Self, StreamError> {
        // What an entrant forks becomes ours as the entrant ends: prctl(2).
        prctl::set_child_subreaper(true).map_err(io::Error::from)?;
        let children = Children::watch()?;
        pages::collapse();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(io::Error::from)?;
        for (fd, number) in [(control.as_fd(), CONTROL), (children.as_fd(), CHILDREN)] {
            epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, number)).map_err(io::Error::from)?;
        }
        stream::send(&control, &FromTemplate::Ready, MAX_SMALL_FRAME_BYTES)?;
        Ok(Self {
            control,
            epoll,
            children,
            links: BTreeMap::new(),
            last_link: CHILDREN,
            entering: Vec::new(),
            born: BTreeMap::new(),
        })
    }

    /// Serves until the supervisor lets go. Returns in each process that is forked, too.
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
                        if let Some(entrant) = self.hear(link) {
                            return Ok(Left::AsEntrant(entrant));
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

    /// Hears a launcher, and forks for it; `Some` in the process that was forked.
    fn hear(&mut self, number: LinkNumber) -> Option<Entrant> {
        let link = self.links.get(&number)?;
        match stream::receive_with::<ToNursery>(link, MAX_SMALL_FRAME_BYTES) {
            Ok((ToNursery::Fork(birth), fds)) => {
                let mut fds = fds.into_iter();
                let request = UnixStream::from(fds.next()?);
                self.fork(number, birth, request, fds.next())
            }
            Err(_) => {
                // It is gone, and its session with it. Closing takes it out of the epoll set.
                self.links.remove(&number);
                None
            }
        }
    }

    fn fork(
        &mut self,
        link: LinkNumber,
        birth: BirthNumber,
        request: UnixStream,
        leaf: Option<OwnedFd>,
    ) -> Option<Entrant> {
        let forked = UnixStream::pair()
            .and_then(|(ours, theirs)| {
                ours.set_nonblocking(true)?;
                Ok((sys::clone3(0, leaf.as_ref().map(AsFd::as_fd))?, ours, theirs))
            })
            .map_err(|error| failure("clone3 into the kernel's cgroup", error));
        match forked {
            Ok((None, _, told)) => Some(Entrant { request, told }),
            Ok((Some(pid), told, _)) => {
                self.entering.push(Entering { pid, link, birth, told });
                None
            }
            Err(failed) => {
                // A launcher that is gone needs no telling.
                let failed = FromNewborn::Failed(failed);
                let _gone = stream::send(&request, &failed, MAX_SMALL_FRAME_BYTES).is_err();
                None
            }
        }
    }

    /// Collects every child that has ended, and tells of the kernels among them.
    fn reap(&mut self) {
        // A kernel may be collected before the entrant that told of it, though it ended later.
        let mut kernels = Vec::new();
        for ended in self.children.ended() {
            match self.entering.iter().position(|entering| entering.pid == ended.pid) {
                Some(index) => {
                    let Entering { link, birth, told, .. } = self.entering.swap_remove(index);
                    // One that forked nothing said why to the launcher.
                    if let Ok(pid) = stream::receive::<i32>(&told, MAX_SMALL_FRAME_BYTES) {
                        self.born.insert(Pid::from_raw(pid), (link, birth));
                    }
                }
                None => kernels.push(ended),
            }
        }
        for ended in kernels {
            self.tell(&ended);
        }
    }

    fn tell(&mut self, ended: &Ended) {
        let Some((link, birth)) = self.born.remove(&ended.pid) else { return };
        let Some(link) = self.links.get(&link) else { return };
        let told = FromNursery::Ended { birth, end: ended.end(), usage: ended.usage() };
        // A launcher that does not listen any more is on its way out.
        let _gone = stream::send(link, &told, MAX_SMALL_FRAME_BYTES).is_err();
    }
}
