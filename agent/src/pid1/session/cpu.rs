//! CPU time of an execution: how much it has used, and when that is checked.

use std::time::{Duration, Instant};

use vivarium_protocol::message::{Failure, FromAgent};
use vivarium_protocol::outcome::Usage;

use super::Session;
use super::execution::RunningExecution;
use crate::usage;

/// The longest time between two checks of an execution's CPU time.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The shortest, so that an execution at its limit is not checked all the time.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(20);

impl Session<'_> {
    pub(super) fn begin_counting(&self, running: &mut RunningExecution) {
        running.cpu_before_us = self.kernel.meter().map_or(0, |meter| meter.cpu_us());
        running.next_cpu_check = self.cpu_limit().map(|limit| self.next_check(limit));
    }

    /// What the running execution has used so far, with what was `spent` by a process that is
    /// gone and not ours to wait for.
    pub(super) fn usage(&self, spent: Usage) -> Usage {
        let (Some(meter), Some(running)) = (self.kernel.meter(), &self.running) else {
            return Usage::default();
        };
        let counted = meter.cpu_us().saturating_sub(running.cpu_before_us);
        let memory_peak_bytes = match running.command() {
            Some(_) => spent.memory_peak_bytes,
            None => meter.memory_peak_bytes(),
        };
        Usage { cpu_us: counted.saturating_add(spent.cpu_us), memory_peak_bytes }
    }

    /// What the running execution used whose kernel has ended; `lifetime` is the kernel's, from wait(2).
    pub(super) fn usage_of_the_dead(&self, lifetime: Usage) -> Usage {
        let Some(running) = &self.running else {
            return Usage::default();
        };
        let cpu_us = lifetime.cpu_us.saturating_add(usage::orphans_us());
        Usage { cpu_us: cpu_us.saturating_sub(running.cpu_before_us), ..lifetime }
    }

    pub(super) fn check_cpu(&mut self, now: Instant) -> Result<(), Failure> {
        let (Some(limit), Some(meter)) = (self.cpu_limit(), self.kernel.meter()) else {
            return Ok(());
        };
        let due = |running: &&RunningExecution| running.next_cpu_check.is_some_and(|at| at <= now);
        let Some(running) = self.running.as_ref().filter(due) else {
            return Ok(());
        };
        let execution = running.execution;
        let used_us = meter.cpu_of_all_us().saturating_sub(running.cpu_before_us);
        let left = limit.saturating_sub(Duration::from_micros(used_us));
        let next_cpu_check = (!left.is_zero()).then(|| self.next_check(left));
        if let Some(running) = &mut self.running {
            running.next_cpu_check = next_cpu_check;
        }
        if next_cpu_check.is_none() {
            self.control.send(&FromAgent::CpuLimitReached { execution, used_us })?;
        }
        Ok(())
    }

    pub(super) fn cpu_limit(&self) -> Option<Duration> {
        self.context.policy.limits.max_cpu_secs.get().map(Duration::from_secs)
    }

    /// The earliest time at which `left` of CPU time can have been used, on all cores at once.
    fn next_check(&self, left: Duration) -> Instant {
        let earliest = left / self.context.host.cpus;
        Instant::now() + earliest.clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL)
    }
}
