//! The loop of a zygote that is ready: it returns when a launcher wants a fork, and tells launchers how
//! their kernels ended. It runs inside Python's process and calls nothing of Python's; the fork itself,
//! which Python has to prepare for, is the caller's to make. The engine's program needs no such preparation:
//! [`ZygoteServer::fork_kernels`] is the whole of it.
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
use nix::unistd::{Pid, getpid};
use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::message::{
    ForkNumber, FromForkedChild, FromTemplate, FromZygote, ToTemplate, ToZygote,
};
use vivarium_protocol::stream::{self, StreamError};

use super::forked_child::{ForkedChild, Source};
use super::pages;
use crate::children::Children;
use crate::failure::failure_to_fork;
use crate::image;
use crate::sandbox;
use crate::sys::{self, DescriptorTable, Ended, Forked, SingleThreaded, StartedWith};

type LauncherId = u64;

/// The epoll data of the supervisor's socket, and of the signalfd.
const CONTROL: LauncherId = 0;
const CHILDREN: LauncherId = 1;

/// How long nothing is asked of it before it makes a spare.
const SPARE_AFTER_MS: u16 = 20;

#[derive(Debug)]
pub(crate) enum ServeOutcome {
    /// The caller has to fork, and to call [`ZygoteServer::forked`] or [`ZygoteServer::fork_failed`], or,
    /// in the child, [`ZygoteServer::into_forked_child`].
    Fork,
    Closed,
}

/// A fork that the caller has to make.
#[derive(Debug)]
struct NextFork {
    purpose: Purpose,
    /// Where the kernel sends its pid.
    pid_receiver: UnixStream,
    pid_sender: UnixStream,
}

#[derive(Debug)]
enum Purpose {
    Kernel {
        launcher: LauncherId,
        fork: ForkNumber,
        request: UnixStream,
        is_ahead: bool,
    },
    /// Two ends of one socket.
    Spare {
        ours: UnixStream,
        theirs: UnixStream,
    },
}

/// A forked process that waits for a launcher's request.
#[derive(Debug)]
struct Spare {
    socket: UnixStream,
    pid_receiver: UnixStream,
}

impl NextFork {
    fn spare() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        Self::new(Purpose::Spare { ours, theirs })
    }

    fn new(purpose: Purpose) -> io::Result<Self> {
        let (pid_receiver, pid_sender) = UnixStream::pair()?;
        pid_receiver.set_nonblocking(true)?;
        Ok(Self { purpose, pid_receiver, pid_sender })
    }
}

#[derive(Debug)]
struct Joining {
    launcher: LauncherId,
    fork: ForkNumber,
    pid_receiver: UnixStream,
}

#[derive(Debug)]
pub(crate) struct ZygoteServer {
    pid: Pid,
    control: UnixStream,
    epoll: Epoll,
    children: Children,
    launchers: BTreeMap<LauncherId, UnixStream>,
    last_launcher: LauncherId,
    next: Option<NextFork>,
    spare: Option<Spare>,
    /// Whether a kernel was asked for since the last attempt to make a spare.
    wants_spare: bool,
    joining: Vec<Joining>,
    kernels: BTreeMap<Pid, (LauncherId, ForkNumber)>,
    started_with: StartedWith,
}

impl ZygoteServer {
    pub(crate) fn open(control: UnixStream) -> Result<Self, StreamError> {
        // Where there is no pid namespace a kernel's orphans become ours to reap: prctl(2).
        prctl::set_child_subreaper(true).map_err(io::Error::from)?;
        // Before Linux 6.14 a process executed by descriptor has the descriptor's number for a name.
        let program = std::fs::read_link("/proc/self/exe")?;
        let name = program.file_name().unwrap_or_default().as_bytes();
        let name = CString::new(name).map_err(io::Error::from)?;
        prctl::set_name(&name).map_err(io::Error::from)?;
        let children = Children::watch()?;
        let started_with = StartedWith::find()?;
        sandbox::prepare().map_err(|failed| io::Error::other(failed.to_string()))?;
        // For the forked children: what they receive is not for their tenants to find.
        sys::overwrite_freed_memory(true);
        pages::fill_gaps();
        pages::collapse();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(io::Error::from)?;
        for (fd, number) in [(control.as_fd(), CONTROL), (children.as_fd(), CHILDREN)] {
            epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, number)).map_err(io::Error::from)?;
        }
        // Requests come from now on, and with them the end: see super::end_with_supervisor.
        fcntl(&control, FcntlArg::F_SETFL(OFlag::empty())).map_err(io::Error::from)?;
        let memory: Vec<OwnedFd> = image::take_memory().into_iter().collect();
        stream::send_with(&control, &FromTemplate::Ready, &memory, MAX_SMALL_FRAME_BYTES)?;
        drop(memory);
        Ok(Self {
            pid: getpid(),
            control,
            epoll,
            children,
            launchers: BTreeMap::new(),
            last_launcher: CHILDREN,
            next: None,
            spare: None,
            wants_spare: true,
            joining: Vec::new(),
            kernels: BTreeMap::new(),
            started_with,
        })
    }

    pub(crate) fn serve(&mut self) -> Result<ServeOutcome, StreamError> {
        loop {
            let mut events = [EpollEvent::empty(); 32];
            let timeout = if self.wants_spare {
                EpollTimeout::from(SPARE_AFTER_MS)
            } else {
                EpollTimeout::NONE
            };
            let count = match self.epoll.wait(&mut events, timeout) {
                Err(Errno::EINTR) => continue,
                found => found.map_err(io::Error::from)?,
            };
            if count == 0 {
                self.wants_spare = false;
                // Where there are no descriptors left it does without one.
                self.next = NextFork::spare().ok();
                if self.next.is_some() {
                    return Ok(ServeOutcome::Fork);
                }
            }
            for event in events.iter().take(count) {
                match event.data() {
                    CONTROL => match stream::receive_with::<ToTemplate>(
                        &self.control,
                        MAX_SMALL_FRAME_BYTES,
                    ) {
                        Ok((ToTemplate::Serve, fds)) => self.add_launchers(fds)?,
                        Ok((ToTemplate::Ping(number), _)) => {
                            let pong = FromTemplate::Pong(number);
                            stream::send(&self.control, &pong, MAX_SMALL_FRAME_BYTES)?;
                        }
                        Err(StreamError::Closed) => return Ok(ServeOutcome::Closed),
                        Err(error) => return Err(error),
                    },
                    CHILDREN => self.reap(),
                    launcher => {
                        self.recv(launcher)?;
                        if self.next.is_some() {
                            return Ok(ServeOutcome::Fork);
                        }
                    }
                }
            }
        }
    }

    fn add_launchers(&mut self, fds: Vec<OwnedFd>) -> io::Result<()> {
        for fd in fds {
            let socket = UnixStream::from(fd);
            // A launcher that does not read is not waited for.
            socket.set_nonblocking(true)?;
            self.last_launcher = self.last_launcher.saturating_add(1);
            self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, self.last_launcher))?;
            self.launchers.insert(self.last_launcher, socket);
        }
        Ok(())
    }

    fn recv(&mut self, launcher: LauncherId) -> io::Result<()> {
        let Some(socket) = self.launchers.get(&launcher) else { return Ok(()) };
        match stream::receive_with::<ToZygote>(socket, MAX_SMALL_FRAME_BYTES) {
            Ok((ToZygote::Fork { number: fork, is_ahead }, fds)) => {
                if let Some(request) = fds.into_iter().next().map(UnixStream::from) {
                    self.give(launcher, fork, request, is_ahead)?;
                }
            }
            Err(_) => {
                // It has ended, and its session too. Closing takes it out of the epoll set.
                self.launchers.remove(&launcher);
            }
        }
        Ok(())
    }

    /// Has the spare take the request or, if there is none or it is gone, a fork that is yet to be made.
    fn give(
        &mut self,
        launcher: LauncherId,
        fork: ForkNumber,
        request: UnixStream,
        is_ahead: bool,
    ) -> io::Result<()> {
        self.wants_spare = true;
        let taken = self.spare.take().filter(|spare| {
            stream::send_with(&spare.socket, &(), &[&request], MAX_SMALL_FRAME_BYTES).is_ok()
        });
        match taken {
            Some(Spare { pid_receiver, .. }) => {
                self.joining.push(Joining { launcher, fork, pid_receiver });
            }
            None => {
                let purpose = Purpose::Kernel { launcher, fork, request, is_ahead };
                self.next = Some(NextFork::new(purpose)?);
            }
        }
        Ok(())
    }

    /// Serves, and forks by libc alone. Returns in each kernel, with what [`ForkedChild::become_kernel`] does; a
    /// template ends here.
    pub(crate) fn fork_kernels(mut self, thread: SingleThreaded) -> Vec<Vec<u8>> {
        loop {
            match self.serve() {
                Ok(ServeOutcome::Fork) => {}
                Ok(ServeOutcome::Closed) => sys::exit_now(0),
                Err(_) => sys::exit_now(1),
            }
            match sys::fork(thread) {
                Ok(Forked::Parent { .. }) => self.forked(),
                Ok(Forked::Child(_)) => break,
                Err(error) => self.fork_failed(error),
            }
        }
        match self.into_forked_child() {
            Some(child) => {
                let arguments = child.become_kernel();
                // The allocator is the whole program's, and what it frees from here on its tenant's.
                sys::overwrite_freed_memory(false);
                arguments
            }
            None => sys::exit_now(1),
        }
    }

    /// In the parent: the caller has forked.
    pub(crate) fn forked(&mut self) {
        match self.next.take() {
            Some(NextFork {
                purpose: Purpose::Kernel { launcher, fork, .. },
                pid_receiver,
                ..
            }) => {
                self.joining.push(Joining { launcher, fork, pid_receiver });
            }
            Some(NextFork { purpose: Purpose::Spare { ours, .. }, pid_receiver, .. }) => {
                self.spare = Some(Spare { socket: ours, pid_receiver });
            }
            None => {}
        }
    }

    pub(crate) fn fork_failed(&mut self, reason: io::Error) {
        if let Some(NextFork { purpose: Purpose::Kernel { request, .. }, .. }) = self.next.take() {
            let failed = FromForkedChild::Failed(failure_to_fork("fork a kernel", reason));
            stream::send_if_open(&request, &failed, MAX_SMALL_FRAME_BYTES);
        }
    }

    /// In the child, where it closes the server's descriptors. `None` if this is not a child of the server's.
    pub(crate) fn into_forked_child(mut self) -> Option<ForkedChild> {
        let table = DescriptorTable::after_fork_of(self.pid)?;
        let next = self.next.take();
        let started_with = self.started_with.clone();
        std::mem::forget(self);
        let NextFork { purpose, pid_receiver, pid_sender } = next?;
        std::mem::forget(pid_receiver);
        let source = match purpose {
            Purpose::Kernel { request: launcher, is_ahead, .. } => {
                Source::Launcher { launcher, is_ahead }
            }
            Purpose::Spare { ours, theirs } => {
                std::mem::forget(ours);
                Source::Zygote(theirs)
            }
        };
        ForkedChild::new(table, source, pid_sender, started_with).ok()
    }

    /// Reaps every child that has ended, and tells launchers of the kernels among them.
    fn reap(&mut self) {
        let ended = self.children.ended();
        // A kernel sends its pid before it can end.
        self.joining.retain(|Joining { launcher, fork, pid_receiver }| {
            match stream::receive::<i32>(pid_receiver, MAX_SMALL_FRAME_BYTES) {
                Ok(pid) => {
                    self.kernels.insert(Pid::from_raw(pid), (*launcher, *fork));
                    false
                }
                Err(StreamError::Io(error)) => error.kind() == io::ErrorKind::WouldBlock,
                // There is no kernel; the launcher has received the reason.
                Err(_) => false,
            }
        });
        for ended in ended {
            self.send_end(&ended);
        }
    }

    fn send_end(&mut self, ended: &Ended) {
        let Some((launcher, fork)) = self.kernels.remove(&ended.pid) else { return };
        let Some(launcher) = self.launchers.get(&launcher) else { return };
        let message = FromZygote::Ended { fork, end: ended.end(), usage: ended.usage() };
        stream::send_if_open(launcher, &message, MAX_SMALL_FRAME_BYTES);
    }
}
