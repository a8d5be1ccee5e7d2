//! The session's `/proc`.
//!
//! It shows the processes of the session's pid namespace only, and of those (hidepid, proc(5))
//! only the ones the reader may trace, so not the agent. What in it speaks of the host as a
//! whole is covered: `/proc/keys` lists another session's keys where two share an id,
//! `/proc/sysrq-trigger` and `/proc/sys` change the host, `/proc/kcore` is its memory.

use std::fs;
use std::path::Path;

use nix::mount::MsFlags;

use super::tree::{self, Access, detached};
use super::{EMPTY, mount_fs};
use crate::sandbox::{Context, LayerError, namespaces};

/// Entries covered by /dev/null or, if directories, by an empty one.
pub(super) const MASKED: [&str; 22] = [
    "acpi",
    "asound",
    "bus",
    "cmdline", // of the host's boot
    "config.gz",
    "diskstats",
    "driver",
    "fs",
    "interrupts",
    "irq",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "latency_stats",
    "locks",
    "partitions",
    "sched_debug",
    "scsi",
    "sysrq-trigger",
    "timer_list",
    "timer_stats",
];

/// Mounts `/proc` below `root`.
///
/// # Errors
/// If it can not be mounted or masked.
pub(super) fn mount_proc(context: &Context, root: &Path) -> Result<(), LayerError> {
    let proc = root.join("proc");
    tree::make_directory(&proc)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount_fs(Some("proc"), &proc, Some("proc"), flags, Some("hidepid=ptraceable")).map_err(
        |error| {
            error.with_fix(
                "a container around the daemon covers parts of its /proc, and the kernel then \
                 lets nobody mount a whole one: run the daemon on the host, or with an unmasked \
                 /proc (docker: --security-opt systempaths=unconfined)",
            )
        },
    )?;
    // Covers: an empty read-only directory, and a device that reads as empty.
    let empty = root.join(EMPTY);
    for name in MASKED {
        let target = proc.join(name);
        let Ok(metadata) = fs::symlink_metadata(&target) else {
            continue; // not every kernel has every entry
        };
        let cover = if metadata.is_dir() {
            detached(&empty, Access::ReadOnlyNoExec)?
        } else {
            detached(&root.join("dev/null"), Access::Device)?
        };
        tree::place(&cover, &target)?;
    }
    let sysctls = proc.join("sys");
    let read_only = detached(&sysctls, Access::ReadOnlyNoExec)?;
    // While they can be written, and after the last detached mount, which is counted as a
    // namespace.
    namespaces::limit_counts(context, root)?;
    tree::place(&read_only, &sysctls)
}
