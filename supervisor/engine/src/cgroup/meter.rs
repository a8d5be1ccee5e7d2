//! What one execution uses of its session's scope.
//!
//! Executions come by the thousand in a second, so the files are open, each is one `pread(2)`
//! at either end, and what has no controller is not asked.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::files;

/// Bytes that went to and came from disks, all of them together. One that lies on another (LVM,
/// RAID) counts as well as the one below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Io {
    pub read_bytes: u64,
    pub write_bytes: u64,
}

/// The files, open. The default has none, and measures nothing.
#[derive(Debug, Default)]
pub struct Meter {
    cpu: Option<File>,
    io: Option<File>,
    peak: Option<Peak>,
    leaf_peak: Option<Peak>,
}

#[derive(Debug)]
struct Peak {
    file: File,
    /// Whether a write makes this descriptor's peak start again: Linux 6.12
    /// (`Documentation/admin-guide/cgroup-v2.rst`).
    resettable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    cpu_us: Option<u64>,
    io: Option<Io>,
    /// The session's peak, unless the descriptor's own was reset.
    peak_bytes: Option<u64>,
    /// The same of the leaf.
    leaf_peak_bytes: Option<u64>,
}

/// What was used since. `None` where the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time of the leaf, whether or not its processes were waited for, in microseconds.
    pub cpu_us: Option<u64>,
    /// Highest memory charged to the session.
    pub memory_peak_bytes: Option<u64>,
    /// Highest memory charged to the leaf.
    pub leaf_memory_peak_bytes: Option<u64>,
    /// Of all leaves together.
    pub io: Option<Io>,
}

impl Meter {
    /// Opens what there is. The memory is the whole scope's, as its limit is, and the leaf's.
    pub(super) fn open(scope: &Path, kernel: &Path, leaf: &Path) -> Self {
        Self {
            cpu: File::open(leaf.join("cpu.stat")).ok(),
            io: File::open(kernel.join("io.stat")).ok(),
            peak: Peak::open(scope),
            leaf_peak: Peak::open(leaf),
        }
    }

    pub fn mark(&self) -> Mark {
        Mark {
            cpu_us: self.cpu_us(),
            io: self.io(),
            peak_bytes: self.peak.as_ref().and_then(Peak::mark),
            leaf_peak_bytes: self.leaf_peak.as_ref().and_then(Peak::mark),
        }
    }

    pub fn since(&self, mark: &Mark) -> Used {
        let used = |now: u64, before: u64| now.saturating_sub(before);
        let io = self.io().zip(mark.io).map(|(now, before)| Io {
            read_bytes: used(now.read_bytes, before.read_bytes),
            write_bytes: used(now.write_bytes, before.write_bytes),
        });
        let since = |peak: &Option<Peak>, before| peak.as_ref().and_then(|peak| peak.since(before));
        Used {
            cpu_us: self.cpu_us().zip(mark.cpu_us).map(|(now, before)| used(now, before)),
            memory_peak_bytes: since(&self.peak, mark.peak_bytes),
            leaf_memory_peak_bytes: since(&self.leaf_peak, mark.leaf_peak_bytes),
            io,
        }
    }

    fn cpu_us(&self) -> Option<u64> {
        files::keyed_in(self.cpu.as_ref()?, "usage_usec")
    }

    fn io(&self) -> Option<Io> {
        files::read_again(self.io.as_ref()?).map(|text| Io::parse(&text))
    }
}

impl Peak {
    fn open(scope: &Path) -> Option<Self> {
        let path = scope.join("memory.peak");
        // Before 6.12 the file's mode says that it can not be written; for root a write fails.
        if let Ok(file) = OpenOptions::new().read(true).write(true).open(&path)
            && reset(&file)
        {
            return Some(Self { file, resettable: true });
        }
        File::open(&path).ok().map(|file| Self { file, resettable: false })
    }

    fn mark(&self) -> Option<u64> {
        if self.resettable && reset(&self.file) { None } else { self.read() }
    }

    /// The peak since a mark. A session's peak that has not risen says nothing about what came
    /// after it was reached.
    fn since(&self, before: Option<u64>) -> Option<u64> {
        self.read().filter(|now| before.is_none_or(|before| *now > before))
    }

    fn read(&self) -> Option<u64> {
        files::read_again(&self.file)?.trim_end().parse().ok()
    }
}

fn reset(peak: &File) -> bool {
    peak.write_at(b"0", 0).is_ok()
}

impl Io {
    /// Adds up `io.stat`: a line for each disk, as `8:0 rbytes=1459200 wbytes=314773504 rios=…`.
    pub(super) fn parse(text: &str) -> Self {
        let sum = |key: &str| {
            let fields = text.split_ascii_whitespace().filter_map(|field| field.strip_prefix(key));
            fields.filter_map(|value| value.parse::<u64>().ok()).fold(0, u64::saturating_add)
        };
        Self { read_bytes: sum("rbytes="), write_bytes: sum("wbytes=") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn disks_are_added_up() {
        let text = "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=7 dios=1\n\
                    8:0 rbytes=800 wbytes=496 rios=6950 wios=1252 dbytes=50331648 dios=3021\n\
                    252:0 \n";
        assert_eq!(Io::parse(text), Io { read_bytes: 1_460_000, write_bytes: 314_774_000 });
        assert_eq!(Io::parse(""), Io::default());
    }

    #[test]
    fn missing_usage_file_is_not_measured() {
        let dir = tempfile::tempdir().unwrap();
        for meter in [Meter::open(dir.path(), dir.path(), dir.path()), Meter::default()] {
            assert_eq!(meter.since(&meter.mark()), Used::default());
        }
    }

    #[test]
    fn differences_are_what_was_used() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        put("cpu.stat", "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n");
        put("io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n");
        let meter = Meter::open(dir.path(), dir.path(), dir.path());
        let mark = meter.mark();
        put("cpu.stat", "usage_usec 4000\n");
        put("io.stat", "8:0 rbytes=10 wbytes=24\n8:16 rbytes=5 wbytes=0\n");
        let io = Some(Io { read_bytes: 5, write_bytes: 4 });
        assert_eq!(meter.since(&mark), Used { cpu_us: Some(2500), io, ..Used::default() });
    }

    /// An ordinary file keeps what is written: it is what a descriptor's own peak is reset by.
    #[test]
    fn a_peak_that_can_be_reset_is_that_of_the_execution() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.peak");
        fs::write(&path, "4096\n").unwrap();
        let meter = Meter::open(dir.path(), dir.path(), dir.path());
        assert_eq!(fs::read_to_string(&path).unwrap(), "0096\n", "tried");
        fs::write(&path, "8192\n").unwrap();
        let mark = meter.mark();
        assert_eq!(
            (mark.peak_bytes, fs::read_to_string(&path).unwrap().as_str()),
            (None, "0192\n")
        );
        fs::write(&path, "77\n").unwrap();
        assert_eq!(meter.since(&mark).memory_peak_bytes, Some(77));
        let read_only = Peak { file: File::open(&path).unwrap(), resettable: true };
        assert_eq!(read_only.mark(), Some(77), "it can be no more");
        // It takes no write: as before Linux 6.12.
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/proc/self/limits", &path).unwrap();
        assert!(Peak::open(dir.path()).is_some_and(|peak| !peak.resettable));
    }

    #[test]
    fn a_peak_that_can_not_be_reset_says_something_if_it_rose() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.peak");
        fs::write(&path, "4096\n").unwrap();
        let peak = Peak { file: File::open(&path).unwrap(), resettable: false };
        let mark = peak.mark();
        assert_eq!((mark, peak.since(mark)), (Some(4096), None));
        fs::write(&path, "8192\n").unwrap();
        assert_eq!(peak.since(mark), Some(8192));
    }
}
