//! The launcher: makes a session's namespaces and its agent, and stays outside them to let
//! kernels and commands be born.
//!
//! It is single-threaded, started by the supervisor with an empty environment and the control
//! socket as its standard input. A tenant's process has to be born outside: only a process
//! outside can put it straight into its cgroup ([`birth`]), and only one that has the id of the
//! user namespace's owner can then enter the session.
//!
//! It must never act on anything tenant code says: all it hears is `Spawn` from the agent.

mod birth;
mod idmap;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Pid;
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::frame::{MAX_FRAME_BYTES, MAX_SMALL_FRAME_BYTES, MAX_SPAWN_FRAME_BYTES};
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{
    BirthNumber, Failure, FromAgent, FromLauncher, Launch, ToLauncher,
};
use vivarium_protocol::outcome::{KernelEnd, Usage};

use crate::sandbox::{Context, Inside, Outside, clone_diagnosis, clone_flags};
use crate::sys::{self, Wait};
use crate::{init, stream};

/// The `launch` subcommand.
pub(crate) fn main() -> ExitCode {
    let control = UnixStream::from(sys::take_stdin());
    match run(&control) {
        Ok(code) => code,
        Err(failure) => {
            // If the supervisor is gone there is nobody left to tell.
            let _gone =
                stream::send(&control, &FromAgent::Failed(failure), MAX_FRAME_BYTES).is_err();
            ExitCode::FAILURE
        }
    }
}

/// A failure that is no layer's.
pub(crate) fn failure(operation: &str, error: impl std::fmt::Display) -> Failure {
    Failure {
        layer: None,
        operation: operation.to_owned(),
        reason: error.to_string(),
        fix: String::new(),
    }
}

fn run(control: &UnixStream) -> Result<ExitCode, Failure> {
    // Sanitise first: nothing inherited is looked at before it is gone.
    sys::close_from(3).map_err(|error| failure("close inherited descriptors", error))?;
    sys::clear_environment().map_err(|error| failure("clear the environment", error))?;
    // What is made here is for the session's ids. A service's own mask (UMask=0077) would keep
    // the kernel out of directories that are the agent's.
    umask(Mode::from_bits_truncate(0o022));
    let context = receive_policy(control)?;

    // Processes whose first parent is gone become ours, so that their end is told by wait(2).
    prctl::set_child_subreaper(true).map_err(|error| failure("prctl(SUBREAPER)", error))?;
    let (to_agent, to_launcher) =
        UnixStream::pair().map_err(|error| failure("socketpair", error))?;
    let leaf = birth::open_leaf(context.policy.cgroup.as_ref().map(|scope| &*scope.agent))?;
    let flags = u64::try_from(clone_flags(&context).bits()).unwrap_or_default();
    let cloned = sys::clone3(flags, leaf.as_ref().map(AsFd::as_fd)).map_err(|error| {
        if flags == 0 {
            failure("clone3 into the session's cgroup", error)
        } else {
            clone_diagnosis(&error)
        }
    })?;
    let Some(agent) = cloned else {
        drop(to_agent);
        return Ok(init::main(&context, control, to_launcher));
    };
    drop(to_launcher);
    if context.applies(Layer::Namespaces) {
        idmap::write(&context, agent)?;
    }
    let inside = Inside::of(&context, agent)
        .map_err(|error| failure("open the session's namespaces", error))?;
    stream::send(&to_agent, &FromLauncher::Mapped, MAX_SMALL_FRAME_BYTES)
        .map_err(|error| failure("tell the agent of its ids", error))?;
    // From here on the agent alone holds the control socket: its end must be the session's.
    let released = release(control);
    released.and_then(|()| serve(&context, &to_agent, agent, &inside))
}

/// Receives the policy and checks it once more at the door.
fn receive_policy(control: &UnixStream) -> Result<Context, Failure> {
    let launch: Launch = stream::receive(control, MAX_FRAME_BYTES)
        .map_err(|error| failure("receive the policy", error))?;
    if launch.protocol_version != PROTOCOL_VERSION {
        let reason = format!(
            "the supervisor speaks version {}, this agent {PROTOCOL_VERSION}: install both from \
             the same release",
            launch.protocol_version
        );
        return Err(failure("agree on the protocol", reason));
    }
    launch.policy.validate().map_err(|error| failure("validate the policy", error))?;
    let outside = Outside::capture().map_err(|error| failure("read /proc/self/ns", error))?;
    Ok(Context { policy: launch.policy, outside })
}

/// Lets go of the launcher's copy of the control socket: /dev/null takes its number.
fn release(control: &UnixStream) -> Result<(), Failure> {
    let null = open_null().map_err(|error| failure("open /dev/null", error))?;
    sys::replace(control.as_fd(), null.as_fd())
        .map_err(|error| failure("release the control socket", error))
}

/// /dev/null, for reading.
pub(crate) fn open_null() -> std::io::Result<OwnedFd> {
    Ok(std::fs::File::open("/dev/null")?.into())
}

/// Serves the agent until it ends.
fn serve(
    context: &Context,
    to_agent: &UnixStream,
    agent: Pid,
    inside: &Inside,
) -> Result<ExitCode, Failure> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block().map_err(|error| failure("block SIGCHLD", error))?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(|error| failure("signalfd", error))?;
    let mut born = Vec::new();
    loop {
        if reap(&children, to_agent, agent, &mut born) {
            return Ok(ExitCode::SUCCESS);
        }
        if !wait_for_either(to_agent.as_fd(), children.as_fd())? {
            continue;
        }
        match stream::receive_with::<ToLauncher>(to_agent, MAX_SPAWN_FRAME_BYTES) {
            Ok((ToLauncher::Spawn { birth, program }, fds)) => {
                match birth::give_birth(context, inside, &program, &fds)? {
                    Some(pid) => born.push((birth, pid)),
                    None => {
                        let end = KernelEnd::NotStarted("it was not born".to_owned());
                        tell_end(to_agent, birth, end, Usage::default());
                    }
                }
            }
            // The agent's end of the socket closes with the agent: its end follows.
            Err(_) => return Ok(await_end(agent)),
        }
    }
}

/// Waits for the agent's end. Everybody else's has to be collected meanwhile: a pid namespace,
/// and PID 1 of it, end only after every process in it has been waited for, and those born here
/// are the launcher's to wait for (pid_namespaces(7)).
fn await_end(agent: Pid) -> ExitCode {
    while let Ok(Some(ended)) = sys::wait(Wait::ForAny) {
        if ended.pid == agent {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// Waits for a message (`true`) or for a child (`false`).
fn wait_for_either(messages: BorrowedFd<'_>, children: BorrowedFd<'_>) -> Result<bool, Failure> {
    let mut fds =
        [PollFd::new(messages, PollFlags::POLLIN), PollFd::new(children, PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(failure("poll", error)),
    }
    let [messages, children] = &fds;
    Ok(children.any() != Some(true) && messages.any() == Some(true))
}

/// Collects every child that has ended and tells the agent of those that were `born` for it;
/// whether the agent itself is among them. Without a pid namespace the tenant's orphans come
/// here too.
fn reap(
    children: &SignalFd,
    to_agent: &UnixStream,
    agent: Pid,
    born: &mut Vec<(BirthNumber, Pid)>,
) -> bool {
    while let Ok(Some(_)) = children.read_signal() {}
    let mut agent_ended = false;
    while let Ok(Some(ended)) = sys::wait(Wait::IfAny) {
        agent_ended |= ended.pid == agent;
        if let Some(index) = born.iter().position(|(_, pid)| *pid == ended.pid) {
            let (birth, _) = born.swap_remove(index);
            let usage = Usage { cpu_us: ended.cpu_us, memory_peak_bytes: ended.memory_peak_bytes };
            tell_end(to_agent, birth, end_of(ended.status), usage);
        }
    }
    agent_ended
}

/// How a process ended.
fn end_of(status: ExitStatus) -> KernelEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => KernelEnd::Exited(code),
        (None, Some(signal)) => KernelEnd::Signaled { signal, by_agent: false },
        (None, None) => KernelEnd::NotStarted(format!("it ended by {status}")),
    }
}

/// Tells the agent how a process ended. An agent that is gone needs no telling: its own end
/// comes next.
fn tell_end(to_agent: &UnixStream, birth: BirthNumber, end: KernelEnd, usage: Usage) {
    let told = FromLauncher::Exited { birth, end, usage };
    let _gone = stream::send(to_agent, &told, MAX_SMALL_FRAME_BYTES).is_err();
}
