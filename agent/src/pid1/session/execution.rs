//! An execution, from being asked for to being done.

use std::time::Instant;

use vivarium_protocol::message::{
    Changes, Completion, ExecutionNumber, Failure, FromAgent, InputFile, Work,
};
use vivarium_protocol::outcome::Usage;

use super::Session;
use crate::kernel::Task;
use crate::kernel::command::Command;
use crate::{files, sys};

/// Seconds by which RLIMIT_CPU, the kernel's last resort, comes after our own limit.
const RLIMIT_SLACK_SECS: u64 = 5;

/// What waits to be run.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) execution: ExecutionNumber,
    pub(super) work: Work,
    pub(super) files: Vec<InputFile>,
    pub(super) outputs: Vec<String>,
}

/// What is running.
#[derive(Debug)]
pub(super) struct Running {
    /// Its number.
    pub(super) execution: ExecutionNumber,
    /// What runs it.
    pub(super) by: By,
    /// Names of files to be sent at its end.
    pub(super) outputs: Vec<String>,
    /// Bytes of results that it may still give.
    pub(super) results_left: u64,
    /// Whether it is told which files it has changed.
    pub(super) tells_changes: bool,
    /// CPU time of the session when it began, in microseconds.
    pub(super) cpu_before_us: u64,
    /// When CPU time is next looked at; `None` when it is not limited, was told already, or the
    /// execution has not yet begun.
    pub(super) next_cpu_check: Option<Instant>,
}

/// What runs an execution.
#[derive(Debug)]
pub(super) enum By {
    /// The kernel.
    Kernel {
        /// Whether it has begun with it.
        begun: bool,
        /// Whether it is to be interrupted as soon as it has.
        interrupt_held: bool,
    },
    /// A process beside it.
    Command(Box<Command>),
}

impl Running {
    /// The command, if it is one.
    pub(super) fn command(&self) -> Option<&Command> {
        match &self.by {
            By::Command(command) => Some(command),
            By::Kernel { .. } => None,
        }
    }

    /// The command, if it is one.
    pub(super) fn command_mut(&mut self) -> Option<&mut Command> {
        match &mut self.by {
            By::Command(command) => Some(command),
            By::Kernel { .. } => None,
        }
    }
}

impl Session<'_> {
    /// Starts the next request, if the kernel is there and nothing is running.
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
    fn put_files(&mut self, request: &Request) -> Result<bool, Failure> {
        for file in &request.files {
            if let Err(error) = self.workdir.put(file) {
                self.control.tell(&FromAgent::FilesRefused {
                    execution: request.execution,
                    name: file.name.clone(),
                    reason: error.to_string(),
                })?;
                return Ok(false);
            }
            if let Ok(path) = files::checked(&file.name) {
                self.changes.own(&self.workdir, &path);
            }
        }
        Ok(true)
    }

    fn start(&mut self, request: Request) -> Result<(), Failure> {
        let Request { execution, work, outputs, .. } = request;
        self.changes.begin(&self.workdir);
        let asks = matches!(work, Work::Complete { .. } | Work::Inspect { .. });
        let mut running = Running {
            execution,
            by: By::Kernel { begun: false, interrupt_held: false },
            outputs,
            results_left: self.context.policy.limits.max_result_bytes.get().unwrap_or(u64::MAX),
            tells_changes: !asks,
            cpu_before_us: 0,
            next_cpu_check: None,
        };
        let task = match &work {
            Work::Code { code } => Task::Code(code),
            Work::Complete { code, cursor } => Task::Complete(code, *cursor),
            Work::Inspect { code, cursor } => Task::Inspect(code, *cursor),
            Work::Command { .. } => return self.start_command(running, work),
        };
        self.begin_counting(&mut running);
        if let (Some(limit), Some(pid)) = (self.cpu_limit(), self.kernel.pid()) {
            // Cumulative per process, so it moves with each execution. Where it can not be
            // moved, what is counted by the agent still holds.
            let until = running.cpu_before_us / 1_000_000 + limit.as_secs() + RLIMIT_SLACK_SECS;
            let _kept = sys::set_cpu_soft_limit(pid, until).is_err();
        }
        self.running = Some(running);
        self.control.tell(&FromAgent::Started { execution })?;
        let carried: Vec<_> = self
            .kernel
            .outputs
            .iter_mut()
            .map(|output| (output.stream(), output.begin()))
            .filter(|(_, data)| !data.is_empty())
            .collect();
        for (stream, data) in carried {
            self.control.tell(&FromAgent::Output { execution, stream, data })?;
        }
        self.kernel.give(execution, &task);
        Ok(())
    }

    /// Interrupts what is running, if it is this execution. A kernel that has not begun with it
    /// could only ignore the signal, which is then held back.
    pub(super) fn interrupt(&mut self, execution: ExecutionNumber) {
        match self.running.as_mut().filter(|running| running.execution == execution) {
            Some(Running { by: By::Kernel { begun, interrupt_held }, .. }) => {
                *interrupt_held = !*begun;
                if *begun {
                    self.kernel.interrupt();
                }
            }
            Some(Running { by: By::Command(command), .. }) => command.interrupt(),
            None => {}
        }
    }

    /// The kernel has begun with what it was given.
    pub(super) fn begun(&mut self) {
        if let Some(Running { by: By::Kernel { begun, interrupt_held }, .. }) = &mut self.running {
            *begun = true;
            if std::mem::take(interrupt_held) {
                self.kernel.interrupt();
            }
        }
    }

    /// What is running is done, after `spent` beside what is counted: passes on the rest of its
    /// output, then the files that were asked for, then says so.
    pub(super) fn finish(&mut self, completion: Completion, spent: Usage) -> Result<(), Failure> {
        let usage = self.usage(spent);
        let [stdout_dropped, stderr_dropped] = self.end_output()?;
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        self.send_outputs(&running)?;
        let changes = self.changes_of(&running);
        self.control.tell(&FromAgent::Done {
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
    pub(super) fn changes_of(&mut self, running: &Running) -> Changes {
        if running.tells_changes {
            self.changes.take(&self.workdir, &self.transfers.hidden())
        } else {
            Changes::default()
        }
    }
}
