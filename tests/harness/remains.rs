//! What is left of a daemon that is no more.

use std::fs;
use std::path::{Path, PathBuf};

use crate::daemon::Daemon;
use crate::processes::Process;
use crate::wait;

/// What a daemon has made, to be looked for when it is no more.
pub(crate) struct Remains {
    processes: Vec<Process>,
    cgroup: Option<PathBuf>,
    runtime_dir: PathBuf,
    dir: PathBuf,
}

impl Remains {
    pub(crate) fn of(daemon: &Daemon) -> Self {
        let dir = daemon.dir().to_owned();
        Self {
            processes: daemon.processes(),
            cgroup: daemon.cgroup(),
            runtime_dir: dir.join("run"),
            dir,
        }
    }

    /// No process, no cgroup of a session with something in it, no mount.
    #[track_caller]
    pub(crate) fn check_running(&self) {
        wait::until_true("the end of every process of the daemon", || {
            !self.processes.iter().any(Process::is_alive)
        });
        if let Some(cgroup) = &self.cgroup {
            wait::until_true("empty cgroups", || processes_below(cgroup).is_empty());
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let dir = self.dir.display().to_string();
        assert!(!mounts.contains(&dir), "a mount is left: {mounts}");
    }

    /// Nothing but what outlives a daemon.
    #[track_caller]
    pub(crate) fn check(&self) {
        self.check_running();
        let scopes =
            self.cgroup.as_ref().map(|cgroup| directories(&cgroup.join("tenants/default")));
        assert_eq!(scopes.unwrap_or_default(), [] as [PathBuf; 0], "cgroups are left");
        let left: Vec<_> = fs::read_dir(&self.runtime_dir)
            .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
            .unwrap_or_default();
        assert_eq!(left, [] as [PathBuf; 0], "the runtime directory is not empty");
    }
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

/// The pids in a cgroup and in those below it.
fn processes_below(cgroup: &Path) -> Vec<String> {
    let own = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<_> = own.lines().map(str::to_owned).collect();
    pids.extend(directories(cgroup).iter().flat_map(|below| processes_below(below)));
    pids
}
