//! One Python per session: `python`, `python3` and `pip` are those of its interpreter, whatever the
//! host has on its PATH. Once the session has installed a package they are those of a virtual
//! environment in its workdir, on top of that interpreter.
//!
//! They are scripts in a directory of ours that comes first in PATH. A link would not do: Python finds
//! its virtual environment (`pyvenv.cfg`) by the path that it was executed by.

use std::path::{Path, PathBuf};

use crate::policy::{Interpreter, Policy};

/// Where the scripts are in a session with the mounts layer. Nothing of the host can be bound above it.
pub const DIRECTORY: &str = "/.vivarium/bin";

/// What follows the interpreter's own directory in PATH.
pub const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variable that names the directory of the session's packages, for the kernel program.
pub const PACKAGES_VARIABLE: &str = "VIVARIUM_PACKAGES";

/// The script that runs the Python of the session's packages, and makes their directory if it is
/// missing. `PIP_PYTHON` names it, so pip installs there whichever Python runs it.
pub const PACKAGES_PYTHON: &str = "session-python";

/// The session's packages, in the working directory. A virtual environment, made on first use.
const PACKAGES: &str = ".vivarium/packages";

/// Runs pip as `python -m pip` does, and says so where there is none, or no index.
const RUN_PIP: &str = include_str!("one_python/run_pip.py");

const MAKE_PACKAGES: &str = include_str!("one_python/make_packages.py");

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
pub fn entries(interpreter: &Interpreter, path: &Path, workdir: &Path) -> Vec<(String, Entry)> {
    let python = quoted(&path.to_string_lossy());
    let packages = quoted(&packages(workdir).to_string_lossy());
    let script = |lines: &str| Entry::Script(format!("#!/bin/sh\np={packages}\n{lines}\n"));
    let make = format!("{python} -s -c {} \"$p\"", quoted(MAKE_PACKAGES));
    // `q` is the Python that pip runs in: what does not install is no reason to make a directory.
    let choose = format!(
        "q=$p/bin/python\n\
         [ -x \"$q\" ] || case \" $* \" in\n\
         *' install '*) {make} || exit 1;;\n\
         *) q={python};;\n\
         esac"
    );
    let mut entries = vec![
        (
            "python".to_owned(),
            script(&format!(
                "[ -x \"$p/bin/python\" ] && exec \"$p/bin/python\" \"$@\"\nexec {python} \"$@\""
            )),
        ),
        ("python3".to_owned(), Entry::Link("python")),
        (
            "pip".to_owned(),
            // It is the right Python already: `unset`.
            script(&format!(
                "{choose}\nunset PIP_PYTHON\nexec \"$q\" -c {} \"$@\"",
                quoted(RUN_PIP)
            )),
        ),
        ("pip3".to_owned(), Entry::Link("pip")),
        (
            PACKAGES_PYTHON.to_owned(),
            // The pip of a virtual environment of the tenant's own is for that environment.
            script(&format!(
                "v=${{1%/lib/python*}}\n\
                 [ \"$v\" != \"$1\" ] && [ -w \"$v/pyvenv.cfg\" ] && exec \"$v/bin/python\" \"$@\"\n\
                 {choose}\nexec \"$q\" \"$@\""
            )),
        ),
    ];
    if let Some(uv) = find_uv(interpreter) {
        let uv = quoted(&uv.to_string_lossy());
        // uv looks for a virtual environment itself: one that is active, or `.venv` above.
        entries.push((
            "uv".to_owned(),
            script(&format!(
                "[ \"$1\" = pip ] && [ -z \"$VIRTUAL_ENV\" ] || exec {uv} \"$@\"\n\
                 d=$PWD\n\
                 while [ -n \"$d\" ]; do [ -d \"$d/.venv\" ] && exec {uv} \"$@\"; d=${{d%/*}}; done\n\
                 [ -x \"$p/bin/python\" ] || {make} || exit 1\n\
                 VIRTUAL_ENV=$p exec {uv} \"$@\""
            )),
        ));
    }
    let mut numbers = interpreter.version.split('.');
    if let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) {
        entries.push((format!("python{major}.{minor}"), Entry::Link("python")));
    }
    entries
}

/// Where the packages of a session are whose working directory this is.
#[must_use]
pub fn packages(workdir: &Path) -> PathBuf {
    workdir.join(PACKAGES)
}

/// The uv of the environment or the system, as this process sees their directories.
fn find_uv(interpreter: &Interpreter) -> Option<PathBuf> {
    uv_paths(interpreter).find(|path| path.is_file())
}

/// Where a uv is looked for, the first that is there being the session's.
pub fn uv_paths(interpreter: &Interpreter) -> impl Iterator<Item = PathBuf> {
    let system = SYSTEM_PATH.split(':').map(Path::new);
    interpreter.path.parent().into_iter().chain(system).map(|directory| directory.join("uv"))
}

/// PATH of a session: our directory, the programs of its packages, the interpreter's own directory, and
/// the system's.
#[must_use]
pub fn search_path(directory: &Path, workdir: &Path, interpreter: &Interpreter) -> String {
    let programs = packages(workdir).join("bin");
    let mut path = directory.to_string_lossy().into_owned();
    if !workdir.to_string_lossy().contains(':') {
        path.push(':');
        path.push_str(&programs.to_string_lossy());
    }
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
            program: std::sync::Arc::default(),
            version: "3.11.2".to_owned(),
            wasm: None,
        }
    }

    #[test]
    fn every_name_executes_the_interpreter_by_its_own_path() {
        let path = "/srv/it's/bin/python3";
        let entries = entries(&interpreter(path), Path::new(path), Path::new("/w"));
        let names: Vec<_> =
            entries.iter().map(|(name, _)| name.as_str()).filter(|name| *name != "uv").collect();
        assert_eq!(names, ["python", "python3", "pip", "pip3", "session-python", "python3.11"]);
        let Entry::Script(python) = &entries[0].1 else { panic!("{entries:?}") };
        assert!(python.ends_with("\nexec '/srv/it'\\''s/bin/python3' \"$@\"\n"), "{python}");
        assert!(python.contains("p='/w/.vivarium/packages'"), "{python}");
        assert_eq!(entries.last().unwrap().1, Entry::Link("python"));
    }

    #[test]
    fn path_has_each_directory_once() {
        let directory = Path::new(DIRECTORY);
        let path = |interpreter_path| {
            search_path(directory, Path::new("/w"), &interpreter(interpreter_path))
        };
        assert_eq!(
            path("/usr/bin/python3"),
            "/.vivarium/bin:/w/.vivarium/packages/bin:/usr/local/bin:/usr/bin:/bin"
        );
        assert_eq!(
            path("/srv/venv/bin/python"),
            "/.vivarium/bin:/w/.vivarium/packages/bin:/srv/venv/bin:/usr/local/bin:/usr/bin:/bin"
        );
        assert_eq!(
            path("/a:b/python"),
            "/.vivarium/bin:/w/.vivarium/packages/bin:/usr/local/bin:/usr/bin:/bin"
        );
    }
}
