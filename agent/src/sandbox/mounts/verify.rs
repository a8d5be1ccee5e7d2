//! Reads back that the root is the session's own, and what each mount in it allows.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{Pid, getpid};
use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::policy::StoreMount;

use super::proc::MASKED_FILES;
use super::{EMPTY, hidden};
use crate::sandbox::{Context, LayerError, proc_file, system_paths};

/// How the kernel writes `hidepid=ptraceable` in a line of mountinfo.
const PROC_HIDDEN: &str = "hidepid=ptraceable";

/// One line of /proc/self/mountinfo, as far as it matters here: proc_pid_mountinfo(5).
struct Mount<'a> {
    point: &'a str,
    options: Vec<&'a str>,
    /// Of the filesystem itself, for all its mounts.
    super_options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (_, super_options) = line.rsplit_once(' ')?;
        let mut fields = line.split(' ').skip(4);
        let (point, options) = (fields.next()?, fields.next()?.split(',').collect());
        Some(Self { point, options, super_options })
    }

    /// Its path, in which the file has space, tab, newline and backslash as `\\ooo`.
    fn path(&self) -> PathBuf {
        let mut parts = self.point.split('\\');
        let mut bytes: Vec<u8> = parts.next().unwrap_or_default().into();
        for part in parts {
            let (code, rest) = part.split_at_checked(3).unwrap_or((part, ""));
            bytes.extend(u8::from_str_radix(code, 8));
            bytes.extend(rest.bytes());
        }
        OsString::from_vec(bytes).into()
    }

    /// Whether it is an overlay that we made, and not one of the host's that is bound.
    fn is_own_overlay(&self) -> bool {
        self.super_options.contains("lowerdir=/proc/self/fd/") && self.super_options.contains(EMPTY)
    }

    fn has(&self, option: &str) -> bool {
        self.options.contains(&option)
    }
}

/// Checks every mount there is: each nosuid, each nodev but the devices and what /dev/null
/// covers, each read-only but the three writable places,
/// homes and volumes that may be written to, and /proc.
pub(super) fn verify(context: &Context) -> Result<Report, LayerError> {
    let path = "/proc/self/mountinfo";
    let text = proc_file::read(path)?;
    let policy = &context.policy;
    check(&policy.workdir.to_string_lossy(), &policy.stores, &text)?;
    if context.applies(Layer::Namespaces) {
        let seen = fs::read_link("/proc/self")
            .map_err(|error| LayerError::new("readlink /proc/self", error))?;
        check_proc(&seen, getpid())?;
    }
    if context.is_wasm() {
        check_no_exec(&policy.workdir, &text)?;
    }
    hidden::verify(context)?;
    if context.program.is_none() {
        verify_own_program()?;
    }
    let detail = format!("own root, {} mounts read back", text.lines().count());
    let bound = not_isolated(context, &text);
    if bound.is_empty() {
        return Ok(Report::enforced(Layer::Mounts, detail));
    }
    Ok(Report::partial(
        Layer::Mounts,
        format!(
            "{detail}; not through overlayfs, so that sockets and FIFOs of the host in them can be \
             connected to: {}",
            bound.join(", ")
        ),
        "load the kernel's module `overlay`, and name directories below which nothing else is \
         mounted and whose filesystem overlayfs can use",
    ))
}

/// Checks every mount of `mountinfo`, and that those of a root of its own are among them.
fn check(workdir: &str, stores: &[StoreMount], mountinfo: &str) -> Result<(), LayerError> {
    let writable = [workdir, "/tmp", "/dev/shm", "/proc"];
    let is_writable_store = |mount: &Mount<'_>| {
        stores.iter().any(|store| !store.read_only && mount.path() == store.target)
    };
    for line in mountinfo.lines() {
        let mount = Mount::parse(line)
            .ok_or_else(|| LayerError::new("read a mount", format!("line {line:?}")))?;
        let device = [system_paths::TERMINALS, system_paths::OWN_TERMINAL].contains(&mount.point)
            || system_paths::DEVICES.contains(&mount.point)
            || is_masked(mount.point);
        let no_exec = ["/tmp", "/dev/shm", "/proc", system_paths::TERMINALS];
        let expected = [
            ("nosuid", true),
            ("nodev", !device),
            ("ro", !writable.contains(&mount.point) && !device && !is_writable_store(&mount)),
            ("noexec", no_exec.contains(&mount.point)),
        ];
        if mount.point == "/proc" && !mount.super_options.contains(PROC_HIDDEN) {
            return Err(LayerError::not_in_force("a /proc of its own", mount.super_options));
        }
        for (option, wanted) in expected {
            if wanted && !mount.has(option) {
                return Err(LayerError::not_in_force(
                    format!("{option} on {}", mount.point),
                    mount.options.join(","),
                ));
            }
        }
    }
    for place in [workdir, "/proc", "/tmp", "/dev/shm", system_paths::TERMINALS, "/"] {
        let is_there = |line| Mount::parse(line).is_some_and(|mount| mount.point == place);
        if !mountinfo.lines().any(is_there) {
            return Err(LayerError::not_in_force("a root of its own", format!("no {place}")));
        }
    }
    for StoreMount { target, .. } in stores {
        let is_there = |line| Mount::parse(line).is_some_and(|mount| mount.path() == *target);
        if !mountinfo.lines().any(is_there) {
            let found = "it is not mounted";
            return Err(LayerError::not_in_force(format!("{}", target.display()), found));
        }
    }
    Ok(())
}

/// Checks that /proc, in which this process is `seen`, is of the session's process namespace, in which it is `own`.
fn check_proc(seen: &Path, own: Pid) -> Result<(), LayerError> {
    if seen == Path::new(&own.to_string()) {
        return Ok(());
    }
    let found = format!("this process is {} in it", seen.display());
    Err(LayerError::not_in_force("a /proc of its own", found))
}

/// Checks that nothing at this mount can be executed.
fn check_no_exec(point: &Path, mountinfo: &str) -> Result<(), LayerError> {
    let mut mounts = mountinfo.lines().filter_map(Mount::parse);
    match mounts.rfind(|mount| mount.path() == point) {
        Some(mount) if mount.has("noexec") => Ok(()),
        other => {
            let options = other.map(|mount| mount.options.join(",")).unwrap_or_default();
            Err(LayerError::not_in_force(format!("noexec on {}", point.display()), options))
        }
    }
}

/// What is to be shown through overlayfs, and is not.
fn not_isolated(context: &Context, mountinfo: &str) -> Vec<String> {
    let mounts: Vec<_> =
        mountinfo.lines().filter_map(Mount::parse).map(|mount| (mount.path(), mount)).collect();
    let is_bound = |path: &&PathBuf| {
        let innermost = mounts
            .iter()
            .filter(|(point, _)| path.starts_with(point))
            .max_by_key(|(point, _)| point.as_os_str().len());
        fs::symlink_metadata(path).is_ok_and(|data| data.is_dir())
            && !innermost.is_some_and(|(_, mount)| mount.is_own_overlay())
    };
    super::isolated(context).filter(is_bound).map(|path| path.display().to_string()).collect()
}

/// A kernel that was forked goes on as its template's program, whose file is on a mount of the
/// template's ([`crate::zygote`]) and none of the session's root.
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

/// Whether `point` is a file of /proc under a cover, which is /dev/null.
fn is_masked(point: &str) -> bool {
    point.strip_prefix("/proc/").is_some_and(|name| MASKED_FILES.contains(&name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use vivarium_protocol::policy::Network;

    use super::*;
    use crate::sandbox::landlock::fixture;

    /// The mounts of a session, as far as there is one of each kind.
    const SESSION: [(&str, &str, &str); 9] = [
        ("/", "ro,nosuid,nodev", "tmpfs tmpfs ro"),
        ("/usr", "ro,nosuid,nodev", "ext4 /dev/vda ro"),
        ("/workspace", "rw,nosuid,nodev", "tmpfs tmpfs rw"),
        ("/tmp", "rw,nosuid,nodev,noexec", "tmpfs tmpfs rw"),
        ("/dev/shm", "rw,nosuid,nodev,noexec", "tmpfs tmpfs rw"),
        ("/dev/null", "rw,nosuid,noexec", "devtmpfs udev rw"),
        ("/dev/pts", "rw,nosuid,noexec", "devpts devpts rw,mode=600,ptmxmode=666"),
        ("/proc", "rw,nosuid,nodev,noexec", "proc proc rw,hidepid=ptraceable"),
        ("/proc/kcore", "rw,nosuid,noexec", "devtmpfs udev rw"),
    ];

    fn mountinfo(mounts: &[(&str, &str, &str)]) -> String {
        let line = |(point, options, kind): &(&str, &str, &str)| {
            format!("67 63 0:40 / {point} {options} shared:1 - {kind}\n")
        };
        mounts.iter().map(line).collect()
    }

    #[test]
    fn each_mount_allows_what_it_is_for_and_no_more() {
        check("/workspace", &[], &mountinfo(&SESSION)).unwrap();
        for (index, (point, options, _)) in SESSION.into_iter().enumerate() {
            for option in options.split(',').filter(|option| *option != "rw") {
                let others: Vec<_> = options.split(',').filter(|other| *other != option).collect();
                let others = others.join(",");
                let mut mounts = SESSION;
                mounts.get_mut(index).unwrap().1 = &others;
                let failed = check("/workspace", &[], &mountinfo(&mounts)).err();
                // Nothing of a device is executed, whatever its mount.
                if option == "noexec" && ["/dev/null", "/proc/kcore"].contains(&point) {
                    assert!(failed.is_none());
                } else {
                    let said = failed.map(|error| error.to_string()).unwrap_or_default();
                    assert!(said.contains(&format!("{option} on {point}")), "{said}");
                }
            }
        }
        assert!(check("/elsewhere", &[], &mountinfo(&SESSION)).is_err(), "/workspace is writable");
        assert!(check("/workspace", &[], "garbled").is_err());
    }

    #[test]
    fn a_mount_from_which_something_can_be_executed_is_named() {
        let mounts = mountinfo(&SESSION);
        check_no_exec(Path::new("/tmp"), &mounts).unwrap();
        for point in ["/workspace", "/nonexistent"] {
            let failed = check_no_exec(Path::new(point), &mounts).err().map(|it| it.to_string());
            assert!(failed.is_some_and(|it| it.contains(&format!("noexec on {point}"))));
        }
    }

    #[test]
    fn a_root_of_its_own_has_all_places() {
        for place in ["/", "/workspace", "/tmp", "/dev/shm", "/dev/pts", "/proc"] {
            let others: Vec<_> = SESSION.into_iter().filter(|mount| mount.0 != place).collect();
            assert!(check("/workspace", &[], &mountinfo(&others)).is_err(), "without {place}");
        }
        let shown = mountinfo(&SESSION).replace(",hidepid=ptraceable", "");
        assert!(check("/workspace", &[], &shown).is_err(), "a /proc that shows others");
        let hosts = mountinfo(&[("/proc", "ro,nosuid,nodev,noexec", "proc proc rw")]);
        for both in [hosts.clone() + &mountinfo(&SESSION), mountinfo(&SESSION) + &hosts] {
            assert!(check("/workspace", &[], &both).is_err(), "the host's /proc beside it");
        }
        let elsewhere =
            mountinfo(&[("/srv", "ro,nosuid,nodev", "proc proc rw,hidepid=ptraceable")]);
        assert!(check("/workspace", &[], &(shown + &elsewhere)).is_err());
    }

    #[test]
    fn a_proc_of_another_process_namespace_is_not_its_own() {
        check_proc(&fs::read_link("/proc/self").unwrap(), getpid()).unwrap();
        for seen in ["4711", "10", ""] {
            assert!(check_proc(Path::new(seen), Pid::from_raw(1)).is_err(), "{seen}");
        }
    }

    #[test]
    fn bound_paths_without_our_overlay_are_reported() {
        let shown = tempfile::tempdir().unwrap();
        let path = shown.path().to_str().unwrap();
        let file = shown.path().join("file");
        fs::write(&file, "").unwrap();
        let mut context = fixture::context(&[Layer::Mounts], Network::None, Path::new("/"));
        context.policy.read_paths =
            vec![shown.path().to_owned(), file, Path::new("/nonexistent/path").to_owned()];
        let overlay = "overlay overlay ro,lowerdir=/proc/self/fd/7:/tmp/.empty";
        let mounts = |kind| mountinfo(&[SESSION[0], (path, "ro,nosuid,nodev", kind)]);
        assert_eq!(not_isolated(&context, &mounts("ext4 /dev/vda ro")), [path]);
        assert_eq!(not_isolated(&context, &mountinfo(&SESSION)), [path]);
        assert!(not_isolated(&context, &mounts(overlay)).is_empty());
        // The host's own, of which one half looks like ours.
        for half in
            ["overlay overlay ro,lowerdir=/proc/self/fd/7", "overlay overlay ro,lowerdir=/.empty"]
        {
            assert_eq!(not_isolated(&context, &mounts(half)), [path], "{half}");
        }
    }

    #[test]
    fn verification_fails_if_the_program_is_on_a_writable_mount() {
        // This one's, in the directory that it was built into.
        let failed = verify_own_program().err().map(|error| error.to_string());
        assert!(failed.is_some_and(|error| error.contains("ro on /proc/self/exe")));
    }

    #[test]
    fn a_line_of_mountinfo_is_read_whole() {
        let line = "67 63 0:40 / /srv/a\\040b\\134c ro,nosuid,nodev shared:1 - overlay overlay \
                    ro,lowerdir=/proc/self/fd/7:/tmp/.empty,redirect_dir=on";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.path(), Path::new("/srv/a b\\c"));
        assert!(mount.has("nodev") && mount.is_own_overlay());
        let of_docker = line.replace("/proc/self/fd/7:/tmp/.empty", "/var/lib/docker/a");
        assert!(!Mount::parse(&of_docker).unwrap().is_own_overlay());
    }
}
