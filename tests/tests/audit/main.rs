//! The audit log: complete under load and kill -9, honest on a full disk, found when changed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod crashes;
mod full;
mod images;
mod lines;
mod tampering;

use std::path::Path;

use serde_json::Value;
use vivarium_tests::{Setup, program};

/// A daemon with an audit log in a directory of its own, and more lines of `[audit]`.
fn setup(at: &Path, more: &str) -> Setup {
    Setup::default().config("audit", &format!("dir = {:?}\n{more}", at.to_str().unwrap()))
}

/// A directory that the daemon's user can make one in.
fn place() -> tempfile::TempDir {
    let temp = program::temp_dir();
    std::fs::set_permissions(temp.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    temp
}

/// The program's report, and whether it says that the log is intact.
fn verify(at: &Path, more: &[&str]) -> (bool, Value) {
    let arguments = [&["audit", "verify", "--json", "--dir", at.to_str().unwrap()], more].concat();
    let run = program::run(&arguments);
    let report = serde_json::from_str(&run.stdout()).unwrap_or_else(|_| panic!("{run:?}"));
    (run.code() == 0, report)
}

fn lines(at: &Path) -> Vec<Value> {
    let exported = program::run(&["audit", "export", "--dir", at.to_str().unwrap()]);
    let all: Value = serde_json::from_str(&exported.expect_code(0).stdout()).unwrap();
    all.as_array().unwrap().clone()
}

fn of_event<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}
