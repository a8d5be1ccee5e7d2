//! Interpreters of every make start in a template, which executes them from another mount, as they
//! do without one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Setup, program, wait};

use crate::template;

/// What a Python finds out about itself, and whether another can be started by that.
const LOOK: &str = "
import json, os, subprocess, sys, sysconfig
print(json.dumps({
    'executable': sys.executable,
    'prefixes': [sys.prefix, sys.base_prefix, sys.exec_prefix],
    'path': [path for path in sys.path if path],
    'program': os.path.realpath(sys.executable) == os.readlink('/proc/self/exe'),
    'library': sorted({line.split()[-1] for line in open('/proc/self/maps') if 'libpython' in line}),
    'child': subprocess.run([sys.executable, '-c', 'import sys; print(sys.prefix)'],
                            capture_output=True, text=True).stdout,
}))";

/// What it says in sessions of this interpreter, whose kernels come about in this way.
fn look(interpreter: &Path, start_mode: StartMode) -> Value {
    let line = format!("interpreter = \"{}\"", interpreter.display());
    let daemon = Setup::with_start_mode(start_mode).config("environments.default", &line).start();
    let said = daemon.session().execute(LOOK).ok().printed_json();
    daemon.stop_and_check();
    said
}

#[track_caller]
fn starts_as_without_a_template(interpreter: &Path) -> Value {
    let forked = look(interpreter, StartMode::Forked);
    assert_eq!(forked, look(interpreter, StartMode::Executed));
    assert_eq!(forked["program"], true, "{forked}");
    forked
}

/// Has the host's Python make a virtual environment; its interpreter.
fn venv(dir: &Path, kind: &str) -> PathBuf {
    let root = dir.join("venv");
    let mut command = Command::new("/usr/bin/python3");
    let made = command.args(["-m", "venv", "--without-pip", kind]).arg(&root).status().unwrap();
    assert!(made.success());
    root.join("bin/python3")
}

#[test]
fn in_a_virtual_environment_of_links_or_copies() {
    for kind in ["--symlinks", "--copies"] {
        let dir = program::temp_dir();
        let interpreter = venv(dir.path(), kind);
        let said = starts_as_without_a_template(&interpreter);
        let root = dir.path().join("venv").display().to_string();
        assert_eq!(said["prefixes"][0], root, "{kind}");
        assert_eq!(said["child"], format!("{root}\n"), "{kind}");
    }
}

/// As standalone builds have it (uv, conda, `pyenv --enable-shared`): what ld.so(8) finds by
/// `$ORIGIN` depends on what the kernel says the program's path is.
#[test]
fn with_a_library_that_is_found_beside_the_program() {
    if !host::has(&[Requirement::SharedPython]) {
        return;
    }
    let dir = program::temp_dir();
    let root = dir.path().join("python");
    for name in ["bin", "lib"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let library = fs::canonicalize(host::shared_python()).unwrap();
    let own = root.join("lib").join(library.file_name().unwrap());
    fs::copy(library, &own).unwrap();
    // Where its standard library is.
    fs::write(root.join("pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    let source = dir.path().join("main.c");
    let main = "int Py_BytesMain(int, char **);\n\
                int main(int count, char **words) { return Py_BytesMain(count, words); }\n";
    fs::write(&source, main).unwrap();
    let interpreter = root.join("bin/python3");
    let built = Command::new("cc")
        .arg("-o")
        .args([&interpreter, &source, &own])
        .arg("-Wl,-rpath,$ORIGIN/../lib")
        .status()
        .unwrap();
    assert!(built.success());
    // Only by its name, as it is then looked for.
    let said = starts_as_without_a_template(&interpreter);
    assert_eq!(said["library"][0], own.display().to_string());
}

/// The mount is of a namespace that only the template holds.
#[test]
fn the_program_stays_read_only_when_its_template_is_gone() {
    let daemon = template(&[], "").start();
    let session = daemon.session();
    let [process] = <[_; 1]>::try_from(daemon.templates()).unwrap();
    kill(Pid::from_raw(process.pid), Signal::SIGKILL).unwrap();
    wait::until_true("the end of the template", || !process.is_alive());
    let code = "
import os
program = '/proc/self/exe'
errors = []
for change in (lambda: os.chmod(program, 0o755), lambda: os.utime(program)):
    try: change()
    except OSError as error: errors.append(os.strerror(error.errno))
errors, bool(os.statvfs(program).f_flag & os.ST_RDONLY), open(program, 'rb').read(4)";
    let right = r"(['Read-only file system', 'Read-only file system'], True, b'\x7fELF')";
    assert_eq!(session.value(code), right);
}
