//! CPU time of an execution: how much it has used, and when that is checked.

use std::time::{Duration, Instant};

use nix::unistd::Pid;
use vivarium_protocol::leaf::ContextNumber;
use vivarium_protocol::message::{Failure, FromAgent};
use vivarium_protocol::outcome::Usage;

use super::Session;
use super::context::KernelContext;
use crate::usage;

/// The longest time between two checks of an execution's CPU time.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The shortest, so that an execution at its limit is not checked all the time.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(20);

impl KernelContext {
    /// What the code that runs has used so far.
    pub(super) fn usage(&self) -> Usage {
        let (Some(meter), Some(running)) = (self.kernel.meter(), &self.running) else {
            return Usage::default();
        };
        let cpu_us = meter.cpu_us().saturating_sub(running.cpu_before_us);
        Usage { cpu_us, memory_peak_bytes: meter.memory_peak_bytes() }
    }

    /// What the code used whose kernel has ended; `lifetime` is the kernel's, from wait(2).
    pub(super) fn usage_of_the_dead(&self, lifetime: Usage) -> Usage {
        let Some(running) = &self.running else {
            return Usage::default();
        };
        let cpu_us = lifetime.cpu_us.saturating_add(usage::orphans_us());
        Usage { cpu_us: cpu_us.saturating_sub(running.cpu_before_us), ..lifetime }
    }
}

impl Session<'_> {
    pub(super) fn check_cpu(&mut self, now: Instant) -> Result<(), Failure> {
        let Some(limit) = self.cpu_limit() else {
            return Ok(());
        };
        let is_due = |at: &Option<Instant>| at.is_some_and(|at| at <= now);
        let mut used = Vec::new();
        for (number, context) in &self.contexts {
            if let (Some(meter), Some(running)) = (context.kernel.meter(), &context.running)
                && is_due(&running.next_cpu_check)
            {
                // Whatever descends from no command and no other kernel counts as the code's, orphans too.
                let cpu_us = meter.cpu_of_all_us(&self.processes_beside(*number));
                used.push((running.due.execution, cpu_us.saturating_sub(running.cpu_before_us)));
            }
        }
        for running in self.commands.values().filter(|running| is_due(&running.next_cpu_check)) {
            let cpu_us = running.command.pid().map_or(0, usage::cpu_of_tree_us);
            used.push((running.due.execution, cpu_us));
        }
        for (execution, used_us) in used {
            let left = limit.saturating_sub(Duration::from_micros(used_us));
            let next_check = (!left.is_zero()).then(|| self.next_check(left));
            if next_check.is_none() {
                self.control.send(&FromAgent::CpuLimitReached { execution, used_us })?;
            }
            if let Some(running) = self.commands.get_mut(&execution) {
                running.next_cpu_check = next_check;
            } else if let Some(running) = self.code_mut(execution) {
                running.next_cpu_check = next_check;
            }
        }
        Ok(())
    }

    /// The commands, and the kernels of other contexts.
    fn processes_beside(&self, context: ContextNumber) -> Vec<Pid> {
        let commands = self.commands.values().filter_map(|running| running.command.pid());
        let others = self.contexts.iter().filter(|(number, _)| **number != context);
        let others = others.filter(|(_, other)| !other.kernel.has_ended());
        commands.chain(others.filter_map(|(_, other)| other.kernel.pid())).collect()
    }

    pub(super) fn cpu_limit(&self) -> Option<Duration> {
        self.sandbox.policy.limits.max_cpu_secs.get().map(Duration::from_secs)
    }

    /// The earliest time at which `left` of CPU time can have been used, on all cores at once.
    pub(super) fn next_check(&self, left: Duration) -> Instant {
        let earliest = left / self.sandbox.host.cpus;
        Instant::now() + earliest.clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL)
    }
}
