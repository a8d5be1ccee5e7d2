//! Code in a kernel, from its request to its end.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::Session;
use super::context::KernelContext;
use super::results::Due;
use crate::files::ChangeTracker;
use crate::kernel::command::CommandFiles;
use crate::kernel::wire;
use crate::sys;
use crate::usage::Meter;
use nix::sys::signal::Signal;
use vivarium_protocol::discard;
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT};
use vivarium_protocol::message::{
    Changes, Completion, Execute, ExecutionNumber, Failure, FromAgent, ImageStep, Noted, Work,
};
use vivarium_protocol::outcome::Account;

/// Seconds by which RLIMIT_CPU, the kernel's last resort, comes after our own limit.
const RLIMIT_SLACK_SECS: u64 = 5;

/// What waits for a kernel to be ready.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) request: Execute,
    /// What came with it, for a command.
    pub(super) files: CommandFiles,
}

/// Code, or a question, in the kernel.
#[derive(Debug)]
pub(super) struct RunningExecution {
    pub(super) due: Due,
    begun: bool,
    /// What it is given once it has begun: the file of an image, or the pipes of its calls.
    descriptors: Vec<OwnedFd>,
    /// Whether it has what another kernel had in memory then.
    is_image: bool,
    /// Whether its files come from an image, and are no changes of the tenant's.
    loads_image: bool,
    /// Whether to interrupt it as soon as it has.
    interrupt_held: bool,
    /// Whether what it prints and shows waits for the supervisor.
    pub(super) held: bool,
    /// CPU time of the session when it began, in microseconds.
    pub(super) cpu_before_us: u64,
    /// When CPU time is next checked; `None` when it is not limited, or its end was reported already.
    pub(super) next_cpu_check: Option<Instant>,
    /// What its policy noted, once it has ended.
    account: Account,
}

impl Session<'_> {
    /// Starts what can be: commands once there is a first kernel, and code when its kernel runs none.
    pub(super) fn start_pending(&mut self) -> Result<(), Failure> {
        loop {
            let next = self.pending.iter().position(|pending| self.can_start(&pending.request));
            let Some(Pending { request, files }) = next.and_then(|next| self.pending.remove(next))
            else {
                return Ok(());
            };
            if self.put_files(&request)? {
                self.start(request, files)?;
            }
        }
    }

    fn can_start(&self, request: &Execute) -> bool {
        let is_command = request.work.is_command();
        let context = if is_command { FIRST_CONTEXT } else { request.context };
        self.contexts.get(&context).is_some_and(|context| {
            context.kernel.is_up() && (is_command || context.running.is_none())
        })
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

    fn start(&mut self, request: Execute, files: CommandFiles) -> Result<(), Failure> {
        let Execute { execution, context, work, outputs, .. } = request;
        self.begin_changes();
        let max_result_bytes = self.sandbox.policy.limits.max_result_bytes.get();
        let reports_changes = match &work {
            Work::Code { .. } => true,
            Work::Command(spec) => !spec.background,
            Work::Assist { .. } | Work::Image(_) => false,
        };
        let due = Due {
            execution,
            outputs,
            results_left: max_result_bytes.unwrap_or(u64::MAX),
            changes: reports_changes.then(Changes::default),
        };
        let Some(frame) = wire::encode_work(execution, &work) else {
            return self.start_command(due, work, files);
        };
        let limit = self.cpu_limit();
        let next_cpu_check = limit.map(|limit| self.next_check(limit));
        let Some(KernelContext { kernel, running: place, .. }) = self.contexts.get_mut(&context)
        else {
            return Ok(());
        };
        let cpu_before_us = kernel.meter().map_or(0, Meter::cpu_us);
        if let (Some(limit), Some(pid)) = (limit, kernel.pid()) {
            // Cumulative per process, so it moves with each execution.
            let until = cpu_before_us / 1_000_000 + limit.as_secs() + RLIMIT_SLACK_SECS;
            discard(
                sys::set_cpu_soft_limit(pid, until),
                "the agent's own count of CPU time still holds",
            );
        }
        *place = Some(RunningExecution {
            due,
            begun: false,
            descriptors: files.for_kernel,
            is_image: matches!(work, Work::Image(_)),
            loads_image: matches!(work, Work::Image(ImageStep::Load)),
            interrupt_held: false,
            held: false,
            cpu_before_us,
            next_cpu_check,
            account: Account::default(),
        });
        self.control.note_started(execution)?;
        for output in &mut kernel.outputs {
            let (stream, data) = (output.stream(), output.begin());
            if !data.is_empty() {
                self.control.send(&FromAgent::Output { execution, stream, data })?;
            }
        }
        kernel.submit(execution, Noted::of(&work), &frame);
        Ok(())
    }

    /// Interrupts this execution, if it is running. A kernel that has not begun with it could only
    /// ignore the signal, which is then held back.
    pub(super) fn interrupt(&mut self, execution: ExecutionNumber) {
        let context = self.contexts.values_mut().find(|context| context.runs(execution));
        match context {
            Some(KernelContext { kernel, running: Some(running), .. }) => {
                running.interrupt_held = !running.begun;
                if running.begun {
                    kernel.interrupt();
                }
            }
            _ => self.signal_command(execution, Signal::SIGINT),
        }
    }

    pub(super) fn execution_started(&mut self, context: ContextNumber) -> Result<(), Failure> {
        if let Some(KernelContext { kernel, running: Some(running), .. }) =
            self.contexts.get_mut(&context)
        {
            running.begun = true;
            let descriptors = std::mem::take(&mut running.descriptors);
            if !descriptors.is_empty() {
                // The supervisor serves calls of code that has started.
                self.control.send_started()?;
                kernel.give(&descriptors);
                if running.is_image {
                    kernel.configure(self.sandbox.policy.limits.max_result_bytes.get());
                }
            }
            if std::mem::take(&mut running.interrupt_held) {
                kernel.interrupt();
            }
        }
        Ok(())
    }

    pub(super) fn note_account(&mut self, context: ContextNumber, account: Account) {
        let context = self.contexts.get_mut(&context);
        if let Some(running) = context.and_then(|context| context.running.as_mut()) {
            running.account = account;
        }
    }

    /// This code, if it runs.
    pub(super) fn code_mut(&mut self, execution: ExecutionNumber) -> Option<&mut RunningExecution> {
        let mut contexts = self.contexts.values_mut();
        contexts.find(|context| context.runs(execution))?.running.as_mut()
    }

    /// Ends the code that a kernel runs: passes on the rest of its output, then its output files, then reports
    /// the end.
    pub(super) fn finish(
        &mut self,
        number: ContextNumber,
        completion: Completion,
    ) -> Result<(), Failure> {
        let usage = self.contexts.get(&number).map(KernelContext::usage).unwrap_or_default();
        let [stdout_dropped, stderr_dropped] = self.end_output(number)?;
        let context = self.contexts.get_mut(&number);
        let Some(mut running) = context.and_then(|context| context.running.take()) else {
            return Ok(());
        };
        self.send_outputs(&running.due)?;
        if running.loads_image {
            self.changes = ChangeTracker::new(&self.files.workdir);
        }
        let changes = self.changes_of(&mut running.due);
        self.control.send(&FromAgent::Done {
            execution: running.due.execution,
            completion,
            stdout_dropped,
            stderr_dropped,
            usage,
            changes,
            account: running.account,
        })?;
        self.start_pending()
    }
}
