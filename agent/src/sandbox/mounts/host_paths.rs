//! Whether the host is as it was when a root was put together of parts of it.
//!
//! What a session sees of a directory is the host's, whatever changes in it. But a file that is bound stays the same
//! file when the host puts another in its place, and what is mounted on the host later is not mounted there.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_protocol::one_python;

use super::{etc, trees};
use crate::sandbox::{Context, system_paths};

/// The paths that a session's root is made of, as they were.
pub(crate) struct HostPaths {
    paths: Vec<(PathBuf, Option<Version>)>,
    /// Its mounts.
    mounts: File,
}

#[derive(Debug, PartialEq, Eq)]
struct Version {
    file: (u64, u64),
    changed: (i64, i64),
}

impl HostPaths {
    pub(crate) fn of(context: &Context) -> io::Result<Self> {
        let mounts = File::open("/proc/thread-self/mountinfo")?;
        let mut paths = trees(context);
        let interpreter = &context.policy.interpreter;
        paths.push(interpreter.path.clone());
        paths.extend(one_python::uv_paths(interpreter));
        let fixed = system_paths::ETC.iter().chain(system_paths::DEVICES).chain(&etc::CERTIFICATES);
        paths.extend(fixed.map(PathBuf::from));
        let hidden = &context.policy.hidden_paths;
        paths.extend(hidden.iter().filter_map(|path| Some(path.parent()?.to_owned())));
        let paths = paths.into_iter().map(|path| (version(&path), path));
        Ok(Self { paths: paths.map(|(version, path)| (path, version)).collect(), mounts })
    }

    /// For poll(2): ready once after each change of the host's mounts (proc_pid_mountinfo(5)).
    pub(crate) fn poll_mounts(&self) -> PollFd<'_> {
        PollFd::new(self.mounts.as_fd(), PollFlags::POLLPRI)
    }

    pub(crate) fn are_unchanged(&self) -> bool {
        poll(&mut [self.poll_mounts()], PollTimeout::ZERO) == Ok(0)
            && self.paths.iter().all(|(path, before)| version(path) == *before)
    }
}

/// Of what the path leads to, as links are followed; `None` if there is nothing, or nothing to be seen.
fn version(path: &Path) -> Option<Version> {
    let of = |found: Metadata| Version {
        file: (found.dev(), found.ino()),
        changed: (found.ctime(), found.ctime_nsec()),
    };
    path.metadata().ok().map(of)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    use vivarium_protocol::layer::Layer;
    use vivarium_protocol::policy::Network;

    use super::*;
    use crate::sandbox::fixture;

    fn context(read_path: &Path) -> Context {
        let mut context = fixture::context(&[Layer::Mounts], Network::None, Path::new("/"));
        context.policy.read_paths = vec![read_path.to_owned()];
        context
    }

    #[test]
    fn a_path_that_is_replaced_made_or_removed_is_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let [shown, kept] = ["shown", "kept"].map(|name| dir.path().join(name));
        let paths = || HostPaths::of(&context(&shown)).unwrap();

        let missing = paths();
        assert!(missing.are_unchanged());
        fs::write(&shown, "text").unwrap();
        assert!(!missing.are_unchanged());

        let first = paths();
        fs::write(dir.path().join("other"), "text").unwrap();
        assert!(first.are_unchanged(), "of another path");
        fs::rename(&shown, &kept).unwrap();
        assert!(!first.are_unchanged());
        fs::write(&shown, "text").unwrap();
        assert!(!first.are_unchanged(), "the same, but another file");

        let link = dir.path().join("link");
        symlink(&shown, &link).unwrap();
        let followed = HostPaths::of(&context(&link)).unwrap();
        assert!(followed.are_unchanged());
        fs::rename(&kept, &shown).unwrap();
        assert!(!followed.are_unchanged());
    }

    /// Only root can mount.
    #[test]
    fn a_mount_is_a_change() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let name = "::a_mount_is_a_change";
        fixture::in_child(&format!("{}{name}", module_path!()), || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let paths = HostPaths::of(&context(dir.path())).unwrap();
            assert!(paths.are_unchanged());

            mount(Some("tmpfs"), "/mnt", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();

            assert!(!paths.are_unchanged());
        });
    }
}
