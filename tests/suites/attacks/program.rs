//! The file of the interpreter that a kernel runs, which `/proc/self/exe` leads to.

use std::path::Path;
use std::process::Command;

use vivarium_tests::Setup;
use vivarium_tests::probe::{self, Attempt, Row};
use vivarium_tests::program::{self, Runner};

use crate::every_way::{daemon, setup};

/// What cannot be done to a file on a read-only mount, whoever owns it. Which bits a mode may have,
/// seccomp has a say in too.
const ON_A_READ_ONLY_MOUNT: &[&str] = &[
    "os.chmod('/proc/self/exe', 0o755)",
    "os.chown('/proc/self/exe', -1, -1)",
    "os.utime('/proc/self/exe', (0, 0))",
    "os.setxattr('/proc/self/exe', 'user.vivarium', b'1')",
    "os.removexattr('/proc/self/exe', 'user.vivarium')",
];

const READ_ONLY: &str = "bool(os.statvfs('/proc/self/exe').f_flag & os.ST_RDONLY)";

#[test]
fn the_file_of_the_interpreter_is_on_a_read_only_mount() {
    let daemon = daemon();
    let session = daemon.session();
    let rows: Vec<Row<'_>> = ON_A_READ_ONLY_MOUNT.iter().map(|attack| (*attack, "EROFS")).collect();
    probe::check(&session, &rows);
    probe::check(
        &session,
        &[
            ("os.chmod('/proc/self/exe', 0o6755)", "EROFS|EPERM"),
            ("os.truncate('/proc/self/exe', 0)", "EROFS|EACCES"),
            ("os.open('/proc/self/exe', os.O_WRONLY)", "ETXTBSY|EACCES|EROFS"),
            ("os.open('/proc/self/exe', os.O_RDONLY)", "works"),
        ],
    );
    assert_eq!(Attempt::make(&session, READ_ONLY).value(), true);
}

/// A copied virtual environment whose files are the daemon's user's, and so the kernel's id's.
fn owned_by_the_daemon(setup: Setup, dir: &Path) -> Setup {
    let venv = dir.join("venv");
    let made = Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--copies", "--without-pip"])
        .arg(&venv)
        .status()
        .unwrap();
    assert!(made.success());
    let python = venv.join("bin/python3").canonicalize().unwrap();
    let interpreter = format!("interpreter = \"{}\"", python.display());
    let setup = setup.config("environments.default", &interpreter);
    let runner = program::nobody();
    if let Runner::User(user) = &runner {
        std::os::unix::fs::chown(&python, Some(user.uid.as_raw()), None).unwrap();
    }
    setup.runner(runner)
}

#[test]
fn the_file_of_the_interpreter_can_not_be_given_rights_by_its_owner() {
    let attacks = [
        ("os.chmod('/proc/self/exe', 0o755)", "EROFS", "works"),
        ("os.utime('/proc/self/exe', (0, 0))", "EROFS", "works"),
        // Without the mounts, seccomp has a say in the set-id bits.
        ("os.chmod('/proc/self/exe', 0o6755)", "EROFS|EPERM", "works|EPERM"),
    ];
    for layers in [&[] as &[&str], &["mounts"]] {
        let dir = program::temp_dir();
        let daemon = owned_by_the_daemon(setup().without(layers), dir.path()).start();
        let session = daemon.session();
        probe::load(&session);
        // From the kernel: a command's Python is the one that it finds.
        for (attack, on, off) in attacks {
            let expected = if layers.is_empty() { on } else { off };
            let word = Attempt::make(&session, attack).word();
            assert!(
                expected.split('|').any(|one| one == word),
                "{attack} without {layers:?}: {word}"
            );
        }
        daemon.stop_and_check();
    }
}
