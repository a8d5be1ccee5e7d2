//! Code in the kernel, from its request to its end.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::Session;
use super::results::Due;
use crate::kernel::wire;
use crate::sys;
use nix::sys::signal::Signal;
use vivarium_protocol::discard;
use vivarium_protocol::message::{
    Changes, Completion, Execute, ExecutionNumber, Failure, FromAgent, Work,
};

/// Seconds by which RLIMIT_CPU, the kernel's last resort, comes after our own limit.
const RLIMIT_SLACK_SECS: u64 = 5;

/// What waits for a kernel to be ready.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) request: Execute,
    /// The standard input that came with it.
    pub(super) pipe: Option<OwnedFd>,
}

/// Code, or a question, in the kernel.
#[derive(Debug)]
pub(super) struct RunningExecution {
    pub(super) due: Due,
    begun: bool,
    /// Whether to interrupt it as soon as it has.
    interrupt_held: bool,
    /// CPU time of the session when it began, in microseconds.
    pub(super) cpu_before_us: u64,
    /// When CPU time is next checked; `None` when it is not limited, or its end was reported already.
    pub(super) next_cpu_check: Option<Instant>,
}

impl Session<'_> {
    /// Starts what can be: commands, and code when the kernel runs none.
    pub(super) fn start_pending(&mut self) -> Result<(), Failure> {
        while self.kernel.is_up() {
            let is_free = self.running.is_none();
            let can_start = |pending: &Pending| is_free || pending.request.work.is_command();
            let Some(next) = self.pending.iter().position(can_start) else { break };
            let Some(Pending { request, pipe }) = self.pending.remove(next) else { break };
            if self.put_files(&request)? {
                self.start(request, pipe)?;
            }
        }
        Ok(())
    }

    /// Writes a request's files; whether all could be.
    fn put_files(&mut self, request: &Execute) -> Result<bool, Failure> {
        for file in &request.files {
            match self.files.put(file) {
                Ok(Some(path)) => self.changes.exclude(&self.files.workdir, path),
                Ok(None) => {}
                Err(error) => {
                    self.control.send(&FromAgent::FilesRefused {
                        execution: request.execution,
                        name: file.name.clone(),
                        reason: error.to_string(),
                    })?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn start(&mut self, request: Execute, pipe: Option<OwnedFd>) -> Result<(), Failure> {
        let Execute { execution, work, outputs, .. } = request;
        self.begin_changes();
        let max_result_bytes = self.context.policy.limits.max_result_bytes.get();
        let reports_changes = match &work {
            Work::Code { .. } => true,
            Work::Command(spec) => !spec.background,
            Work::Assist { .. } => false,
        };
        let due = Due {
            execution,
            outputs,
            results_left: max_result_bytes.unwrap_or(u64::MAX),
            changes: reports_changes.then(Changes::default),
        };
        let Some(frame) = wire::encode_work(execution, &work) else {
            return self.start_command(due, work, pipe);
        };
        let mut running = RunningExecution {
            due,
            begun: false,
            interrupt_held: false,
            cpu_before_us: 0,
            next_cpu_check: None,
        };
        self.begin_counting(&mut running);
        if let (Some(limit), Some(pid)) = (self.cpu_limit(), self.kernel.pid()) {
            // Cumulative per process, so it moves with each execution.
            let until = running.cpu_before_us / 1_000_000 + limit.as_secs() + RLIMIT_SLACK_SECS;
            discard(
                sys::set_cpu_soft_limit(pid, until),
                "the agent's own count of CPU time still holds",
            );
        }
        self.running = Some(running);
        self.control.send(&FromAgent::Started { execution })?;
        let carried: Vec<_> = self
            .kernel
            .outputs
            .iter_mut()
            .map(|output| (output.stream(), output.begin()))
            .filter(|(_, data)| !data.is_empty())
            .collect();
        for (stream, data) in carried {
            self.control.send(&FromAgent::Output { execution, stream, data })?;
        }
        self.kernel.submit(execution, &frame);
        Ok(())
    }

    /// Interrupts this execution, if it is running. A kernel that has not begun with it could only
    /// ignore the signal, which is then held back.
    pub(super) fn interrupt(&mut self, execution: ExecutionNumber) {
        match self.running.as_mut().filter(|running| running.due.execution == execution) {
            Some(running) => {
                running.interrupt_held = !running.begun;
                if running.begun {
                    self.kernel.interrupt();
                }
            }
            None => self.signal_command(execution, Signal::SIGINT),
        }
    }

    pub(super) fn execution_started(&mut self) {
        if let Some(running) = &mut self.running {
            running.begun = true;
            if std::mem::take(&mut running.interrupt_held) {
                self.kernel.interrupt();
            }
        }
    }

    /// Ends the code that runs: passes on the rest of its output, then its output files, then reports
    /// the end.
    pub(super) fn finish(&mut self, completion: Completion) -> Result<(), Failure> {
        let usage = self.usage();
        let [stdout_dropped, stderr_dropped] = self.end_output()?;
        let Some(mut running) = self.running.take() else {
            return Ok(());
        };
        self.send_outputs(&running.due)?;
        let changes = self.changes_of(&mut running.due);
        self.control.send(&FromAgent::Done {
            execution: running.due.execution,
            completion,
            stdout_dropped,
            stderr_dropped,
            usage,
            changes,
        })?;
        self.start_pending()
    }
}
