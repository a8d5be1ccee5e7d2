//! One Python per session: `python`, `python3` and `pip` are those of its interpreter, whatever the
//! host has on its PATH.
//!
//! They are scripts in a directory of ours that comes first in PATH. A link would not do: Python finds
//! its virtual environment (`pyvenv.cfg`) by the path that it was executed by.

use std::path::{Path, PathBuf};

use crate::policy::{Interpreter, Policy};

/// Where the scripts are in a session with the mounts layer. Nothing of the host can be bound above it.
pub const DIRECTORY: &str = "/.vivarium/bin";

/// What follows the interpreter's own directory in PATH.
pub const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs pip as `python -m pip` does, and says so where there is none.
const PIP: &str = r#"import sys
from importlib.util import find_spec
from runpy import run_module
if find_spec("pip") is None:
    sys.exit("pip: the Python of this session, %s, has no pip" % sys.executable)
sys.argv[0] = "pip"
run_module("pip", run_name="__main__", alter_sys=True)"#;

/// A file of the directory.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// An executable script.
    Script(String),
    /// A link to another entry.
    Link(&'static str),
}

/// The directory's files, for the interpreter at `path`, where the session has it.
#[must_use]
pub fn entries(interpreter: &Interpreter, path: &Path) -> Vec<(String, Entry)> {
    let python = quoted(&path.to_string_lossy());
    let mut entries = vec![
        ("python".to_owned(), Entry::Script(format!("#!/bin/sh\nexec {python} \"$@\"\n"))),
        ("python3".to_owned(), Entry::Link("python")),
        (
            "pip".to_owned(),
            Entry::Script(format!("#!/bin/sh\nexec {python} -c {} \"$@\"\n", quoted(PIP))),
        ),
        ("pip3".to_owned(), Entry::Link("pip")),
    ];
    let mut numbers = interpreter.version.split('.');
    if let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) {
        entries.push((format!("python{major}.{minor}"), Entry::Link("python")));
    }
    entries
}

/// PATH of a session: our directory, the interpreter's own, and the system's.
#[must_use]
pub fn search_path(directory: &Path, interpreter: &Interpreter) -> String {
    let mut path = directory.to_string_lossy().into_owned();
    let beside = interpreter.path.parent().map(Path::to_string_lossy).unwrap_or_default();
    if !beside.contains(':') && !SYSTEM_PATH.split(':').any(|directory| directory == beside) {
        path.push(':');
        path.push_str(&beside);
    }
    path.push(':');
    path.push_str(SYSTEM_PATH);
    path
}

/// The directory of a session.
#[must_use]
pub fn directory(policy: &Policy) -> PathBuf {
    policy.host_workdir.as_deref().map_or_else(|| DIRECTORY.into(), beside_workdir)
}

/// Where the scripts are for a session whose workdir is this directory of the host.
#[must_use]
pub fn beside_workdir(workdir: &Path) -> PathBuf {
    workdir.with_extension("bin")
}

/// `text` as one word of sh.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interpreter(path: &str) -> Interpreter {
        Interpreter {
            path: path.into(),
            prefixes: Vec::new(),
            isolate: Vec::new(),
            program: Vec::new(),
            version: "3.11.2".to_owned(),
        }
    }

    #[test]
    fn every_name_executes_the_interpreter_by_its_own_path() {
        let path = "/srv/it's/bin/python3";
        let entries = entries(&interpreter(path), Path::new(path));
        let names: Vec<_> = entries.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["python", "python3", "pip", "pip3", "python3.11"]);
        assert_eq!(
            entries[0].1,
            Entry::Script("#!/bin/sh\nexec '/srv/it'\\''s/bin/python3' \"$@\"\n".to_owned())
        );
        assert_eq!(entries[4].1, Entry::Link("python"));
    }

    #[test]
    fn path_has_each_directory_once() {
        let directory = Path::new(DIRECTORY);
        let path = |interpreter_path| search_path(directory, &interpreter(interpreter_path));
        assert_eq!(path("/usr/bin/python3"), "/.vivarium/bin:/usr/local/bin:/usr/bin:/bin");
        assert_eq!(
            path("/srv/venv/bin/python"),
            "/.vivarium/bin:/srv/venv/bin:/usr/local/bin:/usr/bin:/bin"
        );
        assert_eq!(path("/a:b/python"), "/.vivarium/bin:/usr/local/bin:/usr/bin:/bin");
    }
}
