//! The ends of a launcher's descendants.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{Pid, getpid};

use crate::sys::{self, Wait};
use crate::usage;

/// Whether nobody has the other end of the agent's socket any more.
pub(super) fn has_ended(agent: &UnixStream) -> bool {
    let mut agent = [PollFd::new(agent.as_fd(), PollFlags::empty())];
    poll(&mut agent, PollTimeout::ZERO).is_ok_and(|ended| ended > 0)
}

/// Waits for the agent's end. Other children have to be reaped meanwhile: a pid namespace,
/// and PID 1 of it, end only after every process in it has been waited for, and those spawned here
/// are the launcher's to wait for (pid_namespaces(7)).
pub(super) fn await_end(agent: Pid) -> ExitCode {
    while let Ok(Some(ended)) = sys::wait(Wait::ForAny) {
        if ended.pid == agent {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// Kills all that descends from this process, and returns when nothing is left: where there is no pid
/// namespace that the agent's end would end. Orphans are this process's children, as it is the nearest
/// subreaper (prctl(2)), so nothing is left once wait(2) knows of no child.
pub(super) fn end_descendants() {
    loop {
        let found = usage::kill_descendants(getpid());
        // A killed process, or its last living ancestor, ends as our child.
        let wait = if found { Wait::ForAny } else { Wait::IfAny };
        if sys::wait(wait).is_err() {
            return;
        }
    }
}
