//! Where cgroup v2 is mounted, and where in it this process is.

use std::path::{Path, PathBuf};

/// How this host mounts its cgroups (`systemd(1)` calls them by these names too).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// v2 alone.
    Unified,
    /// v2 beside v1 hierarchies, which hold some or all of the controllers.
    Hybrid,
    /// No v2.
    None,
}

/// What `/proc/self/mountinfo` and `/proc/self/cgroup` say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounts {
    pub layout: Layout,
    /// This process's own v2 cgroup as a directory, if the mount shows it.
    pub own: Option<PathBuf>,
}

impl Mounts {
    pub fn parse(mountinfo: &str, cgroup: &str) -> Self {
        let mut v2 = None;
        let mut v1 = false;
        for line in mountinfo.lines() {
            // proc_pid_mountinfo(5): the type comes after a lone hyphen.
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let mut fields = before.split(' ').skip(3);
            let (Some(root), Some(target)) = (fields.next(), fields.next()) else { continue };
            match after.split(' ').next() {
                Some("cgroup2") if v2.is_none() => v2 = Some((unescape(root), unescape(target))),
                Some("cgroup") => v1 = true,
                _ => {}
            }
        }
        let Some((root, target)) = v2 else {
            return Self { layout: Layout::None, own: None };
        };
        let layout = if v1 { Layout::Hybrid } else { Layout::Unified };
        // cgroups(7): the v2 entry is `0::path`; relative to the cgroup namespace's root, and
        // so may begin with `/..` for a process outside it.
        let own = cgroup
            .lines()
            .find_map(|line| line.strip_prefix("0::"))
            .filter(|path| !path.contains("/..") && !path.ends_with(" (deleted)"))
            .and_then(|path| Path::new(path).strip_prefix(&root).ok().map(Path::to_owned))
            .map(
                |path| if path.as_os_str().is_empty() { target.clone() } else { target.join(path) },
            );
        Self { layout, own }
    }
}

fn unescape(text: &str) -> PathBuf {
    let replaced = text
        .replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\");
    PathBuf::from(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    const V2: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn layouts_are_told_apart() {
        let unified = Mounts::parse(V2, "0::/user.slice/a.scope\n");
        assert_eq!(unified.layout, Layout::Unified);
        assert_eq!(unified.own, Some("/sys/fs/cgroup/unified/user.slice/a.scope".into()));
        let hybrid = Mounts::parse(&format!("{V1}{V2}"), "8:pids:/\n0::/\n");
        assert_eq!(hybrid.layout, Layout::Hybrid);
        assert_eq!(hybrid.own, Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(Mounts::parse(V1, "4:memory:/x\n").layout, Layout::None);
    }

    #[test]
    fn a_cgroup_outside_what_is_mounted_is_not_ours() {
        let bound = "41 31 0:38 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(Mounts::parse(bound, "0::/other\n").own, None);
        assert_eq!(Mounts::parse(bound, "0::/docker/abc/x\n").own, Some("/sys/fs/cgroup/x".into()));
        assert_eq!(Mounts::parse(V2, "0::/../sibling\n").own, None);
        assert_eq!(Mounts::parse(V2, "0::/gone (deleted)\n").own, None);
    }

    #[test]
    fn octal_escapes_are_undone() {
        let spaced = "41 31 0:38 / /mnt/a\\040b rw - cgroup2 none rw\n";
        assert_eq!(Mounts::parse(spaced, "0::/\n").own, Some("/mnt/a b".into()));
    }
}
