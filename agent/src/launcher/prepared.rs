//! A session that is prepared before anybody asks for it: all its namespaces but the one of processes, with
//! its root put together in them.
//!
//! ```text
//! launcher ── clone3 with namespaces ──▶ keeper ── clone3, as the launcher's child ──▶ agent
//!                                          └─ fork ──▶ prepares, and ends
//! ```
//!
//! The same code does it as in an agent of a session that nothing was prepared for ([`sandbox::prepare_surroundings`]), in the
//! same order and with the same ids. The process in the middle has the launcher's id to the end, as only
//! that may put the agent into its cgroup. No tenant's code runs before the agent is there.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES};
use vivarium_protocol::message::{Failure, FromLauncher};
use vivarium_protocol::policy::Policy;
use vivarium_protocol::stream;

use super::end::end_descendants;
use super::{Agent, id_map};
use crate::failure::{OrFailure, failure, failure_to_fork};
use crate::leaf_control::LeafControl;
use crate::log::print_line;
use crate::sandbox::{self, Context, HostFacts, HostPaths, clone_diagnosis, clone_flags};
use crate::sys::{self, Forked, SingleThreaded, Wait};

/// How long the keeper may take to start an agent before the launcher does without it: a thousand times what that
/// takes.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

pub(super) enum Side {
    Launcher(Prepared),
    Agent(Agent),
}

/// In the launcher: what waits to become a session. Unless it does, nothing of it is left once this is dropped.
pub(super) struct Prepared {
    policy: Policy,
    paths: HostPaths,
    process: UnixStream,
    /// What [`Self::check_host`] found.
    host_is_same: Option<bool>,
    is_started: bool,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if !self.is_started {
            end_descendants();
        }
    }
}

/// Prepares a session of this policy. Returns once for the launcher, and, if that makes a session of it, once in
/// the agent.
pub(super) fn prepare(thread: SingleThreaded, policy: Policy) -> Result<Side, Failure> {
    if !policy.stores.is_empty() || policy.shares_host_network() {
        return Err(failure("prepare a session", "it is not to be one of its own"));
    }
    let host = HostFacts::capture().or_failure("read /proc/self/ns")?;
    let mut context = Context::new(policy, host);
    let paths = HostPaths::of(&context).or_failure("look at the host's paths")?;
    let (process, theirs) = UnixStream::pair().or_failure("socketpair")?;
    process.set_read_timeout(Some(ANSWERS_WITHIN)).or_failure("setsockopt")?;
    process.set_write_timeout(Some(ANSWERS_WITHIN)).or_failure("setsockopt")?;
    let namespaces = clone_flags(&context) - CloneFlags::CLONE_NEWPID;
    let forked = sys::clone3(thread, namespaces, None).map_err(clone_diagnosis)?;
    let Forked::Parent { child } = forked else {
        drop((process, paths));
        context.is_prepared = true;
        return Ok(Side::Agent(wait(thread, context, &theirs)));
    };
    id_map::write(&context, child)?;
    stream::send(&process, &FromLauncher::Mapped, MAX_SMALL_FRAME_BYTES)
        .or_failure("tell of the ids")?;
    let policy = context.policy;
    Ok(Side::Launcher(Prepared { policy, paths, process, host_is_same: None, is_started: false }))
}

impl Prepared {
    /// Waits for an order on `control`. `None` if this came to nothing before: its keeper has ended, or the
    /// host's mounts have changed, of which it holds copies: who unmounts a file system wants it free.
    pub(super) fn until_order(self, control: &UnixStream) -> Option<Self> {
        loop {
            let of = |fd, events| PollFd::new(fd, events);
            let mut fds = [
                of(control.as_fd(), PollFlags::POLLIN),
                of(self.process.as_fd(), PollFlags::POLLIN),
                self.paths.poll_mounts(),
            ];
            match poll(&mut fds, PollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                Err(_) => return None,
                Ok(_) => {}
            }
            let [_, keeper, mounts] = fds.map(|fd| fd.any() == Some(true));
            if keeper {
                if let Ok(Err(failed)) = self.answer() {
                    log_failure(&failed);
                }
                return None;
            }
            return (!mounts).then_some(self);
        }
    }

    pub(super) fn check_host(&mut self) {
        self.host_is_same = Some(self.paths.are_unchanged());
    }

    /// Has the agent started in its `leaf`. Returns it, and the socket to it.
    ///
    /// # Errors
    /// Why that can not be: among others, the host is not any more as it was.
    pub(super) fn start(
        mut self,
        context: &Context,
        leaf: Option<&OwnedFd>,
        first_leaf: Option<&LeafControl>,
    ) -> Result<(Pid, UnixStream), Failure> {
        let refused = |why: &'static str| Err(failure("use a prepared session", why));
        if !context.policy.has_surroundings_of(&self.policy) {
            return refused("it is another's");
        }
        if !self.host_is_same.unwrap_or_else(|| self.paths.are_unchanged()) {
            return refused("the host has changed");
        }
        let (to_agent, to_launcher) = UnixStream::pair().or_failure("socketpair")?;
        let own = context.program.iter().map(AsFd::as_fd).chain([to_launcher.as_fd()]);
        let control = first_leaf.into_iter().flat_map(LeafControl::descriptors);
        let given: Vec<_> = own.chain(leaf.map(AsFd::as_fd)).chain(control).collect();
        stream::send_with(&self.process, &context.policy, &given, MAX_FRAME_BYTES)
            .or_failure("hand over the session")?;
        let agent = self.answer()??;
        self.is_started = true;
        Ok((Pid::from_raw(agent), to_agent))
    }

    /// What the keeper says, which ends with it.
    fn answer(&self) -> Result<Result<i32, Failure>, Failure> {
        stream::receive(&self.process, MAX_SMALL_FRAME_BYTES).or_failure("wait for the agent")
    }
}

/// In the process that keeps what is prepared: returns in the agent, and nowhere else.
fn wait(thread: SingleThreaded, context: Context, launcher: &UnixStream) -> Agent {
    let end = |said: Result<i32, Failure>| -> ! {
        stream::send_if_open(launcher, &said, MAX_SMALL_FRAME_BYTES);
        sys::exit_now(i32::from(said.is_err()));
    };
    if let Err(failed) = prepare_and_keep(thread, &context, launcher) {
        end(Err(failed));
    }
    let received = receive(context, launcher).unwrap_or_else(|failed| end(Err(failed)));
    let (leaf, agent) = received;
    match sys::clone3_sibling(thread, CloneFlags::CLONE_NEWPID, leaf.as_ref().map(AsFd::as_fd)) {
        Ok(Forked::Parent { child }) => end(Ok(child.as_raw())),
        Ok(Forked::Child(_)) => agent,
        Err(error) => end(Err(failure_to_fork("clone3 into the session's cgroup", error))),
    }
}

fn prepare_and_keep(
    thread: SingleThreaded,
    context: &Context,
    launcher: &UnixStream,
) -> Result<(), Failure> {
    // A launcher that died before this call shows as the end of its socket.
    prctl::set_pdeathsig(Signal::SIGKILL).or_failure("prctl(PDEATHSIG)")?;
    let FromLauncher::Mapped =
        stream::receive(launcher, MAX_SMALL_FRAME_BYTES).or_failure("wait for the launcher")?
    else {
        return Err(failure("wait for the launcher", "it spoke out of turn"));
    };
    let forked = sys::clone3(thread, CloneFlags::empty(), None);
    let child = match forked.map_err(|error| failure_to_fork("fork", error))? {
        Forked::Parent { child } => child,
        Forked::Child(_) => {
            let prepared = sandbox::prepare_surroundings(context);
            if let Err(failed) = &prepared {
                print_line(failed);
            }
            sys::exit_now(i32::from(prepared.is_err()));
        }
    };
    let ended = sys::wait(Wait::For(child)).or_failure("wait for the preparation")?;
    if ended.is_some_and(|ended| ended.status.success()) {
        return Ok(());
    }
    Err(failure("prepare a session", "it failed"))
}

pub(super) fn log_failure(failed: &Failure) {
    print_line(&format!("a session was not prepared: {failed}"));
}

/// Receives a session, with the leaf of its agent.
fn receive(context: Context, launcher: &UnixStream) -> Result<(Option<OwnedFd>, Agent), Failure> {
    let (policy, fds) = stream::receive_with::<Policy>(launcher, MAX_FRAME_BYTES)
        .or_failure("wait for a session")?;
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or_else(|| failure("receive a session", "something lacks"));
    let (program, to_launcher) = (next()?, next()?.into());
    let (leaf, first_leaf) = match &policy.cgroup {
        Some(_) => {
            let leaf = next()?;
            let control = LeafControl::new(next()?, next()?);
            (Some(leaf), Some(control.or_failure("receive the first leaf's files")?))
        }
        None => (None, None),
    };
    let context = Context { policy, program: Some(program), ..context };
    Ok((leaf, Agent { context, to_launcher, first_leaf }))
}
