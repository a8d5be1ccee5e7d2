//! A program with an engine of its own, as docs/embedding.md shows it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use vivarium_tests::host;
use vivarium_tests::program::{self, Runner};

const EXAMPLE: &str = "examples/embedded";

#[test]
fn example_runs_python_in_a_sandbox_of_its_own() {
    let dir = program::temp_dir();
    let mut command = program::program(EXAMPLE, &program::nobody(), dir.path());
    // Where its runtime directory is by default.
    let place = dir.path().join("tmp");
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
    command.env("TMPDIR", &place);
    let said = program::finish(&mut command, "").expect_code(0).stdout();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[..2], ["[3, 4, 5]", "12"], "{said}");
    // Its owner could not read it either; that there is none is what only the sandbox does.
    assert!(lines[2].contains("/etc/shadow"), "{said}");
}

#[test]
fn code_calls_functions_of_the_program() {
    let dir = program::temp_dir();
    let mut command = program::program("examples/tools", &program::nobody(), dir.path());
    let place = dir.path().join("tmp");
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
    command.env("TMPDIR", &place);
    assert_eq!(program::finish(&mut command, "").expect_code(0).stdout(), "1200\n");
}

#[test]
fn root_is_refused() {
    if !host::is_root() {
        return;
    }
    let dir = program::temp_dir();
    let mut command = program::program(EXAMPLE, &Runner::Self_, dir.path());
    let finished = program::finish(&mut command, "");
    assert_ne!(finished.code(), 0);
    let said = String::from_utf8_lossy(&finished.0.stderr).into_owned();
    assert!(said.contains("Root"), "{said}");
}

#[test]
fn page_shows_the_example_as_it_is() {
    let read = |path: &str| std::fs::read_to_string(program::workspace().join(path)).unwrap();
    let example = read("supervisor/embed/examples/embedded.rs");
    let body = example.split_once("use ").map(|(_, rest)| format!("use {rest}")).unwrap();
    assert!(read("docs/embedding.md").contains(&body));
}
