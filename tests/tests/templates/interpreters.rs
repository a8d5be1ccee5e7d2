//! Interpreters of every make start in a template, which executes them from another mount, as they
//! do without one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
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

/// What a script does that needs its file, the modules beside it, and its own Python.
const SCRIPT: &str = "
import json, multiprocessing, subprocess, sys
import helper
def double(number):
    return helper.twice(number)
if __name__ == '__main__':
    pools = {}
    for method in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context(method).Pool(2) as pool:
            pools[method] = pool.map(double, [1, 2])
    def executable(name):
        code = 'import sys; print(sys.executable)'
        return subprocess.run([name, '-c', code], capture_output=True, text=True).stdout.strip()
    try:
        helper.fail()
    except ZeroDivisionError as error:
        import traceback
        lines = traceback.format_exc()
    print(json.dumps({
        'version': '%d.%d' % sys.version_info[:2],
        'pools': sorted(pools), 'results': [*pools.values()],
        'pythons': {executable(name) for name in ('python', 'python3')} == {sys.executable},
        'file': __file__, 'lines': lines,
    }))
";

const HELPER: &str = "def twice(number):\n    return 2 * number\ndef fail():\n    1 / 0\n";

/// The Pythons that `tests/pythons` has found, separated by colons.
#[test]
fn scripts_run_by_every_python_that_is_named() {
    let named = std::env::var_os("VIVARIUM_TEST_PYTHONS").unwrap_or_default();
    for interpreter in std::env::split_paths(&named).filter(|path| path.is_absolute()) {
        let said = starts_as_without_a_template(&interpreter);
        assert_eq!(said["executable"], interpreter.display().to_string());
        for start_mode in [StartMode::Executed, StartMode::Forked, StartMode::Pooled] {
            let lines = format!(
                "interpreter = \"{}\"\npreimport = [\"multiprocessing.pool\"]",
                interpreter.display()
            );
            let daemon =
                Setup::with_start_mode(start_mode).config("environments.default", &lines).start();
            let session = daemon.session();
            let files = json!([
                {"name": "sub/main.py", "text": SCRIPT}, {"name": "sub/helper.py", "text": HELPER},
            ]);
            let request = json!({"code": SCRIPT, "filename": "sub/main.py", "files": files});
            let said = session.execute_with(&request).ok().printed_json();
            let version = said["version"].as_str().unwrap();
            assert_eq!(said["pools"], json!(["fork", "forkserver", "spawn"]), "{version}");
            assert_eq!(said["results"], json!([[2, 4], [2, 4], [2, 4]]), "{version}");
            assert_eq!(said["pythons"], true, "{version}");
            assert_eq!(said["file"], "/workspace/sub/main.py", "{version}");
            assert!(said["lines"].as_str().unwrap().contains("    1 / 0\n"), "{version}");
            daemon.stop_and_check();
        }
    }
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
