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
    BirthNumber, Failure, FromNewborn, FromNursery, Inheritance, ToNursery,
};
use vivarium_protocol::outcome::{KernelEnd, Usage};

use super::failure;
use crate::birth;
use crate::sandbox::{Context, Inside};
use crate::stream;

/// How long a template may take to fork before the kernel is started without it: a hundred times
/// what it takes. The supervisor ends a template that hangs.
const PATIENCE_MS: u16 = 2000;

/// Where the kernel program is among the descriptors of a kernel that is executed. One that is
/// forked has it already.
const PROGRAM: usize = 4;

/// A template, and the kernels that it forked for this session.
#[derive(Debug)]
pub(super) struct Nursery {
    socket: UnixStream,
    is_open: bool,
    inheritance: Inheritance,
    born: Vec<(BirthNumber, OwnedFd)>,
}

impl Nursery {
    /// The template at the other end of `socket`.
    pub(super) fn new(socket: UnixStream, context: &Context) -> Self {
        let policy = context.policy.clone();
        Self { socket, is_open: true, inheritance: Inheritance { policy }, born: Vec::new() }
    }

    /// Has a kernel forked, with descriptors as for one that is executed.
    ///
    /// # Errors
    /// Why there is none. It has then left nothing behind.
    pub(super) fn fork(
        &mut self,
        context: &Context,
        inside: &Inside,
        birth: BirthNumber,
        fds: &[OwnedFd],
    ) -> Result<(), Failure> {
        if !self.is_open {
            return Err(failure("fork a kernel", "its template has ended"));
        }
        let socket = self.ask(context, inside, birth, fds)?;
        let pidfd = hear_born(&socket)?;
        (&socket).write_all(&[1]).map_err(|error| failure("have the kernel go on", error))?;
        self.born.push((birth, pidfd));
        Ok(())
    }

    /// Asks for a birth, and hands over what belongs to it; the socket to hear of it on.
    fn ask(
        &self,
        context: &Context,
        inside: &Inside,
        birth: BirthNumber,
        fds: &[OwnedFd],
    ) -> Result<UnixStream, Failure> {
        let ask = |error| failure("ask for a fork", error);
        let leaf = birth::open_leaf(context)?;
        let (ours, theirs) =
            UnixStream::pair().map_err(|error| failure("make a socket for a birth", error))?;
        let message = ToNursery::Fork(birth);
        stream::send_with(&self.socket, &message, &[theirs.as_raw_fd()], MAX_SMALL_FRAME_BYTES)
            .map_err(ask)?;
        drop(theirs);
        if let (FromNewborn::Born, _) = hear(&ours)? {
            return Err(failure("fork a kernel", "it spoke out of turn"));
        }
        let own = fds.iter().enumerate().filter(|(index, _)| *index != PROGRAM);
        let own = own.map(|(_, fd)| fd.as_raw_fd());
        let joined = inside.descriptors().map(|fd| fd.as_raw_fd());
        let leaf = leaf.iter().map(AsRawFd::as_raw_fd);
        let given: Vec<RawFd> = joined.chain(leaf).chain(own).collect();
        stream::send_with(&ours, &self.inheritance, &given, MAX_FRAME_BYTES).map_err(ask)?;
        Ok(ours)
    }

    /// What to poll: the template's socket, or, where the template has ended, the kernels that it
    /// left, whose end nobody else will tell.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        if self.is_open {
            return vec![self.socket.as_fd()];
        }
        self.born.iter().map(|(_, pidfd)| pidfd.as_fd()).collect()
    }

    /// Something is there to be read: which kernels have ended.
    pub(super) fn read(&mut self) -> Vec<(BirthNumber, KernelEnd, Usage)> {
        if self.is_open {
            match stream::receive::<FromNursery>(&self.socket, MAX_SMALL_FRAME_BYTES) {
                Ok(FromNursery::Ended { birth, end, usage }) => {
                    self.born.retain(|(born, _)| *born != birth);
                    return vec![(birth, end, usage)];
                }
                Err(_) => self.is_open = false,
            }
        }
        let mut ended = Vec::new();
        self.born.retain(|(birth, pidfd)| {
            let alive = !is_readable(pidfd.as_fd(), PollTimeout::ZERO);
            if !alive {
                ended.push((*birth, KernelEnd::Unseen, Usage::default()));
            }
            alive
        });
        ended
    }
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
