//! The facts about the host and this process that defaults depend on.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

use crate::config::value::Value;

/// Gathered once; plain data, so that tests can invent them.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// The effective user id.
    pub uid: u32,
    /// Whether the user `vivarium` exists.
    pub has_own_user: bool,
    /// `STATE_DIRECTORY`, set by systemd's `StateDirectory=` (`systemd.exec(5)`).
    pub state_directory: Option<PathBuf>,
    /// `RUNTIME_DIRECTORY`, set by systemd's `RuntimeDirectory=`.
    pub runtime_directory: Option<PathBuf>,
    /// `XDG_STATE_HOME`, or `.local/state` in the home directory.
    pub state_home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_home: Option<PathBuf>,
    pub temp_dir: PathBuf,
}

impl Host {
    #[must_use]
    pub fn look() -> Self {
        Self {
            uid: Uid::effective().as_raw(),
            // An unreadable user database counts as one without that user.
            has_own_user: matches!(User::from_name(OWN_USER), Ok(Some(_))),
            state_directory: directory("STATE_DIRECTORY"),
            runtime_directory: directory("RUNTIME_DIRECTORY"),
            state_home: directory("XDG_STATE_HOME")
                .or_else(|| Some(directory("HOME")?.join(".local/state"))),
            runtime_home: directory("XDG_RUNTIME_DIR"),
            temp_dir: std::env::temp_dir(),
        }
    }

    /// The default of `server.state_dir`.
    pub(crate) fn state_dir(&self) -> Value {
        let home = self.state_home.as_deref();
        self.dir(self.state_directory.as_deref(), "/var/lib/vivarium", home, "state")
    }

    /// The default of `server.runtime_dir`.
    pub(crate) fn runtime_dir(&self) -> Value {
        let home = self.runtime_home.as_deref();
        self.dir(self.runtime_directory.as_deref(), "/run/vivarium", home, "run")
    }

    /// The default of `server.user`.
    pub(crate) fn user(&self) -> Value {
        Value::Text(if self.has_own_user { OWN_USER } else { FALLBACK_USER }.to_owned())
    }

    fn dir(&self, given: Option<&Path>, root: &str, home: Option<&Path>, what: &str) -> Value {
        let path = match (given, home) {
            (Some(given), _) => given.to_owned(),
            // A daemon that becomes `nobody` for lack of its own user uses other directories, which
            // are not in the way once that user exists.
            (None, _) if self.uid == 0 && self.has_own_user => PathBuf::from(root),
            (None, _) if self.uid == 0 => PathBuf::from(format!("{root}-{FALLBACK_USER}")),
            (None, Some(home)) => home.join(OWN_USER),
            // One level below the temporary directory, whose sticky bit then protects it: no other
            // user can replace it.
            (None, None) => self.temp_dir.join(format!("{OWN_USER}-{}-{what}", self.uid)),
        };
        Value::Text(path.to_string_lossy().into_owned())
    }
}

/// The user that packages create, and the name of the daemon's directories.
const OWN_USER: &str = "vivarium";

/// The user to become where that one does not exist.
const FALLBACK_USER: &str = "nobody";

/// An absolute path in a variable; the first of several, as systemd separates them by colons.
fn directory(variable: &str) -> Option<PathBuf> {
    first_absolute(&std::env::var_os(variable)?)
}

fn first_absolute(paths: &OsString) -> Option<PathBuf> {
    std::env::split_paths(paths).next().filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> Value {
        Value::Text(path.to_owned())
    }

    #[test]
    fn directories_from_systemd_take_precedence() {
        let host = Host {
            uid: 0,
            runtime_directory: Some("/run/elsewhere".into()),
            runtime_home: Some("/run/user/0".into()),
            has_own_user: true,
            ..Host::default()
        };
        assert_eq!(host.runtime_dir(), text("/run/elsewhere"));
        assert_eq!(host.state_dir(), text("/var/lib/vivarium"));
    }

    #[test]
    fn an_ordinary_user_gets_directories_of_its_own() {
        let host = Host {
            uid: 7,
            runtime_home: Some("/run/user/7".into()),
            temp_dir: "/tmp".into(),
            ..Host::default()
        };
        assert_eq!(host.runtime_dir(), text("/run/user/7/vivarium"));
        assert_eq!(host.state_dir(), text("/tmp/vivarium-7-state"));
    }

    #[test]
    fn relative_directories_are_not_taken() {
        assert_eq!(first_absolute(&OsString::from("relative")), None);
        assert_eq!(first_absolute(&OsString::from("/a:/b")), Some("/a".into()));
    }
}
