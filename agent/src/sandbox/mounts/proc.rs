//! The session's `/proc`.
//!
//! It shows the processes of the session's pid namespace only, and of those (hidepid, proc(5))
//! only the ones the reader may trace, so not the agent. What in it speaks of the host as a
//! whole is covered: `/proc/keys` lists another session's keys where two share an id,
//! `/proc/sysrq-trigger` and `/proc/sys` change the host, `/proc/kcore` is its memory.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

use super::EMPTY;
use super::tree::{self, Access, detached};
use crate::sandbox::{Context, LayerError, namespaces};

/// Files covered by one that is empty. What Python and its libraries read stays: cpuinfo, meminfo,
/// stat, loadavg, uptime, version, filesystems. What is there on some kernels only is here too,
/// and what its mode keeps for the host's root (kmsg, slabinfo, …) is not.
pub(super) const MASKED_FILES: [&str; 36] = [
    "allocinfo",
    "bootconfig",
    "buddyinfo",
    "cgroups", // how many the host has, so how many sessions
    "cmdline", // of the host's boot
    "config.gz",
    "consoles",
    "crypto",
    "devices",
    "diskstats",
    "dma",
    "execdomains",
    "fb",
    "interrupts",
    "iomem",
    "ioports",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "latency_stats",
    "locks",
    "mdstat",
    "misc",
    "modules",
    "mtrr",
    "partitions",
    "sched_debug",
    "schedstat",
    "softirqs",
    "swaps",
    "sysrq-trigger",
    "timer_list",
    "timer_stats",
    "vmstat",
    "zoneinfo",
];

/// Directories covered by one that is empty.
pub(super) const MASKED_DIRECTORIES: [&str; 10] =
    ["acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "pressure", "scsi", "tty"];

const PROC: &str = "/proc";

/// Has the host's at its place, until there is one of the session's own.
pub(super) fn show_hosts(root: &Path) -> Result<(), LayerError> {
    let place = root.join("proc");
    tree::make_directory(&place)?;
    tree::place(&detached(Path::new(PROC), Access::ReadOnlyNoExec)?, &place)?;
    // Each cover is a mount already, with what it is to allow: a bind of it takes that over, by one
    // system call instead of four.
    let cover = root.join(EMPTY);
    tree::place(&detached(&cover, Access::ReadOnlyNoExec)?, &cover)
}

/// Mounts the session's own, in place of the host's.
pub(super) fn mount_own(context: &Context) -> Result<(), LayerError> {
    let own = make()?;
    let proc = Path::new(PROC);
    umount2(proc, MntFlags::MNT_DETACH)
        .map_err(|error| LayerError::new("detach the host's /proc", error))?;
    tree::place(&own, proc)?;
    let covers = [("dev/null", &MASKED_FILES[..]), (EMPTY, &MASKED_DIRECTORIES[..])];
    for (cover, names) in covers {
        let cover = Path::new("/").join(cover);
        for name in names {
            let target = proc.join(name);
            match mount(Some(&cover), &target, None::<&str>, MsFlags::MS_BIND, None::<&str>) {
                Ok(()) | Err(Errno::ENOENT) => {} // not every kernel has every entry
                Err(error) => {
                    return Err(LayerError::new(format!("cover {}", target.display()), error));
                }
            }
        }
    }
    let sysctls = proc.join("sys");
    let read_only = detached(&sysctls, Access::ReadOnlyNoExec)?;
    // While they can be written, and after the last detached mount, which is counted as a
    // namespace.
    namespaces::limit_counts(context, Path::new("/"))?;
    tree::place(&read_only, &sysctls)
}

/// Makes it, detached: fsopen(2), fsmount(2).
fn make() -> Result<OwnedFd, LayerError> {
    let failed = |error| LayerError::new("mount proc", io::Error::from(error));
    let filesystem = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed)?;
    fsconfig_set_string(&filesystem, "hidepid", "ptraceable").map_err(failed)?;
    fsconfig_create(&filesystem).map_err(failed)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(|error| {
        failed(error).with_fix(
            "a container around the daemon covers parts of its /proc, and the kernel then \
             lets nobody mount a whole one: run the daemon on the host, or with an unmasked \
             /proc (docker: --security-opt systempaths=unconfined)",
        )
    })
}
