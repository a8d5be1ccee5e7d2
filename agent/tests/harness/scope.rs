//! A scope in the cgroup tree of the host, as the supervisor makes it.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::poll::poll;
use vivarium_protocol::policy::CgroupPlacement;

pub(crate) struct Scope(PathBuf);

impl Scope {
    /// With the leaves that a session starts with. `None` where this process may make none.
    pub(crate) fn make() -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        let root = Path::new(mount.split(' ').nth(4)?);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let scope = Self(root.join(format!("leaves-test-{}-{number}", std::process::id())));
        if !nix::unistd::geteuid().is_root() || fs::create_dir(&scope.0).is_err() {
            return None;
        }
        scope.own(&scope.0);
        for leaf in ["launcher", "agent", "kernel", "kernel/context-0-0"] {
            scope.make_dir(leaf);
        }
        Some(scope)
    }

    /// Makes a leaf below `kernel`. Returns the files that control it.
    pub(crate) fn make_leaf(&self, name: &str) -> [File; 2] {
        self.make_dir(&format!("kernel/{name}"));
        self.leaf(name)
    }

    pub(crate) fn leaf(&self, name: &str) -> [File; 2] {
        let leaf = self.dir("kernel").join(name);
        let kill = OpenOptions::new().write(true).open(leaf.join("cgroup.kill")).unwrap();
        [kill, File::open(leaf.join("cgroup.events")).unwrap()]
    }

    /// Removes a leaf, in which nothing may be.
    pub(crate) fn remove_leaf(&self, name: &str) {
        fs::remove_dir(self.dir("kernel").join(name)).unwrap();
    }

    /// Pids of the processes in a leaf.
    pub(crate) fn processes(&self, name: &str) -> usize {
        let procs = self.dir("kernel").join(name).join("cgroup.procs");
        fs::read_to_string(procs).unwrap().lines().count()
    }

    pub(crate) fn placement(&self) -> CgroupPlacement {
        CgroupPlacement {
            agent: self.dir("agent"),
            kernel: self.dir("kernel"),
            missing: String::new(),
            fix: String::new(),
            limits_memory: false,
            limits_pids: false,
        }
    }

    pub(super) fn dir(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn make_dir(&self, name: &str) {
        let dir = self.dir(name);
        fs::create_dir(&dir).unwrap();
        self.own(&dir);
    }

    /// Makes a cgroup the launcher's, as far as it starts processes in it.
    fn own(&self, dir: &Path) {
        for path in [dir, &dir.join("cgroup.procs")] {
            let owned = std::os::unix::fs::chown(path, Some(65534), Some(65534));
            assert!(owned.is_ok(), "{}: {owned:?}", path.display());
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let leaves = fs::read_dir(self.dir("kernel")).unwrap().flatten();
        let leaves = leaves.map(|entry| entry.path()).filter(|path| path.is_dir());
        let others = ["launcher", "agent", "kernel", ""].map(|name| self.dir(name));
        for dir in leaves.collect::<Vec<_>>().into_iter().chain(others) {
            // What has been killed may take a moment.
            for _ in 0..1000 {
                if fs::remove_dir(&dir).is_ok() {
                    break;
                }
                poll(&mut [], 5_u16).unwrap();
            }
        }
    }
}
