//! The launcher's way to the template that its session's kernels are forked from.
//!
//! The template forks, and nothing of the session passes through its memory: policy and
//! descriptors go to the process that is to be the kernel, over a socket made for that. It goes on
//! only when the launcher, having heard that it is there, tells it to; so a birth that was given up
//! and done again without a template never leaves two kernels.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{
    Failure, ForkNumber, FromNewborn, FromNursery, Inheritance, SpawnNumber, ToNursery,
};
use vivarium_protocol::outcome::{KernelEnd, Usage};
use vivarium_protocol::policy::Policy;

use super::failure;
use crate::sandbox::{Context, Inside};
use crate::stream;
use crate::{children, spawn, sys};

/// How long a template may take to fork before the kernel is started without it: a hundred times
/// what it takes. The supervisor, which hears of that, ends a template that hangs.
const PATIENCE_MS: u16 = 1000;

/// How long who collects the children of a template that has ended may take for it. The agent looks
/// at what is not collected by then.
const COLLECTED_WITHIN_MS: u16 = 100;

/// Where the kernel program is among the descriptors of a kernel that is executed. One that is
/// forked has it already.
const PROGRAM: usize = 4;

/// A template, and the kernels that it forked for this session.
#[derive(Debug)]
pub(super) struct Nursery {
    socket: UnixStream,
    is_open: bool,
    inheritance: Inheritance,
    forks: ForkNumber,
    /// The first kernel, which was asked for before there is a session for it.
    first: Option<Asked>,
    born: Vec<Born>,
}

/// A kernel that was asked for.
#[derive(Debug)]
struct Asked {
    fork: ForkNumber,
    /// To and from the process that is to be it.
    request: UnixStream,
}

/// A kernel that is there.
#[derive(Debug)]
struct Born {
    fork: ForkNumber,
    birth: SpawnNumber,
    pidfd: OwnedFd,
}

impl Nursery {
    /// The template at the other end of `socket`, which forks the first kernel while its session is
    /// being made. That process waits, and has nothing of a session yet; if it is not needed it ends
    /// with this.
    pub(super) fn new(socket: UnixStream, policy: &Policy) -> Self {
        let inheritance = Inheritance { policy: policy.clone() };
        let (forks, first, born) = (0, None, Vec::new());
        let mut nursery = Self { socket, is_open: true, inheritance, forks, first, born };
        // What is wrong is found when the kernel is needed.
        nursery.first = nursery.ask().ok();
        nursery
    }

    /// Has a kernel forked, with descriptors as for one that is executed.
    ///
    /// # Errors
    /// Why there is none. It has then left nothing behind.
    pub(super) fn fork(
        &mut self,
        context: &Context,
        inside: &Inside,
        birth: SpawnNumber,
        fds: &[OwnedFd],
    ) -> Result<(), Failure> {
        // It goes, whatever comes of this: a process that waits for a session has to end.
        let first = self.first.take();
        if !self.is_open {
            return Err(failure("fork a kernel", "its template has ended"));
        }
        let Asked { fork, request } = match first {
            Some(asked) => asked,
            None => self.ask()?,
        };
        self.hand_over(&request, context, inside, fds)?;
        let pidfd = hear_born(&request)?;
        (&request).write_all(&[1]).map_err(|error| failure("have the kernel go on", error))?;
        self.born.push(Born { fork, birth, pidfd });
        Ok(())
    }

    /// Asks for a process that is to be a kernel.
    fn ask(&mut self) -> Result<Asked, Failure> {
        let (request, theirs) =
            UnixStream::pair().map_err(|error| failure("make a socket for a birth", error))?;
        self.forks += 1;
        let message = ToNursery::Fork(self.forks);
        stream::send_with(&self.socket, &message, &[theirs.as_raw_fd()], MAX_SMALL_FRAME_BYTES)
            .map_err(|error| failure("ask for a fork", error))?;
        Ok(Asked { fork: self.forks, request })
    }

    /// Waits until it is there, and hands it what belongs to the session.
    fn hand_over(
        &self,
        request: &UnixStream,
        context: &Context,
        inside: &Inside,
        fds: &[OwnedFd],
    ) -> Result<(), Failure> {
        let leaf = spawn::open_leaf(context)?;
        if let (FromNewborn::Born, _) = hear(request)? {
            return Err(failure("fork a kernel", "it spoke out of turn"));
        }
        let own = fds.iter().enumerate().filter(|(index, _)| *index != PROGRAM);
        let own = own.map(|(_, fd)| fd.as_raw_fd());
        let joined = inside.descriptors().map(|fd| fd.as_raw_fd());
        let leaf = leaf.iter().map(AsRawFd::as_raw_fd);
        let given: Vec<RawFd> = joined.chain(leaf).chain(own).collect();
        stream::send_with(request, &self.inheritance, &given, MAX_FRAME_BYTES)
            .map_err(|error| failure("hand over what belongs to the session", error))
    }

    /// What to poll: the template's socket, or, where the template has ended, the kernels that it
    /// left, whose end nobody else will tell.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        if self.is_open {
            return vec![self.socket.as_fd()];
        }
        self.born.iter().map(|kernel| kernel.pidfd.as_fd()).collect()
    }

    /// Something is there to be read: which kernels have ended.
    pub(super) fn read(&mut self) -> Vec<(SpawnNumber, KernelEnd, Usage)> {
        if self.is_open {
            match stream::receive::<FromNursery>(&self.socket, MAX_SMALL_FRAME_BYTES) {
                Ok(FromNursery::Ended { fork, end, usage }) => {
                    let ended = self.born.iter().position(|kernel| kernel.fork == fork);
                    let ended = ended.map(|index| self.born.swap_remove(index));
                    return ended
                        .map(|Born { birth, .. }| (birth, end, usage))
                        .into_iter()
                        .collect();
                }
                Err(_) => self.is_open = false,
            }
        }
        let (ended, alive): (Vec<_>, Vec<_>) = std::mem::take(&mut self.born)
            .into_iter()
            .partition(|kernel| is_readable(kernel.pidfd.as_fd(), PollTimeout::ZERO));
        self.born = alive;
        let told = |kernel: Born| (kernel.birth, end_by(&kernel.pidfd), Usage::default());
        ended.into_iter().map(told).collect()
    }
}

/// How a kernel ended that somebody else collects. The host's kernel tells by the pidfd, as soon as
/// that is done (Linux 6.15).
fn end_by(pidfd: &OwnedFd) -> KernelEnd {
    match sys::exit_status(pidfd.as_fd()) {
        Ok(None) => {
            // POLLHUP, which is always looked for.
            let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::empty())];
            let _late = poll(&mut fds, PollTimeout::from(COLLECTED_WITHIN_MS)).is_err();
            sys::exit_status(pidfd.as_fd()).ok().flatten()
        }
        known => known.ok().flatten(),
    }
    .map_or(KernelEnd::Unseen, children::end)
}

/// Waits for the word that the kernel is in the session; its pidfd.
fn hear_born(socket: &UnixStream) -> Result<OwnedFd, Failure> {
    let (_, fds) = hear(socket)?;
    fds.into_iter().next().ok_or_else(|| failure("fork a kernel", "it sent no pidfd"))
}

/// Waits for a word of the process that is to be the kernel, unless that is that it will not be.
fn hear(socket: &UnixStream) -> Result<(FromNewborn, Vec<OwnedFd>), Failure> {
    if !is_readable(socket.as_fd(), PollTimeout::from(PATIENCE_MS)) {
        return Err(failure("fork a kernel", format!("no answer within {PATIENCE_MS} ms")));
    }
    match stream::receive_with::<FromNewborn>(socket, MAX_SMALL_FRAME_BYTES) {
        Ok((FromNewborn::Failed(failed), _)) => Err(failed),
        Ok(word) => Ok(word),
        Err(error) => Err(failure("hear of a fork", error)),
    }
}

/// Whether there is something to be read, its end included, within this time.
fn is_readable(fd: BorrowedFd<'_>, timeout: PollTimeout) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    loop {
        match poll(&mut fds, timeout) {
            Err(Errno::EINTR) => {}
            found => return found.is_ok_and(|count| count > 0),
        }
    }
}
