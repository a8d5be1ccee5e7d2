//! The end of a kernel, and of everything it started.

use std::os::fd::AsFd;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};
use vivarium_protocol::discard;
use vivarium_protocol::leaf::{FIRST_CONTEXT, Leaf};
use vivarium_protocol::message::{Changes, Failure, FromAgent, Origin};
use vivarium_protocol::outcome::{KernelEnd, Usage};

use super::{EXIT_TIMEOUT, Session};
use crate::children;
use crate::failure::failure;
use crate::kernel::{Kernel, KernelStage, ReadOutcome};
use crate::sys::{self, Wait};
use crate::usage::{self, ProcessState};

impl Session<'_> {
    /// Kills the kernel and all the session's processes. Reports `reason` as its end, unless it turns
    /// out to have ended by itself before.
    pub(super) fn kill_kernel(&mut self, reason: KernelEnd) {
        self.kernel.kill_reason.get_or_insert(reason);
        self.kernel.exit_deadline = None;
        // Of one that is being started, the start fails before the kernel's end is known.
        self.kill_arriving_commands();
        kill_all();
    }

    /// The kernel closed its channel, and its end was not reported in time. Unless it is dead already
    /// it has broken the protocol.
    pub(super) fn exit_overdue(&mut self, now: Instant) -> Result<(), Failure> {
        self.kernel.exit_deadline = None;
        let is_forked = self.kernel.origin == Origin::Forked;
        match self.kernel.pid().filter(|_| is_forked).map_or(ProcessState::Running, usage::state) {
            ProcessState::Running => {
                self.kill_kernel(KernelEnd::Protocol(
                    "it closed its channel to the agent".to_owned(),
                ));
                Ok(())
            }
            // Its zygote, which is to reap and report it, hangs.
            ProcessState::Zombie(status) => {
                self.kernel_ended(children::end(status), Usage::default())
            }
            // Its end is being reported.
            ProcessState::Gone => {
                self.kernel.exit_deadline = Some(now + EXIT_TIMEOUT);
                Ok(())
            }
        }
    }

    /// The launcher reports the kernel's end: passes it on, and starts the next kernel.
    pub(super) fn kernel_ended(&mut self, end: KernelEnd, lifetime: Usage) -> Result<(), Failure> {
        let end = match (end, self.kernel.pid().map(usage::state)) {
            (KernelEnd::Unseen, Some(ProcessState::Zombie(status))) => children::end(status),
            (end, _) => end,
        };
        // It may have sent that the execution is done before it ended.
        while self.kernel.kill_reason.is_none() && self.read_kernel()? == ReadOutcome::Something {}
        self.kill_arriving_commands();
        clear_processes();
        let usage = self.usage_of_the_dead(lifetime);
        if !self.ever_ready {
            let [_, stderr] = &mut self.kernel.outputs;
            let mut printed = Vec::new();
            stderr.begin();
            stderr.drain(|data| printed.extend(data));
            let printed = String::from_utf8_lossy(&printed);
            let reason = format!("it ended before it was ready ({end:?}): {}", printed.trim());
            return Err(failure("start the first kernel", reason));
        }
        let killed_by_us = KernelEnd::Signaled { signal: Signal::SIGKILL as i32, by_agent: false };
        let end = match self.kernel.kill_reason.take() {
            Some(reason)
                if end == killed_by_us
                    || matches!(end, KernelEnd::Unseen)
                    || matches!(reason, KernelEnd::NotStarted(_)) =>
            {
                reason
            }
            _ if !matches!(self.kernel.stage, KernelStage::Up) => {
                KernelEnd::NotStarted(format!("it ended before it was ready: {end:?}"))
            }
            _ => end,
        };
        let not_started = matches!(end, KernelEnd::NotStarted(_));
        self.send_kernel_exited(end, usage)?;
        if not_started {
            // Trying for ever would be a loop of crashes; the supervisor asks again or gives up.
            self.kernel.stage = KernelStage::Gone;
            return Ok(());
        }
        self.next_kernel()
    }

    fn send_kernel_exited(&mut self, end: KernelEnd, usage: Usage) -> Result<(), Failure> {
        let [stdout_dropped, stderr_dropped] = self.end_output()?;
        let mut running = self.running.take();
        let mut changes = Changes::default();
        if let Some(running) = &mut running {
            self.send_outputs(&running.due)?;
            changes = self.changes_of(&mut running.due);
        }
        self.control.send(&FromAgent::KernelExited {
            context: FIRST_CONTEXT,
            generation: self.kernel.generation,
            execution: running.map(|running| running.due.execution),
            end,
            stdout_dropped,
            stderr_dropped,
            usage,
            changes,
        })
    }

    pub(super) fn next_kernel(&mut self) -> Result<(), Failure> {
        let generation = self.next_generation();
        self.kernel = Kernel::spawn(self.context, Leaf::FIRST, generation, &mut self.launcher)?;
        Ok(())
    }
}

/// Kills every process of the session but this one. In a pid namespace of its own, PID 1's
/// kill(-1) reaches exactly those, and no fork escapes it (kill(2)).
pub(super) fn kill_all() {
    if getpid().as_raw() == 1 {
        discard(kill(Pid::from_raw(-1), Signal::SIGKILL), "there may be no process to kill");
        return;
    }
    usage::kill_descendants(getppid());
}

/// Kills what is left of the session's processes, and waits until it is gone.
fn clear_processes() {
    if getpid().as_raw() == 1 {
        // All of the pid namespace's orphans are ours.
        loop {
            kill_all();
            if sys::wait(Wait::ForAny).is_err() {
                return;
            }
        }
    }
    // Without one they are the launcher's to collect, and only their end can be waited for. One that
    // changes its parent while it is looked for may be missed, and is found the next time.
    let mut missed = 0;
    while missed < 2 {
        kill_all();
        missed = if wait_for_one() { 0 } else { missed + 1 };
    }
}

fn wait_for_one() -> bool {
    let Some(pidfd) = usage::processes().into_iter().find_map(|pid| sys::pidfd_open(pid).ok())
    else {
        return false;
    };
    let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::NONE).is_ok()
}
