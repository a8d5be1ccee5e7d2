//! An execution, from being asked for to being done.

use std::time::{Duration, Instant};

use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::{Completion, ExecutionNumber, Failure, FromAgent, InputFile};
use vivarium_protocol::outcome::Usage;

use super::{Next, Session};
use crate::kernel::{Kernel, Running};
use crate::sandbox::Context;
use crate::{files, sys, usage};

/// The longest time between two looks at the CPU time of an execution.
const MAX_CPU_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The shortest, so that an execution at its limit is not looked at all the time.
const MIN_CPU_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Seconds by which RLIMIT_CPU, the kernel's last resort, comes after our own limit.
const RLIMIT_SLACK_SECS: u64 = 5;

/// Code that waits for a kernel.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) execution: ExecutionNumber,
    pub(super) code: String,
    pub(super) files: Vec<InputFile>,
}

impl Session<'_> {
    /// Hands the next request to the kernel, if both are there.
    pub(super) fn start_pending(&mut self) -> Result<(), Failure> {
        while self.kernel.is_idle() {
            let Some(request) = self.pending.pop_front() else {
                return Ok(());
            };
            if self.put_files(&request)? {
                self.start(&request)?;
            }
        }
        Ok(())
    }

    /// Writes a request's files; whether all could be.
    fn put_files(&self, request: &Request) -> Result<bool, Failure> {
        let policy = &self.context.policy;
        let owner = policy.ids.filter(|_| self.context.applies(Layer::Namespaces));
        let owner = owner.map(|_| Context::KERNEL_ID);
        for file in &request.files {
            if let Err(error) = files::put(policy.inner_workdir(), file, owner) {
                self.tell(&FromAgent::FilesRefused {
                    execution: request.execution,
                    name: file.name.clone(),
                    reason: error.to_string(),
                })?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn start(&mut self, request: &Request) -> Result<(), Failure> {
        let execution = request.execution;
        let cpu_before_us = self.kernel.meter().map_or(0, |meter| meter.cpu_us());
        let limit = self.cpu_limit();
        if let (Some(limit), Some(pid)) = (limit, self.kernel.pid()) {
            // Cumulative per process, so it moves with each execution. Where it can not be
            // moved, what is counted below still holds.
            let until = cpu_before_us / 1_000_000 + limit.as_secs() + RLIMIT_SLACK_SECS;
            let _kept = sys::set_cpu_soft_limit(pid, until).is_err();
        }
        self.kernel.running = Some(Running {
            execution,
            begun: false,
            interrupt_held: false,
            cpu_before_us,
            next_cpu_check: limit.map(|limit| self.next_check(limit)),
        });
        self.tell(&FromAgent::Started { execution })?;
        let carried: Vec<_> = self
            .kernel
            .outputs
            .iter_mut()
            .map(|output| (output.stream(), output.begin()))
            .filter(|(_, data)| !data.is_empty())
            .collect();
        for (stream, data) in carried {
            self.tell(&FromAgent::Output { execution, stream, data })?;
        }
        self.kernel.execute(execution, &request.code);
        Ok(())
    }

    /// Passes on what is there to be read of both streams.
    pub(super) fn pass_output(&mut self) -> Result<Next, Failure> {
        let execution = self.kernel.running.as_ref().map(|running| running.execution);
        for index in 0..self.kernel.outputs.len() {
            let Some(output) = self.kernel.outputs.get_mut(index) else {
                continue;
            };
            let stream = output.stream();
            let data = output.read(execution.is_some()).unwrap_or_default();
            if let (Some(execution), false) = (execution, data.is_empty()) {
                self.tell(&FromAgent::Output { execution, stream, data })?;
            }
        }
        Ok(Next::Continue)
    }

    /// The kernel says that it is done: passes on the rest of its output, then says so.
    pub(super) fn finish(
        &mut self,
        execution: ExecutionNumber,
        completion: Completion,
    ) -> Result<(), Failure> {
        let usage = self.usage();
        let [stdout_dropped, stderr_dropped] = self.end_output(Some(execution))?;
        self.kernel.running = None;
        self.tell(&FromAgent::Done {
            execution,
            completion,
            stdout_dropped,
            stderr_dropped,
            usage,
        })?;
        self.start_pending()
    }

    /// Passes on what is left of the output, and gives how much of each was not passed on.
    pub(super) fn end_output(
        &mut self,
        execution: Option<ExecutionNumber>,
    ) -> Result<[u64; 2], Failure> {
        let mut rest = Vec::new();
        for output in &mut self.kernel.outputs {
            let stream = output.stream();
            output.drain(|data| rest.push((stream, data)));
        }
        if let Some(execution) = execution {
            for (stream, data) in rest {
                self.tell(&FromAgent::Output { execution, stream, data })?;
            }
        }
        let Kernel { outputs: [stdout, stderr], .. } = &mut self.kernel;
        Ok([stdout.end(), stderr.end()])
    }

    /// What the running execution has used so far.
    pub(super) fn usage(&self) -> Usage {
        let (Some(meter), Some(running)) = (self.kernel.meter(), &self.kernel.running) else {
            return Usage::default();
        };
        Usage {
            cpu_us: meter.cpu_us().saturating_sub(running.cpu_before_us),
            memory_peak_bytes: meter.memory_peak_bytes(),
        }
    }

    /// What the execution used that a kernel took with it, of whose `lifetime` wait(2) told.
    pub(super) fn usage_of_the_dead(&self, lifetime: Usage) -> Usage {
        let Some(running) = &self.kernel.running else {
            return Usage::default();
        };
        let cpu_us = lifetime.cpu_us.saturating_add(usage::orphans_us());
        Usage { cpu_us: cpu_us.saturating_sub(running.cpu_before_us), ..lifetime }
    }

    /// A deadline has passed: of the CPU time, or of a kernel that let go of its channel.
    pub(super) fn look_at_clock(&mut self) -> Result<Next, Failure> {
        let now = Instant::now();
        if self.kernel.patience.is_some_and(|deadline| deadline <= now) {
            self.kernel.patience = None;
            self.doom(vivarium_protocol::outcome::KernelEnd::Protocol(
                "it closed its channel to the agent".to_owned(),
            ));
        }
        let (Some(limit), Some(meter)) = (self.cpu_limit(), self.kernel.meter()) else {
            return Ok(Next::Continue);
        };
        let due = |running: &&Running| running.next_cpu_check.is_some_and(|at| at <= now);
        let Some(running) = self.kernel.running.as_ref().filter(due) else {
            return Ok(Next::Continue);
        };
        let execution = running.execution;
        let used_us = meter.cpu_of_all_us().saturating_sub(running.cpu_before_us);
        let left = limit.saturating_sub(Duration::from_micros(used_us));
        let next_cpu_check = (!left.is_zero()).then(|| self.next_check(left));
        if let Some(running) = &mut self.kernel.running {
            running.next_cpu_check = next_cpu_check;
        }
        if next_cpu_check.is_none() {
            self.tell(&FromAgent::CpuLimitReached { execution, used_us })?;
        }
        Ok(Next::Continue)
    }

    /// CPU time of one execution.
    fn cpu_limit(&self) -> Option<Duration> {
        self.context.policy.limits.max_cpu_secs.get().map(Duration::from_secs)
    }

    /// The earliest time at which `left` of CPU time can have been used, on all cores at once.
    fn next_check(&self, left: Duration) -> Instant {
        let earliest = left / self.context.outside.cpus;
        Instant::now() + earliest.clamp(MIN_CPU_CHECK_INTERVAL, MAX_CPU_CHECK_INTERVAL)
    }
}
