//! How much memory our own cgroup, or one around it, leaves us.

use std::path::Path;

use super::files;
use super::tree::Tree;

/// What a limit leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headroom {
    pub left_bytes: u64,
    pub limit_bytes: u64,
}

impl Tree {
    /// The least that any limit around us leaves; `None` if there is no limit that we can see.
    pub fn headroom(&self) -> Option<Headroom> {
        let is_cgroup = |dir: &&Path| dir.join("cgroup.controllers").exists();
        let dirs = self.root().ancestors().take_while(is_cgroup);
        dirs.filter_map(of).min_by_key(|headroom| headroom.left_bytes)
    }
}

/// What the limits of one cgroup leave. `max`, which is no number, is none
/// (`Documentation/admin-guide/cgroup-v2.rst`, "Memory Interface Files").
fn of(dir: &Path) -> Option<Headroom> {
    let number = |file: &str| files::number(&dir.join(file));
    let limit_bytes = ["memory.max", "memory.high"].into_iter().filter_map(number).min()?;
    // Files that nobody has read for a while are given up before anything is short, as in
    // MemAvailable.
    let idle = files::keyed(&dir.join("memory.stat"), "inactive_file").unwrap_or(0);
    let used = number("memory.current")?.saturating_sub(idle);
    Some(Headroom { left_bytes: limit_bytes.saturating_sub(used), limit_bytes })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_lower_limit_counts_and_files_that_are_idle_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        assert_eq!(of(dir.path()), None, "no memory controller");
        write("memory.max", "max\n");
        write("memory.high", "max\n");
        write("memory.current", "700\n");
        assert_eq!(of(dir.path()), None, "no limit");
        write("memory.max", "1000\n");
        assert_eq!(of(dir.path()), Some(Headroom { left_bytes: 300, limit_bytes: 1000 }));
        write("memory.stat", "anon 1\ninactive_file 200\n");
        assert_eq!(of(dir.path()), Some(Headroom { left_bytes: 500, limit_bytes: 1000 }));
        write("memory.high", "400\n");
        assert_eq!(of(dir.path()), Some(Headroom { left_bytes: 0, limit_bytes: 400 }));
    }
}
