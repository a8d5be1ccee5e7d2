//! Which limit is which file of which controller, and how it is set.

use std::fmt;
use std::io;
use std::path::Path;

use vivarium_protocol::policy::{CpuCores, Limits};
use vivarium_protocol::units::Limit;

use super::files::{self, CgroupError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    Memory,
    Pids,
    Cpu,
    /// `io`: no limit needs it, it counts.
    Io,
}

impl Controller {
    pub const ALL: [Self; 4] = [Self::Memory, Self::Pids, Self::Cpu, Self::Io];

    /// Its name in `cgroup.controllers`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Io => "io",
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
pub(super) enum CgroupNode {
    /// The scope itself: agent and tenant code together.
    Scope,
    /// Tenant code: all of its leaves together.
    Kernel,
}

/// One value to write and read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) controller: Controller,
    pub(super) file: &'static str,
    pub(super) value: String,
    /// Whether the file may be missing for a reason that is not a missing controller.
    pub(super) optional: bool,
}

impl Setting {
    pub(super) const fn new(controller: Controller, file: &'static str, value: String) -> Self {
        Self { controller, file, value, optional: false }
    }

    /// No swap. Its file is absent where the kernel has no swap accounting, which is then off
    /// anyway.
    pub(super) fn no_swap() -> Self {
        let setting = Self::new(Controller::Memory, "memory.swap.max", "0".to_owned());
        Self { optional: true, ..setting }
    }
}

/// Writes one limit of the cgroup `dir`, and reads it back.
pub(super) fn set(dir: &Path, setting: &Setting) -> Result<(), CgroupError> {
    let path = dir.join(setting.file);
    if setting.optional && !path.exists() {
        return Ok(());
    }
    files::write(&path, &setting.value)?;
    let held = files::read(&path)?;
    if held == setting.value {
        return Ok(());
    }
    let source = io::Error::other(format!("it holds {held:?} afterwards"));
    Err(CgroupError::new(format!("set {:?} in", setting.value), &path, source))
}

/// Length of a period of `cpu.max`, in microseconds: the kernel's default.
const CPU_PERIOD_US: u64 = 100_000;

fn or_max(limit: Option<u64>) -> String {
    limit.map_or_else(|| "max".to_owned(), |limit| limit.to_string())
}

/// `memory.max`. The kernel counts pages, and answers with what it counts.
pub(super) fn memory_max(mib: Limit) -> Setting {
    let bytes = mib.times(1 << 20).filter(|bytes| *bytes < 1 << 62);
    Setting::new(Controller::Memory, "memory.max", or_max(bytes))
}

/// `pids.max`. More than the kernel can count is no limit (`PIDS_MAX` in kernel/cgroup/pids.c),
/// and writing it would be EINVAL.
pub(super) fn pids_max(processes: Limit) -> Setting {
    let pids = processes.get().filter(|pids| *pids <= 4_194_304);
    Setting::new(Controller::Pids, "pids.max", or_max(pids))
}

/// `cpu.max`. More than the kernel can count is no limit here too (`max_bw_runtime_us` in
/// kernel/sched/core.c).
pub(super) fn cpu_max(cores: CpuCores) -> Setting {
    let quota_us = cores.milli.map(|milli| u64::from(milli) * CPU_PERIOD_US / 1000);
    let quota_us = or_max(quota_us.filter(|quota_us| *quota_us < 10_000_000_000));
    Setting::new(Controller::Cpu, "cpu.max", format!("{quota_us} {CPU_PERIOD_US}"))
}

/// `cpu.weight`, against its siblings.
pub(super) fn cpu_weight(weight: u16) -> Setting {
    Setting::new(Controller::Cpu, "cpu.weight", weight.to_string())
}

/// Has the kernel kill all of a leaf when it is out of memory: code whose child alone was killed
/// would go on without it.
pub(super) fn oom_group() -> Setting {
    Setting::new(Controller::Memory, "memory.oom.group", "1".to_owned())
}

/// What is written for a session's limits, and where
/// (`Documentation/admin-guide/cgroup-v2.rst`).
pub(super) fn settings(limits: &Limits) -> Vec<(CgroupNode, Setting)> {
    vec![
        (CgroupNode::Scope, memory_max(limits.max_memory_mb)),
        (CgroupNode::Scope, Setting::no_swap()),
        (CgroupNode::Kernel, pids_max(limits.max_procs)),
        (CgroupNode::Scope, cpu_max(limits.cpu_cores)),
        (CgroupNode::Scope, cpu_weight(100)),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A kernel that takes a value and holds another one: /dev/null takes all and holds nothing.
    #[test]
    fn a_limit_that_does_not_read_back_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let setting = pids_max(Limit::new(64).unwrap());
        let file = dir.path().join(setting.file);
        symlink("/dev/null", &file).unwrap();
        let error = set(dir.path(), &setting).unwrap_err();
        let said = error.chain();
        assert!(said.contains("set \"64\" in") && said.contains("it holds \"\""), "{said}");
        fs::remove_file(&file).unwrap();
        assert!(set(dir.path(), &setting).is_err(), "there is no such file");
        fs::write(&file, "").unwrap();
        set(dir.path(), &setting).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "64");
    }

    #[test]
    fn without_swap_accounting_there_is_nothing_to_set() {
        let dir = tempfile::tempdir().unwrap();
        set(dir.path(), &Setting::no_swap()).unwrap();
        let file = dir.path().join("memory.swap.max");
        assert!(!file.exists());
        fs::write(&file, "9").unwrap();
        set(dir.path(), &Setting::no_swap()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "0");
    }

    #[test]
    fn more_than_the_kernel_can_count_is_no_limit() {
        let at = |n| Limit::new(n).unwrap();
        assert_eq!(memory_max(at((1 << 42) - 1)).value, (((1_u64 << 42) - 1) << 20).to_string());
        assert_eq!(memory_max(at(1 << 42)).value, "max");
        assert_eq!(memory_max(at(1 << 43)).value, "max");
        assert_eq!(pids_max(at(4_194_304)).value, "4194304");
        assert_eq!(pids_max(at(4_194_305)).value, "max");
        let cores = |milli| cpu_max(CpuCores { milli: Some(milli) }).value;
        assert_eq!(cores(99_999_999), "9999999900 100000");
        assert_eq!(cores(100_000_000), "max 100000");
        assert_eq!(cores(200_000_000), "max 100000");
    }

    #[test]
    fn controllers_have_the_kernels_names() {
        let names = Controller::ALL.map(|controller| controller.to_string());
        assert_eq!(names, ["memory", "pids", "cpu", "io"]);
    }

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
            let found = settings(limits).into_iter().find(|(_, setting)| setting.file == file);
            found.unwrap().1.value
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
