//! Which limit is which file of which controller.

use std::fmt;

use vivarium_protocol::policy::Limits;

/// A controller that limits need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// `memory`
    Memory,
    /// `pids`
    Pids,
    /// `cpu`
    Cpu,
}

impl Controller {
    /// All that are used.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    /// Its name in `cgroup.controllers`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which directory of a scope a file is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The scope itself: agent and kernel together.
    Scope,
    /// The kernel's leaf.
    Kernel,
}

/// One value to write and read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) controller: Controller,
    pub(super) place: Place,
    pub(super) file: &'static str,
    pub(super) value: String,
    /// Whether the file may be missing for a reason that is not a missing controller.
    pub(super) optional: bool,
}

/// Length of a period of `cpu.max`, in microseconds: the kernel's default.
const CPU_PERIOD_US: u64 = 100_000;

/// What is written for these limits (`Documentation/admin-guide/cgroup-v2.rst`).
pub(super) fn settings(limits: &Limits) -> Vec<Setting> {
    use Controller::{Cpu, Memory, Pids};
    let set = |controller, place, file, value: String| Setting {
        controller,
        place,
        file,
        value,
        optional: false,
    };
    let or_max = |limit: Option<u64>| limit.map_or_else(|| "max".to_owned(), |n| n.to_string());
    // The kernel counts pages, and answers with what it counts.
    let memory = limits.max_memory_mb.times(1 << 20).filter(|bytes| *bytes < 1 << 62);
    let quota = limits.cpu_cores.milli.map(|milli| u64::from(milli) * CPU_PERIOD_US / 1000);
    // More than the kernel can count is no limit (`PIDS_MAX` in kernel/cgroup/pids.c,
    // `max_bw_runtime_us` in kernel/sched/core.c), and writing it would be EINVAL.
    let pids = limits.max_procs.get().filter(|pids| *pids <= 4_194_304);
    let quota = quota.filter(|quota_us| *quota_us < 10_000_000_000);
    vec![
        set(Memory, Place::Scope, "memory.max", or_max(memory)),
        // Absent where the kernel has no swap accounting, which is then off anyway.
        Setting { optional: true, ..set(Memory, Place::Scope, "memory.swap.max", "0".to_owned()) },
        // On the kernel's leaf: the agent has to survive to say what happened.
        set(Memory, Place::Kernel, "memory.oom.group", "1".to_owned()),
        set(Pids, Place::Kernel, "pids.max", or_max(pids)),
        set(Cpu, Place::Scope, "cpu.max", format!("{} {CPU_PERIOD_US}", or_max(quota))),
        set(Cpu, Place::Scope, "cpu.weight", "100".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vivarium_protocol::policy::CpuCores;
    use vivarium_protocol::units::Limit;

    #[test]
    fn limits_become_the_kernels_words() {
        let at = |n| Limit::new(n).unwrap();
        let mut limits = Limits {
            max_memory_mb: at(2),
            max_cpu_secs: at(1),
            max_procs: at(64),
            max_open_fds: at(1),
            max_file_size_mb: at(1),
            max_disk_mb: at(1),
            max_inodes: at(1),
            cpu_cores: CpuCores { milli: Some(1500) },
            max_output_bytes: at(1),
            max_result_bytes: at(1),
        };
        let value = |limits: &Limits, file: &str| {
            settings(limits).into_iter().find(|setting| setting.file == file).unwrap().value
        };
        assert_eq!(value(&limits, "memory.max"), "2097152");
        assert_eq!(value(&limits, "pids.max"), "64");
        assert_eq!(value(&limits, "cpu.max"), "150000 100000");
        limits.max_memory_mb = Limit::Unlimited;
        limits.max_procs = Limit::Unlimited;
        limits.cpu_cores = CpuCores::UNLIMITED;
        assert_eq!(value(&limits, "memory.max"), "max");
        assert_eq!(value(&limits, "pids.max"), "max");
        assert_eq!(value(&limits, "cpu.max"), "max 100000");
    }
}
