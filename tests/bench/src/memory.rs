//! The memory of a process, from proc(5).

use std::fs;
use std::io;

/// Why memory could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}")]
pub struct MemoryError {
    path: String,
    source: io::Error,
}

/// The proportional set size: `smaps_rollup`, proc_pid_smaps(5).
pub(super) fn pss_bytes(pid: u32) -> Result<u64, MemoryError> {
    field_bytes(pid, "smaps_rollup", "Pss:")
}

/// The sum of those of the daemon's launchers; none if there are fewer than so many, or one can not
/// be read: it is another user's.
pub(super) fn launchers_pss_bytes(daemon: u32, at_least: usize) -> Option<u64> {
    let mut launchers = 0_usize;
    let mut sum = 0;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have ended since it was listed.
        let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        if is_launcher(&read("cmdline")) && parent(&read("stat")) == Some(daemon) {
            launchers += 1;
            sum += pss_bytes(pid).ok()?;
        }
    }
    (launchers >= at_least).then_some(sum)
}

/// The agent has the same arguments, and another parent: its launcher.
fn is_launcher(cmdline: &str) -> bool {
    cmdline.split('\0').nth(1) == Some("launch")
}

/// The fourth field; the second is a name in parentheses that may hold anything
/// (`proc_pid_stat(5)`).
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// What the host could still give away without swapping: `MemAvailable`, `proc_meminfo(5)`.
pub(super) fn available_bytes() -> Result<u64, MemoryError> {
    read_bytes("/proc/meminfo".to_owned(), "MemAvailable:")
}

/// A watch on the most that a process has resident, from its beginning on.
///
/// The kernel keeps that maximum itself, so nothing is missed between two looks, and looking
/// costs the process nothing. There is no such maximum of the proportional set size.
#[derive(Debug)]
pub(super) struct Peak {
    pid: u32,
    before_bytes: u64,
}

impl Peak {
    pub(super) fn watch(pid: u32) -> Result<Self, MemoryError> {
        let path = format!("/proc/{pid}/clear_refs");
        // 5: VmHWM begins again at what is resident now (proc_pid_clear_refs(5)).
        fs::write(&path, "5").map_err(|source| MemoryError { path, source })?;
        Ok(Self { pid, before_bytes: field_bytes(pid, "status", "VmRSS:")? })
    }

    /// What was resident at the beginning.
    pub(super) const fn before_bytes(&self) -> u64 {
        self.before_bytes
    }

    /// The most that has been resident since.
    pub(super) fn most_bytes(&self) -> Result<u64, MemoryError> {
        field_bytes(self.pid, "status", "VmHWM:")
    }
}

fn field_bytes(pid: u32, file: &str, name: &str) -> Result<u64, MemoryError> {
    read_bytes(format!("/proc/{pid}/{file}"), name)
}

fn read_bytes(path: String, name: &str) -> Result<u64, MemoryError> {
    let read = fs::read_to_string(&path).and_then(|text| {
        let kib = kib(&text, name);
        kib.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("no {name} in it")))
    });
    read.map(|kib| kib.saturating_mul(1024)).map_err(|source| MemoryError { path, source })
}

/// The number of a line such as `VmRSS:      1234 kB`.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "Rss:  20 kB\nPss_Dirty:  3 kB\nPss:                 12 kB\n";
        assert_eq!(kib(text, "Pss:"), Some(12));
        assert_eq!(kib(text, "VmHWM:"), None);
        assert_eq!(kib("Pss: 12", "Pss:"), None);
    }

    #[test]
    fn a_launcher_is_recognised_by_its_argument_and_parent() {
        assert!(is_launcher("/proc/self/fd/3\0launch\0"));
        assert!(!is_launcher("/proc/self/fd/3\0template\0launch\0"));
        assert!(!is_launcher(""));
        assert_eq!(parent("12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent(""), None);
        assert_eq!(launchers_pss_bytes(std::process::id(), 0), Some(0));
        assert_eq!(launchers_pss_bytes(std::process::id(), 1), None);
        assert!(available_bytes().unwrap() > 0);
    }

    #[test]
    fn the_peak_includes_memory_that_was_freed_again() {
        const HELD: usize = 64 << 20;
        let own = std::process::id();
        let peak = Peak::watch(own).unwrap();
        drop(std::hint::black_box(vec![1_u8; HELD]));
        let grown = peak.most_bytes().unwrap() - peak.before_bytes();
        assert!(grown >= HELD as u64 / 2, "{grown}");
        assert!(pss_bytes(own).unwrap() > 0);
        assert!(pss_bytes(u32::MAX).is_err());
    }
}
