//! An execution, from its request to its end.

use std::time::Instant;

use vivarium_protocol::discard;
use vivarium_protocol::message::{
    Changes, Completion, Execute, ExecutionNumber, Failure, FromAgent, Work,
};
use vivarium_protocol::outcome::Usage;

use super::Session;
use crate::kernel::command::Command;
use crate::kernel::wire;
use crate::{files, sys};

/// Seconds by which RLIMIT_CPU, the kernel's last resort, comes after our own limit.
const RLIMIT_SLACK_SECS: u64 = 5;

#[derive(Debug)]
pub(super) struct RunningExecution {
    pub(super) execution: ExecutionNumber,
    pub(super) runner: Runner,
    pub(super) outputs: Vec<String>,
    /// Bytes of results that it may still give.
    pub(super) results_left: u64,
    pub(super) reports_changes: bool,
    /// CPU time of the session when it began, in microseconds.
    pub(super) cpu_before_us: u64,
    /// When CPU time is next checked; `None` when it is not limited, its end was reported already, or
    /// the execution has not begun.
    pub(super) next_cpu_check: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Runner {
    Kernel {
        begun: bool,
        /// Whether to interrupt it as soon as it has.
        interrupt_held: bool,
    },
    Command(Box<Command>),
}

impl RunningExecution {
    pub(super) fn command(&self) -> Option<&Command> {
        match &self.runner {
            Runner::Command(command) => Some(command),
            Runner::Kernel { .. } => None,
        }
    }

    pub(super) fn command_mut(&mut self) -> Option<&mut Command> {
        match &mut self.runner {
            Runner::Command(command) => Some(command),
            Runner::Kernel { .. } => None,
        }
    }
}

impl Session<'_> {
    pub(super) fn start_pending(&mut self) -> Result<(), Failure> {
        while self.kernel.is_up() && self.running.is_none() {
            let Some(request) = self.pending.pop_front() else {
                return Ok(());
            };
            if self.put_files(&request)? {
                self.start(request)?;
            }
        }
        Ok(())
    }

    /// Writes a request's files; whether all could be.
    fn put_files(&mut self, request: &Execute) -> Result<bool, Failure> {
        for file in &request.files {
            if let Err(error) = self.workdir.put(file) {
                self.control.send(&FromAgent::FilesRefused {
                    execution: request.execution,
                    name: file.name.clone(),
                    reason: error.to_string(),
                })?;
                return Ok(false);
            }
            if let Ok(path) = files::checked(&file.name) {
                self.changes.exclude(&self.workdir, &path);
            }
        }
        Ok(true)
    }

    fn start(&mut self, request: Execute) -> Result<(), Failure> {
        let Execute { execution, work, outputs, .. } = request;
        self.changes.begin(&self.workdir);
        let mut running = RunningExecution {
            execution,
            runner: Runner::Kernel { begun: false, interrupt_held: false },
            outputs,
            results_left: self.context.policy.limits.max_result_bytes.get().unwrap_or(u64::MAX),
            reports_changes: !matches!(work, Work::Assist { .. }),
            cpu_before_us: 0,
            next_cpu_check: None,
        };
        let Some(frame) = wire::encode_work(execution, &work) else {
            return self.start_command(running, work);
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
        match self.running.as_mut().filter(|running| running.execution == execution) {
            Some(RunningExecution { runner: Runner::Kernel { begun, interrupt_held }, .. }) => {
                *interrupt_held = !*begun;
                if *begun {
                    self.kernel.interrupt();
                }
            }
            Some(RunningExecution { runner: Runner::Command(command), .. }) => command.interrupt(),
            None => {}
        }
    }

    pub(super) fn execution_started(&mut self) {
        if let Some(RunningExecution { runner: Runner::Kernel { begun, interrupt_held }, .. }) =
            &mut self.running
        {
            *begun = true;
            if std::mem::take(interrupt_held) {
                self.kernel.interrupt();
            }
        }
    }

    /// Ends the running execution: passes on the rest of its output, then its output files, then reports
    /// the end. `spent` is usage that the meter does not count.
    pub(super) fn finish(&mut self, completion: Completion, spent: Usage) -> Result<(), Failure> {
        let usage = self.usage(spent);
        let [stdout_dropped, stderr_dropped] = self.end_output()?;
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        self.send_outputs(&running)?;
        let changes = self.changes_of(&running);
        self.control.send(&FromAgent::Done {
            execution: running.execution,
            completion,
            stdout_dropped,
            stderr_dropped,
            usage,
            changes,
        })?;
        self.start_pending()
    }

    /// The files that an execution which is now over has changed.
    pub(super) fn changes_of(&mut self, running: &RunningExecution) -> Changes {
        if running.reports_changes {
            self.changes.take(&self.workdir, &self.transfers.hidden())
        } else {
            Changes::default()
        }
    }
}
