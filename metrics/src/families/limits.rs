//! Limits that were reached.

use super::Family;
use crate::MetricsError;
use crate::handles::Counter;
use crate::register::Register;

/// A limit of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `max_memory_mb`
    Memory,
    /// `max_procs`
    Pids,
    /// `max_cpu_secs`
    Cpu,
    /// `max_disk_mb` and `max_inodes`
    Disk,
}

impl Limit {
    const ALL: [Self; 4] = [Self::Memory, Self::Pids, Self::Cpu, Self::Disk];

    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Disk => "disk",
        }
    }
}

#[derive(Debug)]
pub struct Limits {
    events: Counter<2>,
}

impl Family for Limits {
    const TITLE: &'static str = "Limits";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let events = register.counter(
            "vivarium_limit_events_total",
            &["tenant", "limit"],
            "Limits reached: processes killed for lack of memory (`memory`), forks refused \
             (`pids`), executions stopped for their CPU time (`cpu`), executions that failed for \
             lack of disk space (`disk`). Counts of the host's kernel are added as it reports \
             them.",
        )?;
        Ok(Self { events })
    }

    fn introduce(&self, tenant: &str) {
        for limit in Limit::ALL {
            self.events.begin([tenant, limit.name()]);
        }
    }
}

impl Limits {
    pub fn reached(&self, tenant: &str, limit: Limit, times: u64) {
        self.events.add([tenant, limit.name()], times);
    }
}
