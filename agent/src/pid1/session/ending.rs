//! The end of a kernel, and of everything it started.
//!
//! With leaves that is what is in the kernel's leaf, whatever it did to get away. Without, no process
//! can be told to belong to one kernel or another once its parent has ended. So the end of one kernel
//! is then that of all the session's processes, and each context gets a fresh kernel once all have
//! ended.

use std::os::fd::AsFd;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};
use vivarium_protocol::discard;
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT};
use vivarium_protocol::message::{Changes, Failure, FromAgent, Origin};
use vivarium_protocol::outcome::{KernelEnd, Usage};

use super::context::KernelContext;
use super::{EXIT_TIMEOUT, Session};
use crate::children;
use crate::failure::{OrFailure, failure};
use crate::kernel::{Kernel, KernelStage, ReadOutcome};
use crate::sys::{self, Wait};
use crate::usage::{self, ProcessState};

/// The reason for the end of a kernel that was not the cause of it.
pub(super) const REPLACED: KernelEnd =
    KernelEnd::Signaled { signal: Signal::SIGKILL as i32, by_agent: true };

impl Session<'_> {
    /// Kills a kernel with all that is in its leaf. Without leaves kills all the session's processes: only
    /// of a context that is closed just what descends from its kernel. Reports `reason` as its end,
    /// unless it turns out to have ended by itself before.
    pub(super) fn kill_kernel(
        &mut self,
        number: ContextNumber,
        reason: KernelEnd,
    ) -> Result<(), Failure> {
        let Some(KernelContext { kernel, leaf, closing, .. }) = self.contexts.get_mut(&number)
        else {
            return Ok(());
        };
        kernel.kill_reason.get_or_insert(reason);
        kernel.exit_deadline = None;
        match leaf {
            Some(leaf) => {
                leaf.kill().or_failure("kill a kernel")?;
                self.kill_arriving_in(number);
            }
            None if *closing => kernel.kill_tree(),
            None => {
                self.end_other_kernels(number);
                // Of one that is being started, the start fails before the kernel's end is known.
                self.kill_arriving_commands();
                kill_all();
            }
        }
        Ok(())
    }

    /// Kills the commands that are on their way into a context's leaf.
    fn kill_arriving_in(&mut self, number: ContextNumber) {
        if number == FIRST_CONTEXT {
            self.kill_arriving_commands();
        }
    }

    /// All processes are being killed: says so of the kernels of other contexts.
    fn end_other_kernels(&mut self, number: ContextNumber) {
        let others = self.contexts.iter_mut().filter(|(other, _)| **other != number);
        for (_, other) in others.filter(|(_, other)| !other.kernel.has_ended()) {
            other.kernel.kill_reason.get_or_insert(REPLACED);
        }
    }

    /// The kernel closed its channel, and its end was not reported in time. Unless it is dead already
    /// it has broken the protocol.
    pub(super) fn exit_overdue(
        &mut self,
        number: ContextNumber,
        now: Instant,
    ) -> Result<(), Failure> {
        let Some(KernelContext { kernel, .. }) = self.contexts.get_mut(&number) else {
            return Ok(());
        };
        kernel.exit_deadline = None;
        let is_forked = kernel.origin == Origin::Forked;
        match kernel.pid().filter(|_| is_forked).map_or(ProcessState::Running, usage::state) {
            ProcessState::Running => self.kill_kernel(
                number,
                KernelEnd::Protocol("it closed its channel to the agent".to_owned()),
            ),
            // Its zygote, which is to reap and report it, hangs.
            ProcessState::Zombie(status) => {
                self.kernel_ended(number, children::end(status), Usage::default())
            }
            // Its end is being reported.
            ProcessState::Gone => {
                kernel.exit_deadline = Some(now + EXIT_TIMEOUT);
                Ok(())
            }
        }
    }

    /// The launcher reports a kernel's end: passes it on, and has the next kernel started.
    pub(super) fn kernel_ended(
        &mut self,
        number: ContextNumber,
        end: KernelEnd,
        lifetime: Usage,
    ) -> Result<(), Failure> {
        self.read_refusal(number)?;
        let kernel = self.contexts.get(&number).map(|context| &context.kernel);
        let end = match (end, kernel.and_then(Kernel::pid).map(usage::state)) {
            (KernelEnd::Unseen, Some(ProcessState::Zombie(status))) => children::end(status),
            (end, _) => end,
        };
        // It may have sent that the execution is done before it ended.
        while self.contexts.get(&number).is_some_and(|it| it.kernel.kill_reason.is_none())
            && self.read_kernel(number)? == ReadOutcome::Something
        {}
        self.clear_after(number)?;
        let ever_ready = self.ever_ready;
        let Some(context) = self.contexts.get_mut(&number) else { return Ok(()) };
        if !ever_ready && number == FIRST_CONTEXT {
            return Err(failure("start the first kernel", context.end_before_ready(end)));
        }
        let usage = context.usage_of_the_dead(lifetime);
        let end = context.judge(end);
        let not_started = matches!(end, KernelEnd::NotStarted(_));
        // Trying for ever would be a loop of crashes; the supervisor asks again or gives up.
        context.kernel.exit_deadline = None;
        context.kernel.stage = if not_started { KernelStage::Gone } else { KernelStage::Ended };
        let (closing, is_running) = (context.closing, context.running.is_some());
        if is_running || !closing {
            self.send_kernel_exited(number, end, usage)?;
        }
        if closing { self.context_closed(number) } else { self.start_next_kernels() }
    }

    /// Reads why a kernel that has ended could not be started, if it said so and nobody has read it yet.
    fn read_refusal(&mut self, number: ContextNumber) -> Result<(), Failure> {
        let Some(KernelContext { kernel, .. }) = self.contexts.get_mut(&number) else {
            return Ok(());
        };
        match kernel.read_refusal() {
            Some(failed) if !self.ever_ready && number == FIRST_CONTEXT => return Err(failed),
            Some(failed) => {
                kernel.kill_reason.get_or_insert(KernelEnd::NotStarted(failed.to_string()));
            }
            None => {}
        }
        Ok(())
    }

    /// Kills what a kernel left that has ended, and waits until it is gone: all that is in its leaf. Without
    /// leaves that is every process of the session, unless the kernel's context is closed, or it ran
    /// nothing.
    fn clear_after(&mut self, number: ContextNumber) -> Result<(), Failure> {
        let Some(KernelContext { kernel, leaf, closing, .. }) = self.contexts.get(&number) else {
            return Ok(());
        };
        let ran = matches!(kernel.stage, KernelStage::Booting | KernelStage::Up);
        // What ends may take its time, and code may have ended before.
        self.control.write();
        if let Some(leaf) = leaf {
            leaf.clear().or_failure("clear a kernel's leaf")?;
            self.kill_arriving_in(number);
            self.reap(); // what was killed has used CPU time
        } else if ran && !closing {
            self.end_other_kernels(number);
            self.kill_arriving_commands();
            clear_processes();
        }
        Ok(())
    }

    fn send_kernel_exited(
        &mut self,
        number: ContextNumber,
        end: KernelEnd,
        usage: Usage,
    ) -> Result<(), Failure> {
        let [stdout_dropped, stderr_dropped] = self.end_output(number)?;
        let Some(context) = self.contexts.get_mut(&number) else { return Ok(()) };
        let generation = context.kernel.generation;
        let mut running = context.running.take();
        let mut changes = Changes::default();
        if let Some(running) = &mut running {
            self.send_outputs(&running.due)?;
            changes = self.changes_of(&mut running.due);
        }
        self.control.send(&FromAgent::KernelExited {
            context: number,
            generation,
            execution: running.map(|running| running.due.execution),
            end,
            stdout_dropped,
            stderr_dropped,
            usage,
            changes,
        })
    }
}

impl KernelContext {
    /// Why the kernel ended, of which `end` is what could be seen.
    fn judge(&mut self, end: KernelEnd) -> KernelEnd {
        let killed = KernelEnd::Signaled { signal: Signal::SIGKILL as i32, by_agent: false };
        let is_by_us = end == killed || end == KernelEnd::Unseen;
        let was_up = matches!(self.kernel.stage, KernelStage::Up);
        match self.kernel.kill_reason.take() {
            Some(reason) if is_by_us || !was_up => reason,
            None if !was_up => KernelEnd::NotStarted(too_soon(end)),
            _ => end,
        }
    }

    /// The end of a kernel that never was ready, with what it printed.
    fn end_before_ready(&mut self, end: KernelEnd) -> String {
        let [_, stderr] = &mut self.kernel.outputs;
        let mut printed = Vec::new();
        stderr.begin();
        stderr.drain(|data| printed.extend(data));
        let printed = String::from_utf8_lossy(&printed);
        match printed.trim() {
            "" => too_soon(end),
            printed => format!("{}: {printed}", too_soon(end)),
        }
    }
}

fn too_soon(end: KernelEnd) -> String {
    match end {
        KernelEnd::NotStarted(why) => why,
        end => format!("it {end} before it was ready"),
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
        missed = if end_one() { 0 } else { missed + 1 };
    }
}

/// Kills one of the session's processes and waits for its end. Returns whether there was one.
fn end_one() -> bool {
    let Some((pid, pidfd)) =
        usage::processes().into_iter().find_map(|pid| Some((pid, sys::pidfd_open(pid).ok()?)))
    else {
        return false;
    };
    // It may be one that was missed before, which would never end.
    discard(kill(pid, Signal::SIGKILL), "it may have ended");
    let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::NONE).is_ok()
}
