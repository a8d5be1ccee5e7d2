//! The launcher's connection to the zygote, the process of a template, which forks the session's
//! kernels.
//!
//! Nothing of the session passes through the zygote's memory: policy and descriptors go to the forked
//! child, over a socket made for that child. The child continues only when the launcher, having
//! received that it has joined the session, says so; so a fork that was given up and replaced by an
//! executed kernel never leaves two kernels.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_protocol::discard;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::leaf::Leaf;
use vivarium_protocol::message::{
    Failure, ForkNumber, FromForkedChild, FromZygote, Handoff, SpawnNumber, ToZygote,
};
use vivarium_protocol::outcome::{KernelEnd, Usage};
use vivarium_protocol::policy::Policy;
use vivarium_protocol::stream;

use crate::failure::{OrFailure, failure};
use crate::sandbox::{Context, SessionNamespaces};
use crate::{children, spawn, sys};

/// How long a zygote may take to fork before the kernel is executed instead: a hundred times what a
/// fork takes. The supervisor ends a zygote that hangs.
const FORK_TIMEOUT_MS: u16 = 1000;

/// How long the process that inherits the children of a zygote that has ended may take to reap them.
/// The agent looks at those that are not reaped by then.
const REAP_TIMEOUT_MS: u16 = 100;

/// The index of the kernel program among the descriptors of an executed kernel. A forked kernel has it
/// already.
const PROGRAM: usize = 4;

#[derive(Debug)]
pub(super) struct ZygoteClient {
    socket: UnixStream,
    is_open: bool,
    handoff: Handoff,
    forks: ForkNumber,
    /// The first kernel, requested before its session exists.
    first: Option<PendingFork>,
    kernels: Vec<ForkedKernel>,
}

#[derive(Debug)]
struct PendingFork {
    fork: ForkNumber,
    /// To and from the forked child.
    child: UnixStream,
}

#[derive(Debug)]
struct ForkedKernel {
    fork: ForkNumber,
    number: SpawnNumber,
    pidfd: OwnedFd,
}

impl ZygoteClient {
    /// Requests the first kernel at once, so that the zygote forks it while its session is being made.
    /// That child waits, and has nothing of a session yet; if it is not needed it ends with this.
    pub(super) fn new(socket: UnixStream, policy: &Policy, is_ahead: bool) -> Self {
        let handoff = Handoff { policy: policy.clone(), leaf: Leaf::FIRST };
        let (forks, first, kernels) = (0, None, Vec::new());
        let mut zygote = Self { socket, is_open: true, handoff, forks, first, kernels };
        // An error is found when the kernel is needed.
        zygote.first = zygote.request_fork(is_ahead).ok();
        zygote
    }

    /// Has a kernel forked, with descriptors as for an executed one.
    ///
    /// # Errors
    /// Why there is no kernel. Nothing is left of it then.
    pub(super) fn fork(
        &mut self,
        context: &Context,
        namespaces: &SessionNamespaces,
        number: SpawnNumber,
        fds: &[OwnedFd],
    ) -> Result<(), Failure> {
        // Taken also if this fails: a child that waits for a session has to end.
        let first = self.first.take();
        if !self.is_open {
            return Err(failure("fork a kernel", "its template has ended"));
        }
        let PendingFork { fork, child } = match first {
            Some(pending) => pending,
            None => self.request_fork(false)?,
        };
        self.hand_over(&child, context, namespaces, fds)?;
        let pidfd = recv_joined(&child)?;
        (&child).write_all(&[1]).or_failure("have the kernel go on")?;
        self.kernels.push(ForkedKernel { fork, number, pidfd });
        Ok(())
    }

    fn request_fork(&mut self, is_ahead: bool) -> Result<PendingFork, Failure> {
        let (child, theirs) = UnixStream::pair().or_failure("make a socket for a fork")?;
        self.forks += 1;
        let message = ToZygote::Fork { number: self.forks, is_ahead };
        stream::send_with(&self.socket, &message, &[theirs], MAX_SMALL_FRAME_BYTES)
            .or_failure("ask for a fork")?;
        Ok(PendingFork { fork: self.forks, child })
    }

    /// Waits until the child has started, and hands it what belongs to the session.
    fn hand_over(
        &mut self,
        child: &UnixStream,
        context: &Context,
        namespaces: &SessionNamespaces,
        fds: &[OwnedFd],
    ) -> Result<(), Failure> {
        let leaf = spawn::open_leaf(context)?;
        self.handoff.leaf = context.leaf;
        if let (FromForkedChild::Joined, _) = recv(child)? {
            return Err(failure("fork a kernel", "it spoke out of turn"));
        }
        let own = fds.iter().enumerate().filter(|(index, _)| *index != PROGRAM);
        let own = own.map(|(_, fd)| fd.as_fd());
        let leaf = leaf.iter().map(AsFd::as_fd);
        let given: Vec<_> = namespaces.descriptors().chain(leaf).chain(own).collect();
        stream::send_with(child, &self.handoff, &given, MAX_FRAME_BYTES)
            .or_failure("hand over what belongs to the session")
    }

    /// What to poll: the zygote's socket, or, where the zygote has ended, the kernels that it left,
    /// whose end nobody else reports.
    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        if self.is_open {
            return vec![self.socket.as_fd()];
        }
        self.kernels.iter().map(|kernel| kernel.pidfd.as_fd()).collect()
    }

    /// Reads what [`Self::fds`] were polled for: which kernels have ended.
    pub(super) fn read(&mut self) -> Vec<(SpawnNumber, KernelEnd, Usage)> {
        if self.is_open {
            match stream::receive::<FromZygote>(&self.socket, MAX_SMALL_FRAME_BYTES) {
                Ok(FromZygote::Ended { fork, end, usage }) => {
                    let ended = self.kernels.iter().position(|kernel| kernel.fork == fork);
                    let ended = ended.map(|index| self.kernels.swap_remove(index));
                    return ended.map(|kernel| (kernel.number, end, usage)).into_iter().collect();
                }
                Err(_) => self.is_open = false,
            }
        }
        let (ended, alive): (Vec<_>, Vec<_>) = std::mem::take(&mut self.kernels)
            .into_iter()
            .partition(|kernel| is_readable(kernel.pidfd.as_fd(), PollTimeout::ZERO));
        self.kernels = alive;
        let exit = |kernel: ForkedKernel| (kernel.number, end_of(&kernel.pidfd), Usage::default());
        ended.into_iter().map(exit).collect()
    }
}

/// How a kernel ended that another process reaps. The host's kernel says so by the pidfd once it has
/// been reaped (Linux 6.15).
fn end_of(pidfd: &OwnedFd) -> KernelEnd {
    match sys::exit_status(pidfd.as_fd()) {
        Ok(None) => {
            // POLLHUP, which poll(2) always reports.
            let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::empty())];
            discard(
                poll(&mut fds, PollTimeout::from(REAP_TIMEOUT_MS)),
                "the exit status is asked for in any case",
            );
            sys::exit_status(pidfd.as_fd()).ok().flatten()
        }
        known => known.ok().flatten(),
    }
    .map_or(KernelEnd::Unseen, children::end)
}

fn recv_joined(child: &UnixStream) -> Result<OwnedFd, Failure> {
    let (_, fds) = recv(child)?;
    fds.into_iter().next().ok_or_else(|| failure("fork a kernel", "it sent no pidfd"))
}

/// Waits for the forked child's next message; [`FromForkedChild::Failed`] is an error.
fn recv(socket: &UnixStream) -> Result<(FromForkedChild, Vec<OwnedFd>), Failure> {
    if !is_readable(socket.as_fd(), PollTimeout::from(FORK_TIMEOUT_MS)) {
        return Err(failure("fork a kernel", format!("no answer within {FORK_TIMEOUT_MS} ms")));
    }
    match stream::receive_with::<FromForkedChild>(socket, MAX_SMALL_FRAME_BYTES) {
        Ok((FromForkedChild::Failed(failed), _)) => Err(failed),
        Ok(received) => Ok(received),
        Err(error) => Err(failure("receive from a forked kernel", error)),
    }
}

fn is_readable(fd: BorrowedFd<'_>, timeout: PollTimeout) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    loop {
        match poll(&mut fds, timeout) {
            Err(Errno::EINTR) => {}
            found => return found.is_ok_and(|count| count > 0),
        }
    }
}
