//! Environments that there can be no template of: it is said why, and kernels are executed.

use nix::sys::signal::Signal;
use serde_json::json;
use vivarium_tests::program::{self, Runner};
use vivarium_tests::{Daemon, Setup, wait};

use crate::built;

/// Pre-imports, warm-up code, and what is said of them.
const UNFIT: &[(&[&str], &str, &str)] = &[
    (&["json", "no_such_module"], "", "preimport 'no_such_module': ModuleNotFoundError"),
    (&[], "raise ValueError('of the warm-up')", "warmup: ValueError: of the warm-up"),
    (&[], "import sys; sys.exit(3)", "warmup: SystemExit: 3"),
    (&[], "this is no Python", "warmup: SyntaxError"),
    (
        &[],
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()",
        "warmup left a thread, which a fork would lose: python3",
    ),
    (
        &["threading", "ctypes"],
        "import ctypes, threading\ndef work(): ctypes.CDLL(None).prctl(15, b'a_library'); named.set(); done.wait()\nnamed, done = threading.Event(), threading.Event()\nthreading.Thread(target=work).start(); named.wait()",
        "which a fork would lose: a_library",
    ),
    (
        &["multiprocessing"],
        "import multiprocessing, sys\nsys.lock = multiprocessing.get_context('fork').Lock()",
        "warmup left memory that sessions would share and could write to: /dev/shm/",
    ),
    (
        &[],
        "import mmap, sys\nsys.shared = mmap.mmap(-1, 4096)",
        "warmup left memory that sessions would share and could write to: /dev/zero",
    ),
    (
        &[],
        "import mmap, sys\nsys.shared = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)",
        "warmup left memory that sessions would share and could write to: /dev/zero",
    ),
    (
        &[],
        "import mmap, os, sys\nos.register_at_fork(before=lambda: setattr(sys, 'shared', mmap.mmap(-1, 4096)))",
        "os.register_at_fork left memory that sessions would share",
    ),
    (
        &[],
        "import os, threading, time\nhook = lambda: threading.Thread(target=time.sleep, args=(1000,)).start()\nos.register_at_fork(after_in_child=hook)",
        "does not come back with one thread",
    ),
    (&[], "import sys; sys.left = open('/etc/hosts')", "open files"),
    (&[], "import socket, sys; sys.left = socket.socket()", "open files"),
];

fn setup(preimport: &[&str], warmup: &str) -> Setup {
    let warmup = serde_json::to_string(warmup).unwrap();
    let lines = format!("template = \"auto\"\npreimport = {preimport:?}\nwarmup = {warmup}");
    Setup::default().config("environments.default", &lines)
}

#[track_caller]
fn works_without(daemon: &Daemon) {
    let session = daemon.session();
    assert_eq!(session.value("6 * 7"), "42");
    session.reset();
    assert_eq!(session.value("6 * 7"), "42");
    // Nothing is left of a template, and what there is was executed.
    daemon.until_only(1);
    daemon.check_start_mode();
}

#[test]
fn it_is_said_why_and_sessions_work() {
    for (preimport, warmup, why) in UNFIT {
        let daemon = setup(preimport, warmup).start();
        let reason = daemon.until_template("unavailable");
        assert!(reason.contains(why), "{reason}, and not {why}");
        daemon.until_logged(why);
        assert_eq!((built(&daemon, "ok"), built(&daemon, "failed")), (0, 1));
        works_without(&daemon);
        daemon.stop_and_check();
    }
}

/// A library that starts a thread in some of the processes that are forked: in each but the first,
/// which is the template's own trial.
const SOMETIMES: &str = "
import os, threading, time
forks = []
def hook():
    if len(forks) > 1: threading.Thread(target=time.sleep, args=(1000,)).start()
os.register_at_fork(before=lambda: forks.append(1), after_in_child=hook)";

#[test]
fn a_fork_with_a_thread_more_is_not_let_into_a_session() {
    let daemon = setup(&[], SOMETIMES).start();
    daemon.until_template("ready");
    let session = daemon.any_session(&json!({}));
    assert!(!session.is_forked());
    let threads = "len(__import__('os').listdir('/proc/self/task'))";
    assert_eq!(session.value(threads), "1");
    session.reset();
    assert_eq!(session.value(threads), "1");
    daemon.until_logged("enter the session with one thread: there are 2");
    daemon.stop_and_check();
}

#[test]
fn one_whose_warm_up_ends_its_process_is_tried_again_later() {
    let daemon = setup(&[], "import os; os._exit(3)").start();
    let reason = daemon.until_template("unavailable");
    assert!(reason.contains("has ended"), "{reason}");
    // The next attempt may be under way.
    let session = daemon.any_session(&json!({}));
    assert_eq!(session.value("6 * 7"), "42");
    session.reset();
    assert_eq!(session.value("6 * 7"), "42");
    assert!(!session.is_forked());
    wait::until_true("another attempt", || built(&daemon, "failed") >= 2);
    daemon.stop_and_check();
}

#[test]
fn the_doctor_says_so() {
    let dir = program::temp_dir();
    let more = "preimport = [\"no_such_module\"]\n";
    let config = program::config(dir.path(), more);
    let arguments = ["doctor", "--config", &config];
    let said = program::run_as(&Runner::Self_, dir.path(), &arguments, "").stdout();
    assert!(said.contains("no_such_module"), "{said}");
}

#[test]
fn another_configuration_makes_it_fit_and_unfit_again() {
    let daemon = setup(&["no_such_module"], "").start();
    let _reason = daemon.until_template("unavailable");
    let path = daemon.dir().join("vivarium.toml");
    let bad = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, bad.replace("no_such_module", "json")).unwrap();
    daemon.signal(Signal::SIGHUP);
    daemon.until_template("ready");
    let forked = daemon.any_session(&json!({}));
    assert_eq!(forked.value("'json' in __import__('sys').modules"), "True");
    std::fs::write(&path, bad).unwrap();
    daemon.signal(Signal::SIGHUP);
    let _reason = daemon.until_template("unavailable");
    assert_eq!(forked.value("6 * 7"), "42");
    forked.reset();
    assert_eq!(forked.value("'json' in __import__('sys').modules"), "False");
    daemon.stop_and_check();
}
