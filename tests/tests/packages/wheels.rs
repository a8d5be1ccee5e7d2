//! Wheels that tests write.

use std::path::{Path, PathBuf};
use std::process::Command;

use vivarium_tests::Session;

const MAKE_WHEEL: &str = include_str!("make_wheel.py");

/// Writes a wheel into a directory: a module of that name with `VERSION` and `main`, and a program that prints
/// both.
#[track_caller]
pub(crate) fn write(directory: &Path, name: &str, version: &str, requires: &[&str]) -> PathBuf {
    let made = Command::new("/usr/bin/python3")
        .args(["-c", MAKE_WHEEL])
        .arg(directory)
        .args([name, version])
        .args(requires)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    PathBuf::from(String::from_utf8(made.stdout).unwrap().trim_end())
}

/// Writes a wheel into the workdir of a session. Its name there.
#[track_caller]
pub(crate) fn write_into(session: &Session<'_>, name: &str, version: &str) -> String {
    let code = format!(
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', {MAKE_WHEEL:?}, '.', {name:?}, \
         {version:?}], check=True, stdout=subprocess.PIPE).stdout.decode().strip()"
    );
    let path = session.execute(&code).ok();
    path.result().trim_matches('\'').to_owned()
}
