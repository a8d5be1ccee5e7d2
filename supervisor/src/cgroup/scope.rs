//! One session's scope: its limits, its evidence, its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;
use vivarium_protocol::policy::{CgroupPlacement, Limits};

use super::files::{self, CgroupError};
use super::limits::{self, Controller, Place, Setting};
use super::tree;

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
    limits_memory: bool,
    limits_pids: bool,
    /// The kernel leaf's `pids.events`, which is read after every execution.
    pids_events: Option<File>,
}

/// What `memory.events` and `pids.events` have counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Processes killed for want of memory.
    pub oom_kills: u64,
    /// Forks refused for want of pids.
    pub forks_refused: u64,
}

impl Scope {
    /// Makes the directories and sets the limits.
    pub(super) fn make(dir: PathBuf, limits: &Limits, fix: &str) -> Result<Self, CgroupError> {
        std::fs::create_dir(&dir).map_err(|source| CgroupError::new("make", &dir, source))?;
        let scope = Self {
            dir,
            missing: String::new(),
            fix: String::new(),
            limits_memory: false,
            limits_pids: false,
            pids_events: None,
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
        let mut missing = Vec::new();
        for setting in limits::settings(limits) {
            if enabled.contains(&setting.controller) {
                self.set(&setting)?;
            } else {
                missing.push(setting.file);
            }
        }
        let absent: Vec<_> = Controller::ALL
            .into_iter()
            .filter(|controller| !enabled.contains(controller))
            .map(Controller::name)
            .collect();
        let (missing, fix) = if missing.is_empty() {
            (String::new(), String::new())
        } else {
            let files = missing.join(", ");
            let text = format!("{files} (controllers not available: {})", absent.join(", "));
            (text, fix.to_owned())
        };
        Ok(Self {
            dir: self.dir.clone(),
            missing,
            fix,
            limits_memory: enabled.contains(&Controller::Memory),
            limits_pids: enabled.contains(&Controller::Pids),
            pids_events: File::open(self.kernel().join("pids.events")).ok(),
        })
    }

    /// Writes one limit, and reads it back.
    fn set(&self, setting: &Setting) -> Result<(), CgroupError> {
        let path = match setting.place {
            Place::Scope => self.dir.join(setting.file),
            Place::Kernel => self.kernel().join(setting.file),
        };
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

    fn agent(&self) -> PathBuf {
        self.dir.join("agent")
    }

    fn kernel(&self) -> PathBuf {
        self.dir.join("kernel")
    }

    /// What the agent is told.
    #[must_use]
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

    /// What has been counted against the kernel so far. Zeros where there is no controller.
    #[must_use]
    pub fn events(&self) -> MemoryEvents {
        let memory = self.kernel().join("memory.events");
        MemoryEvents {
            oom_kills: files::keyed(&memory, "oom_kill").unwrap_or(0),
            forks_refused: self.forks_refused(),
        }
    }

    /// Forks refused so far for want of pids.
    #[must_use]
    pub fn forks_refused(&self) -> u64 {
        self.pids_events.as_ref().and_then(|file| files::keyed_in(file, "max")).unwrap_or(0)
    }

    /// CPU time of tenant code so far, in microseconds.
    #[must_use]
    pub fn cpu_us(&self) -> Option<u64> {
        files::keyed(&self.kernel().join("cpu.stat"), "usage_usec")
    }

    /// Memory charged to the session now, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        files::read(&self.dir.join("memory.current")).ok()?.parse().ok()
    }

    /// The most memory that was ever charged to it, in bytes.
    #[must_use]
    pub fn memory_peak_bytes(&self) -> Option<u64> {
        files::read(&self.dir.join("memory.peak")).ok()?.parse().ok()
    }

    /// Kills every process in it.
    ///
    /// # Errors
    /// [`CgroupError`] if `cgroup.kill` (Linux 5.14) can not be written.
    pub fn kill(&self) -> Result<(), CgroupError> {
        files::write(&self.dir.join("cgroup.kill"), "1")
    }

    /// Kills what is in it, waits until all of that is gone, and removes it.
    ///
    /// # Errors
    /// [`CgroupError`] if something is in it that does not die.
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
    files::remove_all(dir)
}

/// Waits until `cgroup.events` says that nothing lives there. The kernel notifies changes of
/// the file by `POLLPRI` (`Documentation/admin-guide/cgroup-v2.rst`, "Un-populated
/// Notification").
async fn emptied(events: &Path) -> io::Result<()> {
    #[expect(
        deprecated,
        reason = "the replacement is unsafe for the sake of types whose as_raw_fd lies; File's does not"
    )]
    let watched = AsyncFd::with_interest(File::open(events)?, Interest::PRIORITY)?;
    loop {
        let mut text = [0; 256];
        let len = watched.get_ref().read_at(&mut text, 0)?;
        let text = String::from_utf8_lossy(text.get(..len).unwrap_or_default());
        if text.lines().any(|line| line == "populated 0") {
            return Ok(());
        }
        watched.ready(Interest::PRIORITY).await?.clear_ready();
    }
}
