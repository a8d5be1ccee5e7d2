//! One session's scope: its limits, what it has used, its end.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;
use vivarium_protocol::leaf::Leaf;
use vivarium_protocol::policy::{CgroupPlacement, Limits};

use super::files::{self, CgroupError};
use super::limits::{self, CgroupNode, Controller};
use super::meter::Io;
use super::oom::OomAttribution;
use super::tree;
use super::watch::Watched;

/// How long killed processes may take to be gone: one in an uninterruptible wait (a stuck
/// disk) can not be waited for for ever.
const EMPTY_WITHIN: Duration = Duration::from_secs(10);

/// The scope of one session. Removed by [`Scope::remove`]; one that is only dropped is left
/// for the next start to clear.
#[derive(Debug)]
pub struct Scope {
    dir: PathBuf,
    missing: String,
    fix: String,
    pub(super) limits_memory: bool,
    limits_pids: bool,
    limits_cpu: bool,
}

/// Why limits were not lowered.
#[derive(Debug, thiserror::Error)]
pub enum LowerError {
    #[error("the session uses {used} now, which is more than {wanted}")]
    InUse { limit: &'static str, used: u64, wanted: u64 },
    #[error("the limits could not be set")]
    Cgroup(#[from] CgroupError),
}

/// What a session has used so far. `None` where the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScopeUsage {
    /// CPU time of tenant code, in microseconds.
    pub cpu_us: Option<u64>,
    /// Memory charged to the session now.
    pub memory_bytes: Option<u64>,
    /// The most memory that was ever charged to it.
    pub memory_peak_bytes: Option<u64>,
    /// The most processes and threads of tenant code there were at one time (Linux 6.1).
    pub processes_peak: Option<u64>,
    pub io: Option<Io>,
}

impl Scope {
    pub(super) fn make(dir: PathBuf, limits: &Limits, fix: &str) -> Result<Self, CgroupError> {
        std::fs::create_dir(&dir).map_err(|source| CgroupError::new("make", &dir, source))?;
        let scope = Self {
            dir,
            missing: String::new(),
            fix: String::new(),
            limits_memory: false,
            limits_pids: false,
            limits_cpu: false,
        };
        scope.fill(limits, fix).inspect_err(|_| {
            if let Err(error) = files::remove_all(&scope.dir) {
                tracing::warn!(error = error.chain(), "a scope is left behind");
            }
        })
    }

    fn fill(&self, limits: &Limits, fix: &str) -> Result<Self, CgroupError> {
        files::make_dir(&self.agent())?;
        files::make_dir(&self.kernel())?;
        let enabled = tree::enable(&self.dir);
        let (mut missing, mut absent) = (Vec::new(), Vec::new());
        for (node, setting) in limits::settings(limits) {
            if enabled.contains(&setting.controller) {
                let dir = match node {
                    CgroupNode::Scope => self.dir.clone(),
                    CgroupNode::Kernel => self.kernel(),
                };
                limits::set(&dir, &setting)?;
            } else {
                missing.push(setting.file);
                absent.push(setting.controller.name());
            }
        }
        absent.dedup();
        let (missing, fix) = if missing.is_empty() {
            (String::new(), String::new())
        } else {
            let files = missing.join(", ");
            let text = format!("{files} (controllers not available: {})", absent.join(", "));
            (text, fix.to_owned())
        };
        let limits_memory = enabled.contains(&Controller::Memory);
        if limits_memory {
            // Memory alone is counted by leaf. Processes are counted together, as their limit is.
            files::write(&self.kernel().join("cgroup.subtree_control"), "+memory")?;
        }
        let scope = Self {
            dir: self.dir.clone(),
            missing,
            fix,
            limits_memory,
            limits_pids: enabled.contains(&Controller::Pids),
            limits_cpu: enabled.contains(&Controller::Cpu),
        };
        scope.make_leaf(Leaf::FIRST)?;
        Ok(scope)
    }

    /// Has lower limits hold, all or none: what was written before an error is set back.
    ///
    /// Refused is what is below the session's use, which the kernel would enforce by killing. It may
    /// still kill, if the session takes more between the look and the write. Blocks while the kernel
    /// reclaims memory.
    pub fn lower(&self, from: &Limits, to: &Limits) -> Result<(), LowerError> {
        self.check_use(from, to)?;
        // Memory is first of the settings, and last here, since it may take its time.
        let changes = limits::settings(from).into_iter().zip(limits::settings(to)).rev();
        let mut done = Vec::new();
        for ((node, old), (_, new)) in changes.filter(|((_, old), (_, new))| old != new) {
            let dir = match node {
                CgroupNode::Scope => self.dir.clone(),
                CgroupNode::Kernel => self.kernel(),
            };
            let result = limits::set(&dir, &new);
            done.push((dir, old));
            if let Err(error) = result {
                for (dir, old) in done.iter().rev() {
                    if let Err(error) = limits::set(dir, old) {
                        tracing::error!(error = error.chain(), "a limit was not set back");
                    }
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Whether what is there fits into the limits that are to be lowered.
    fn check_use(&self, from: &Limits, to: &Limits) -> Result<(), LowerError> {
        let in_use = |limit, used: u64, wanted: u64| LowerError::InUse { limit, used, wanted };
        if from.max_memory_mb != to.max_memory_mb
            && let Some(wanted) = to.max_memory_mb.get()
        {
            let stat = self.dir.join("memory.stat");
            // Without swap this is what the kernel cannot reclaim of what processes and files take.
            let used = ["anon", "shmem", "kernel"].map(|key| files::keyed(&stat, key).unwrap_or(0));
            let used_mb = used.iter().sum::<u64>().div_ceil(1 << 20);
            if used_mb > wanted {
                return Err(in_use("max_memory_mb", used_mb, wanted));
            }
        }
        if from.max_procs != to.max_procs
            && let Some(wanted) = to.max_procs.get()
        {
            let used = files::number(&self.kernel().join("pids.current")).unwrap_or(0);
            if used > wanted {
                return Err(in_use("max_procs", used, wanted));
            }
        }
        Ok(())
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn agent(&self) -> PathBuf {
        self.dir.join("agent")
    }

    pub(super) fn kernel(&self) -> PathBuf {
        self.dir.join("kernel")
    }

    pub fn placement(&self) -> CgroupPlacement {
        CgroupPlacement {
            agent: self.agent(),
            kernel: self.kernel(),
            missing: self.missing.clone(),
            fix: self.fix.clone(),
            limits_memory: self.limits_memory,
            limits_pids: self.limits_pids,
        }
    }

    /// The limits of the session that it holds.
    pub fn holds(&self) -> Vec<&'static str> {
        let all = [
            (self.limits_memory, "max_memory_mb"),
            (self.limits_pids, "max_procs"),
            (self.limits_cpu, "cpu_cores"),
        ];
        all.into_iter().filter(|(held, _)| *held).map(|(_, name)| name).collect()
    }

    /// What tells whose memory was used up, from now on. Reads files.
    pub fn oom_attribution(&self) -> OomAttribution {
        OomAttribution::from_now(&self.dir)
    }

    pub fn usage(&self) -> ScopeUsage {
        let kernel = self.kernel();
        ScopeUsage {
            cpu_us: files::keyed(&kernel.join("cpu.stat"), "usage_usec"),
            memory_bytes: files::number(&self.dir.join("memory.current")),
            memory_peak_bytes: self.memory_peak_bytes(),
            processes_peak: files::number(&kernel.join("pids.peak")),
            io: files::read(&kernel.join("io.stat")).ok().map(|text| Io::parse(&text)),
        }
    }

    /// The most memory that was ever charged to it, in bytes.
    pub fn memory_peak_bytes(&self) -> Option<u64> {
        files::number(&self.dir.join("memory.peak"))
    }

    /// Kills every process in it by `cgroup.kill` (Linux 5.14).
    pub fn kill(&self) -> Result<(), CgroupError> {
        files::write(&self.dir.join("cgroup.kill"), "1")
    }

    /// Kills what is in it, waits until all of that is gone, and removes it.
    /// Fails if something in it does not die.
    pub async fn remove(&self) -> Result<(), CgroupError> {
        kill_and_remove(&self.dir).await
    }
}

/// Kills every process below `dir`, waits until they are gone, and removes it all.
pub(super) async fn kill_and_remove(dir: &Path) -> Result<(), CgroupError> {
    files::write(&dir.join("cgroup.kill"), "1")?;
    let path = dir.join("cgroup.events");
    match timeout(EMPTY_WITHIN, emptied(&path)).await {
        Ok(result) => result.map_err(|source| CgroupError::new("watch", &path, source))?,
        Err(_) => {
            let source = io::Error::from(io::ErrorKind::TimedOut);
            return Err(CgroupError::new("wait for the last process of", dir, source));
        }
    }
    let path = dir.to_owned();
    let removed = spawn_blocking(move || files::remove_all(&path)).await;
    removed.unwrap_or_else(|error| Err(CgroupError::new("remove", dir, error.into())))
}

/// Waits until `cgroup.events` says that nothing lives there
/// (`Documentation/admin-guide/cgroup-v2.rst`, "Un-populated Notification").
async fn emptied(events: &Path) -> io::Result<()> {
    let watched = Watched::new(File::open(events)?).map_err(|(_, error)| error)?;
    loop {
        match files::keyed_in(watched.file(), "populated") {
            Some(0) => return Ok(()),
            Some(_) => watched.changed().await?,
            None => return Err(io::Error::other("it does not say whether anything lives there")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::engine::testing::settings;

    #[test]
    fn without_controllers_what_is_missing_is_named_and_the_leaves_are_there() {
        let tenant = tempfile::tempdir().unwrap();
        let dir = tenant.path().join("s");
        let scope = Scope::make(dir.clone(), &settings().sandbox.limits, "delegate").unwrap();
        let placement = scope.placement();
        assert_eq!((placement.agent, placement.kernel), (dir.join("agent"), dir.join("kernel")));
        assert!(dir.join("agent").is_dir() && dir.join("kernel/context-0-0").is_dir());
        let missing = "memory.max, memory.swap.max, pids.max, cpu.max, cpu.weight (controllers not \
                       available: memory, pids, cpu)";
        assert_eq!((placement.missing.as_str(), placement.fix.as_str()), (missing, "delegate"));
        assert!(!placement.limits_memory && !placement.limits_pids);
        assert!(Scope::make(dir, &settings().sandbox.limits, "").is_err(), "one per session");
    }

    #[test]
    fn counts_are_of_the_whole_scope_or_of_its_leaves() {
        let tenant = tempfile::tempdir().unwrap();
        let dir = tenant.path().join("s");
        let scope = Scope::make(dir.clone(), &settings().sandbox.limits, "").unwrap();
        assert_eq!(scope.usage(), ScopeUsage::default());
        let put = |file: &str, text: &str| fs::write(dir.join(file), text).unwrap();
        put("kernel/cpu.stat", "usage_usec 11\n");
        put("memory.current", "22\n");
        put("memory.peak", "33\n");
        put("kernel/pids.peak", "44\n");
        put("kernel/io.stat", "8:0 rbytes=5 wbytes=6\n");
        let used = ScopeUsage {
            cpu_us: Some(11),
            memory_bytes: Some(22),
            memory_peak_bytes: Some(33),
            processes_peak: Some(44),
            io: Some(Io { read_bytes: 5, write_bytes: 6 }),
        };
        assert_eq!(scope.usage(), used);
        put("kernel/context-0-0/cpu.stat", "usage_usec 5\n");
        let meter = scope.meter(Leaf::FIRST);
        let mark = meter.mark();
        put("kernel/context-0-0/cpu.stat", "usage_usec 9\n");
        assert_eq!(meter.since(&mark).cpu_us, Some(4));
        put("memory.events.local", "oom 0\n");
        fs::write(tenant.path().join("memory.events.local"), "oom 0\n").unwrap();
        assert_eq!(
            scope.oom_attribution().origin(),
            crate::cgroup::OomOrigin::Host,
            "neither limit was reached"
        );
    }

    #[tokio::test]
    async fn a_kill_is_written_and_a_removal_tells_what_went_wrong() {
        let tenant = tempfile::tempdir().unwrap();
        let dir = tenant.path().join("s");
        let scope = Scope::make(dir.clone(), &settings().sandbox.limits, "").unwrap();
        assert!(scope.kill().is_err(), "nothing to write to");
        assert!(scope.remove().await.is_err(), "the same");
        fs::write(dir.join("cgroup.kill"), "").unwrap();
        scope.kill().unwrap();
        assert_eq!(fs::read_to_string(dir.join("cgroup.kill")).unwrap(), "1");
        // Ordinary files can not be waited for: it must not be taken for empty.
        fs::write(dir.join("cgroup.events"), "populated 1\n").unwrap();
        assert_eq!(scope.remove().await.unwrap_err().operation, "watch");
        fs::write(dir.join("kernel/context-0-0/memory.events"), "oom_kill 3\n").unwrap();
        fs::write(dir.join("kernel/pids.events"), "max 4\n").unwrap();
        let counts = scope.events(Leaf::FIRST).read(Default::default());
        assert_eq!((counts.oom_kills, counts.forks_refused), (3, 4));
    }
}
