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

    pub(super) fn check_cpu(&mut self, now: Instant) -> Result<(), Failure> {
        let Some(limit) = self.cpu_limit() else {
            return Ok(());
        };
        let is_due = |at: &Option<Instant>| at.is_some_and(|at| at <= now);
        let mut used = Vec::new();
        if let (Some(meter), Some(running)) = (self.kernel.meter(), &self.running)
            && is_due(&running.next_cpu_check)
        {
            // Whatever descends from no command counts as the code's, orphans too.
            let commands = self.commands.values().filter_map(|running| running.command.pid());
            let cpu_us = meter.cpu_of_all_us(&commands.collect::<Vec<_>>());
            used.push((running.due.execution, cpu_us.saturating_sub(running.cpu_before_us)));
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
            } else if let Some(running) = &mut self.running {
                running.next_cpu_check = next_check;
            }
        }
        Ok(())
    }

    pub(super) fn cpu_limit(&self) -> Option<Duration> {
        self.context.policy.limits.max_cpu_secs.get().map(Duration::from_secs)
    }

    /// The earliest time at which `left` of CPU time can have been used, on all cores at once.
    pub(super) fn next_check(&self, left: Duration) -> Instant {
        let earliest = left / self.context.host.cpus;
        Instant::now() + earliest.clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL)
    }
}
