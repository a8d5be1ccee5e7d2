//! How requests name files: relative to the working directory, or by the path that code sees.
//!
//! Text only: whether something is there, and through no link, the agent finds out when it opens it.

use std::path::Path;

/// Other names of the working directory, which models use. Inside a session they are symbolic links
/// to it, unless the operator shows something else there.
pub const ALIASES: [&str; 2] = ["/mnt/data", "/home/user"];

/// Where a session's home is.
pub const HOME: &str = "/home/sandbox";

/// Where a session's volumes are, each in a directory.
pub const VOLUMES: &str = "/mnt";

/// Where a built environment is. Nothing of the host can be bound above it.
pub const ENVIRONMENT: &str = "/.vivarium/environment";

/// The session's own directory for temporary files.
pub const TMP: &str = "/tmp";

/// A directory that the API reads and writes beneath.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The working directory.
    Workdir,
    /// [`TMP`].
    Tmp,
}

/// A path beneath a root. Not checked: it may be empty (the root itself), or climb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The directory.
    pub root: Root,
    /// The path relative to it.
    pub path: &'a str,
}

impl<'a> Place<'a> {
    /// What `path` names in a session whose working directory is `workdir`; `None` if it is absolute
    /// and beneath no root.
    #[must_use]
    pub fn of(path: &'a str, workdir: &Path) -> Option<Self> {
        if !path.starts_with('/') {
            return Some(Self { root: Root::Workdir, path });
        }
        // The working directory may be configured to lie below one of the others.
        let workdir = workdir.to_str().unwrap_or_default();
        let names = [workdir].into_iter().chain(ALIASES).map(|name| (name, Root::Workdir));
        names.chain([(TMP, Root::Tmp)]).find_map(|(name, root)| {
            let rest = path.strip_prefix(name).filter(|_| !name.is_empty())?;
            let path = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
            Some(Self { root, path })
        })
    }

    /// The one name that answers have for it: relative to the working directory, or absolute.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.root, self.path) {
            (Root::Workdir, path) => path.to_owned(),
            (Root::Tmp, "") => TMP.to_owned(),
            (Root::Tmp, path) => format!("{TMP}/{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(path: &'a str, workdir: &str) -> Option<(Root, &'a str)> {
        Place::of(path, Path::new(workdir)).map(|place| (place.root, place.path))
    }

    #[test]
    fn absolute_paths_name_files_beneath_the_two_roots() {
        for (path, expected) in [
            ("a/b", Some((Root::Workdir, "a/b"))),
            ("", Some((Root::Workdir, ""))),
            ("tmp/a", Some((Root::Workdir, "tmp/a"))),
            ("/workspace", Some((Root::Workdir, ""))),
            ("/workspace/", Some((Root::Workdir, ""))),
            ("/workspace/a b", Some((Root::Workdir, "a b"))),
            ("/mnt/data/a", Some((Root::Workdir, "a"))),
            ("/home/user/a/b", Some((Root::Workdir, "a/b"))),
            ("/tmp/x", Some((Root::Tmp, "x"))),
            ("/tmp", Some((Root::Tmp, ""))),
            // Whoever opens it refuses these.
            ("/tmp//x", Some((Root::Tmp, "/x"))),
            ("/tmp/../etc", Some((Root::Tmp, "../etc"))),
            ("/", None),
            ("/etc/passwd", None),
            ("/tmpx", None),
            ("/workspace2/a", None),
            ("/home/users", None),
            ("/home", None),
            ("//tmp/x", None),
        ] {
            assert_eq!(of(path, "/workspace"), expected, "{path}");
        }
        assert_eq!(of("/tmp/w/a", "/tmp/w"), Some((Root::Workdir, "a")));
        assert_eq!(of("/tmp/wx", "/tmp/w"), Some((Root::Tmp, "wx")));
    }

    #[test]
    fn each_file_has_one_name() {
        for (path, name) in [
            ("a", "a"),
            ("/workspace/a", "a"),
            ("/mnt/data/a", "a"),
            ("/workspace/", ""),
            ("/tmp/a", "/tmp/a"),
            ("/tmp/", "/tmp"),
        ] {
            let place = Place::of(path, Path::new("/workspace")).unwrap();
            assert_eq!(place.name(), name);
            assert_eq!(Place::of(&place.name(), Path::new("/workspace")).unwrap(), place);
        }
    }
}
