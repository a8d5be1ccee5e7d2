//! Reads back that the root is the session's own, and what each mount in it allows.

use std::fs;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};
use vivarium_protocol::layer::{Layer, Report};

use super::proc::MASKED;
use crate::sandbox::{Context, LayerError, system_paths};

/// How the kernel writes `hidepid=ptraceable` in a line of mountinfo.
const PROC_HIDDEN: &str = "hidepid=ptraceable";

/// One line of /proc/self/mountinfo, as far as it matters here: proc_pid_mountinfo(5).
struct Mount<'a> {
    point: &'a str,
    options: Vec<&'a str>,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(' ').skip(4);
        Some(Self { point: fields.next()?, options: fields.next()?.split(',').collect() })
    }

    fn has(&self, option: &str) -> bool {
        self.options.contains(&option)
    }
}

/// Checks every mount there is: each nosuid, each nodev but the devices and what /dev/null
/// covers, each read-only but the three writable places and /proc.
///
/// # Errors
/// [`LayerError`] naming the first mount that allows more.
pub(super) fn verify(context: &Context) -> Result<Report, LayerError> {
    let path = "/proc/self/mountinfo";
    let text =
        fs::read_to_string(path).map_err(|error| LayerError::new(format!("read {path}"), error))?;
    let workdir = context.policy.workdir.to_string_lossy();
    let writable = [&*workdir, "/tmp", "/dev/shm", "/proc"];
    let mut count = 0_usize;
    for line in text.lines() {
        let mount = Mount::parse(line)
            .ok_or_else(|| LayerError::new(format!("read {path}"), format!("line {line:?}")))?;
        let device = system_paths::DEVICES.contains(&mount.point) || is_masked(mount.point);
        let expected = [
            ("nosuid", true),
            ("nodev", !device),
            ("ro", !writable.contains(&mount.point) && !device),
            ("noexec", ["/tmp", "/dev/shm", "/proc"].contains(&mount.point)),
        ];
        for (option, wanted) in expected {
            if wanted && !mount.has(option) {
                return Err(LayerError::not_in_force(
                    format!("{option} on {}", mount.point),
                    mount.options.join(","),
                ));
            }
        }
        count += 1;
    }
    if !text.lines().any(|line| line.contains(" /proc ") && line.contains(PROC_HIDDEN)) {
        return Err(LayerError::not_in_force("a /proc of its own", PROC_HIDDEN));
    }
    for place in [&*workdir, "/proc", "/tmp", "/dev/shm", "/"] {
        if !text.lines().any(|line| Mount::parse(line).is_some_and(|mount| mount.point == place)) {
            return Err(LayerError::not_in_force("a root of its own", format!("no {place}")));
        }
    }
    if context.program.is_none() {
        verify_own_program()?;
    }
    Ok(Report::enforced(Layer::Mounts, format!("own root, {count} mounts read back")))
}

/// A kernel that was forked goes on as its template's program, whose file is on a mount of the
/// template's ([`crate::template`]) and none of the session's root.
fn verify_own_program() -> Result<(), LayerError> {
    let path = "/proc/self/exe";
    let mount = statvfs(path).map_err(|errno| LayerError::new(format!("statvfs {path}"), errno))?;
    for (flag, name) in [(FsFlags::ST_RDONLY, "ro"), (FsFlags::ST_NOSUID, "nosuid")] {
        if !mount.flags().contains(flag) {
            return Err(LayerError::not_in_force(
                format!("{name} on {path}"),
                format!("{:?}", mount.flags()),
            ));
        }
    }
    Ok(())
}

/// Whether `point` is an entry of /proc under a cover.
fn is_masked(point: &str) -> bool {
    Path::new(point)
        .strip_prefix("/proc")
        .is_ok_and(|name| name.to_str().is_some_and(|name| MASKED.contains(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_a_writable_mount_is_not_in_force() {
        // This one's, in the directory that it was built into.
        let failed = verify_own_program().err().map(|error| error.to_string());
        assert!(failed.is_some_and(|error| error.contains("ro on /proc/self/exe")));
    }
}
