//! Which directory is ours to use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Missing;
use super::detect::{Layout, Mounts};
use super::files;

/// A directory that this process may use, before it does.
#[derive(Debug)]
pub(super) struct Found {
    /// Below which the tree is made.
    pub(super) root: PathBuf,
    /// Whether the directory was made by us, and goes with us.
    pub(super) made: bool,
    /// The cgroup this process was found in.
    pub(super) own: PathBuf,
    pub(super) layout: Layout,
}

pub(super) const SUPERVISOR: &str = "supervisor";

/// Begins the names of directories made beside other processes' cgroups.
pub(super) const MADE_PREFIX: &str = "vivarium-";

const DELEGATE: &str = "run it from its systemd unit, which has Delegate=yes, or by hand with \
    `systemd-run --user --scope -p Delegate=yes vivarium …`";

pub(super) const UNIFY: &str = "boot with systemd.unified_cgroup_hierarchy=1 (and \
    cgroup_no_v1=all), so that the controllers are on cgroup v2";

pub(super) fn find(prepared: Option<&Path>) -> Result<Found, Missing> {
    let text = |path: &str| {
        fs::read_to_string(path)
            .map_err(|error| missing(format!("can not read {path}: {error}"), "mount /proc"))
    };
    let mounts = Mounts::parse(&text("/proc/self/mountinfo")?, &text("/proc/self/cgroup")?);
    let layout = mounts.layout;
    let Some(own) = mounts.own else {
        return Err(match layout {
            Layout::None => missing("cgroup v2 is not mounted".to_owned(), UNIFY),
            _ => missing("this process's own cgroup is not visible here".to_owned(), DELEGATE),
        });
    };
    if let Some(root) = prepared {
        return probe(root).map(|()| Found { root: root.to_owned(), made: false, own, layout });
    }
    let base = base_of(&own).to_owned();
    probe(&base)?;
    if is_ours_alone(&base) {
        return Ok(Found { root: base, made: false, own, layout });
    }
    // Other processes live there too, perhaps another Vivarium: keep to a directory of our own.
    let root = base.join(format!("{MADE_PREFIX}{}", uuid::Uuid::new_v4().simple()));
    files::make_dir(&root).map_err(|error| missing(error.chain(), DELEGATE))?;
    Ok(Found { root, made: true, own, layout })
}

/// Where a process whose cgroup this is makes its tree: outside of what Vivarium has made. A second
/// engine in one process finds itself in the leaf of the first.
fn base_of(own: &Path) -> &Path {
    let is_leaf = own.file_name().is_some_and(|name| name == SUPERVISOR);
    let base = own.parent().filter(|_| is_leaf).unwrap_or(own);
    let name = base.file_name().and_then(|name| name.to_str());
    let is_made = name.is_some_and(|name| name.starts_with(MADE_PREFIX));
    base.parent().filter(|_| is_made).unwrap_or(base)
}

fn missing(why: String, fix: &str) -> Missing {
    Missing { why, fix: fix.to_owned() }
}

/// Whether directories can be made here: found out by making one, since neither the user id
/// nor the mode bits tell (a container's cgroupfs is often mounted read-only).
fn probe(dir: &Path) -> Result<(), Missing> {
    let trial = dir.join(format!("{MADE_PREFIX}probe-{}", uuid::Uuid::new_v4().simple()));
    fs::create_dir(&trial).and_then(|()| fs::remove_dir(&trial)).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                format!("the cgroup {} is not delegated to this process: {error}", dir.display())
            }
            _ => format!("no cgroup can be made in {}: {error}", dir.display()),
        };
        missing(why, DELEGATE)
    })
}

/// Whether no other process is in this cgroup, and it is not the root of the hierarchy.
fn is_ours_alone(dir: &Path) -> bool {
    // The root cgroup has no cgroup.type.
    let own_pid = std::process::id().to_string();
    dir.join("cgroup.type").exists()
        && files::read(&dir.join("cgroup.procs"))
            .is_ok_and(|pids| pids.lines().all(|pid| pid == own_pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_not_made_inside_of_another() {
        let made = format!("/a/{MADE_PREFIX}1");
        for (own, base) in [
            ("/a/b".to_owned(), "/a/b"),
            (format!("/a/{SUPERVISOR}"), "/a"),
            (format!("{made}/{SUPERVISOR}"), "/a"),
            (format!("{made}/b"), &format!("{made}/b")),
            (made.clone(), "/a"),
            ("/".to_owned(), "/"),
        ] {
            assert_eq!(base_of(Path::new(&own)), Path::new(base), "{own}");
        }
    }

    #[test]
    fn a_directory_is_ours_alone_with_no_other_process_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let put = |file: &str, text: String| fs::write(dir.path().join(file), text).unwrap();
        put("cgroup.procs", format!("{own}\n"));
        assert!(!is_ours_alone(dir.path()), "the root of all has no type");
        put("cgroup.type", "domain\n".to_owned());
        assert!(is_ours_alone(dir.path()));
        put("cgroup.procs", format!("{own}\n{}\n", own + 1));
        assert!(!is_ours_alone(dir.path()));
        fs::remove_file(dir.path().join("cgroup.procs")).unwrap();
        assert!(!is_ours_alone(dir.path()));
    }

    #[test]
    fn where_nothing_can_be_made_is_told_with_a_fix() {
        let dir = tempfile::tempdir().unwrap();
        probe(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let Missing { why, fix } = probe(&dir.path().join("none")).unwrap_err();
        assert!(why.contains("no cgroup can be made in") && fix.contains("Delegate=yes"), "{why}");
    }
}
