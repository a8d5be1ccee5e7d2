//! What the kernel says of memory.
//!
//! Pressure is read and not waited for: a trigger to be polled would need CAP_SYS_RESOURCE on the
//! kernels we run on, or a window longer than the time between two readings
//! (`Documentation/accounting/psi.rst`).

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cgroup::{Headroom, Support, Tree};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Available {
    /// What can be had without swapping.
    pub available_bytes: u64,
    pub total_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryReading {
    /// `None` where nothing tells.
    pub memory: Option<Available>,
    /// The part of the last 10 s in which some processes waited for memory, in percent.
    pub pressure_percent: Option<f64>,
}

impl MemoryReading {
    /// Whether processes wait for memory more than so, and because the host has none: while more
    /// than a quarter of it is free, they wait in a limit of their own, and that is no reason to
    /// refuse others.
    pub(super) fn is_pressed(&self, percent: f64) -> bool {
        let is_scarce = self
            .memory
            .is_none_or(|available| available.available_bytes < available.total_bytes / 4);
        is_scarce && self.is_waiting(percent)
    }

    /// Whether processes wait for memory more than so.
    pub(super) fn is_waiting(&self, percent: f64) -> bool {
        self.pressure_percent.is_some_and(|found| found > percent)
    }
}

#[derive(Debug)]
pub struct Sources {
    /// proc(5).
    meminfo: PathBuf,
    /// As described in `Documentation/accounting/psi.rst`.
    pressure: PathBuf,
    /// Ours, which may have a limit.
    tree: Option<Arc<Tree>>,
}

impl Sources {
    pub fn of_this_host(cgroups: &Support) -> Self {
        let tree = match cgroups {
            Support::Available(tree) => Some(Arc::clone(tree)),
            Support::Unavailable(_) => None,
        };
        Self { meminfo: "/proc/meminfo".into(), pressure: "/proc/pressure/memory".into(), tree }
    }

    /// A file in the format of /proc/meminfo, and nothing else.
    #[cfg(test)]
    pub(crate) fn of_file(meminfo: PathBuf) -> Self {
        Self { meminfo, pressure: PathBuf::new(), tree: None }
    }

    pub fn read(&self) -> MemoryReading {
        let host = fs::read_to_string(&self.meminfo).ok().and_then(|text| {
            let (available_bytes, total_bytes) =
                (bytes(&text, "MemAvailable:")?, bytes(&text, "MemTotal:")?);
            Some(Available { available_bytes, total_bytes })
        });
        let own = self.tree.as_ref().and_then(|tree| tree.headroom());
        let own = own.map(|Headroom { left_bytes, limit_bytes }| Available {
            available_bytes: left_bytes,
            total_bytes: limit_bytes,
        });
        let pressure = fs::read_to_string(&self.pressure).ok();
        MemoryReading {
            memory: host.into_iter().chain(own).min_by_key(|available| available.available_bytes),
            pressure_percent: pressure.as_deref().and_then(some_avg10_percent),
        }
    }
}

/// The value of a line as `MemAvailable:   123456 kB`.
fn bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Of `some avg10=0.00 avg60=0.00 avg300=0.00 total=0` and a line `full`, the first value.
fn some_avg10_percent(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_memory_files_read_as_unknown() {
        let (meminfo, pressure) =
            (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let path = |file: &tempfile::NamedTempFile| file.path().to_owned();
        let sources = Sources { meminfo: path(&meminfo), pressure: path(&pressure), tree: None };
        assert_eq!(sources.read(), MemoryReading::default());
        fs::write(&meminfo, "MemTotal:   4096 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n")
            .unwrap();
        fs::write(
            &pressure,
            "some avg10=12.34 avg60=90.00 avg300=0.00 total=7\nfull avg10=99.00\n",
        )
        .unwrap();
        let available = Available { available_bytes: 1 << 20, total_bytes: 4 << 20 };
        let expected = MemoryReading { memory: Some(available), pressure_percent: Some(12.34) };
        assert_eq!(sources.read(), expected);
        for nothing in ["full avg10=99.00", "some avg10=x", "some total=1"] {
            fs::write(&pressure, nothing).unwrap();
            fs::write(&meminfo, nothing).unwrap();
            assert_eq!(sources.read(), MemoryReading::default(), "{nothing}");
        }
    }

    #[test]
    fn this_host_tells() {
        let missing = crate::cgroup::Missing { why: "a test".into(), fix: String::new() };
        let read = Sources::of_this_host(&Support::Unavailable(missing)).read();
        let available = read.memory.unwrap();
        assert!((1..available.total_bytes).contains(&available.available_bytes), "{available:?}");
    }

    #[test]
    fn waiting_counts_where_memory_is_scarce() {
        let at = |available_bytes| MemoryReading {
            memory: Some(Available { available_bytes, total_bytes: 400 }),
            pressure_percent: Some(50.0),
        };
        assert!(at(99).is_pressed(49.0));
        assert!(!at(99).is_pressed(50.0));
        assert!(!at(100).is_pressed(49.0), "in a limit of its own");
        assert!(at(100).is_waiting(49.0));
        assert!(MemoryReading { memory: None, ..at(0) }.is_pressed(49.0));
        assert!(!MemoryReading { pressure_percent: None, ..at(0) }.is_pressed(0.0));
    }
}
