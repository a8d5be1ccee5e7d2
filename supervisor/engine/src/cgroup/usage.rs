//! What the kernel has counted for each tenant, all its sessions together.

use std::path::Path;
use std::time::Duration;

use super::files;
use super::tree::{TENANTS, Tree};

/// A tenant's use of the host. `None` where the kernel does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantUsage {
    pub tenant: String,
    /// CPU time so far, also of sessions that are gone.
    pub cpu: Option<Duration>,
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
    /// Time lost to waiting so far.
    pub stalls: Vec<Stall>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// `cpu`, `memory` or `io`.
    pub resource: &'static str,
    /// `some` of the processes, or the `full` lot.
    pub share: &'static str,
    pub time: Duration,
}

/// What is billed to a tenant: CPU time so far and memory now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantMeter {
    pub tenant: String,
    pub cpu_us: Option<u64>,
    pub memory_bytes: Option<u64>,
}

impl Tree {
    /// The meters of every tenant that ever had a session here. Reads two files for each.
    pub fn meters(&self) -> Vec<TenantMeter> {
        let dirs = super::tree::children(&self.root().join(TENANTS)).unwrap_or_default();
        let meter = |dir: &std::path::PathBuf| {
            Some(TenantMeter {
                tenant: dir.file_name()?.to_str()?.to_owned(),
                cpu_us: files::keyed(&dir.join("cpu.stat"), "usage_usec"),
                memory_bytes: files::number(&dir.join("memory.current")),
            })
        };
        dirs.iter().filter_map(meter).collect()
    }

    /// What every tenant that ever had a session here has used. Reads some ten files for each.
    pub fn tenants(&self) -> Vec<TenantUsage> {
        // A directory that can not be listed has nothing to tell.
        let dirs = super::tree::children(&self.root().join(TENANTS)).unwrap_or_default();
        dirs.iter().filter_map(|dir| read(dir)).collect()
    }
}

fn read(dir: &Path) -> Option<TenantUsage> {
    let number = |file: &str| files::number(&dir.join(file));
    Some(TenantUsage {
        tenant: dir.file_name()?.to_str()?.to_owned(),
        cpu: files::keyed(&dir.join("cpu.stat"), "usage_usec").map(Duration::from_micros),
        memory_bytes: number("memory.current"),
        processes: number("pids.current"),
        stalls: ["cpu", "memory", "io"]
            .into_iter()
            .flat_map(|resource| {
                let text = files::read(&dir.join(format!("{resource}.pressure")));
                stalls(resource, &text.unwrap_or_default())
            })
            .collect(),
    })
}

/// The totals of a pressure file (`Documentation/accounting/psi.rst`), in lines as
/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in microseconds.
fn stalls(resource: &'static str, text: &str) -> Vec<Stall> {
    let total = |share: &'static str| {
        let line = text.lines().find_map(|line| line.strip_prefix(share)?.strip_prefix(' '))?;
        let total = line.split(' ').find_map(|field| field.strip_prefix("total="))?;
        Some(Stall { resource, share, time: Duration::from_micros(total.parse().ok()?) })
    };
    ["some", "full"].into_iter().filter_map(total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_from_pressure_files() {
        let text = "some avg10=1.00 avg60=0.50 avg300=0.10 total=1500000\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7";
        let stall = |share, time| Stall { resource: "io", share, time };
        assert_eq!(
            stalls("io", text),
            [stall("some", Duration::from_millis(1500)), stall("full", Duration::from_micros(7))]
        );
        for useless in ["", "some", "some total=x", "more total=1"] {
            assert!(stalls("io", useless).is_empty(), "{useless}");
        }
    }
}
