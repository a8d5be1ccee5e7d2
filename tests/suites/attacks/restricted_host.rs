//! A host that offers neither cgroups nor namespaces: what is left holds, and no process outlives its
//! session.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::processes::{self, Process};
use vivarium_tests::{Daemon, Session, Setup, wait};

use super::{contrast, planted};
use crate::every_way::{daemon, setup};

/// A process that is another at each moment, by forking and ending; one that is in nobody's session,
/// deaf to all signals; and children of each kind.
const SCATTER: &str = "
import os, signal, subprocess, time
def leave(run):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(1, 65):
                try: signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError): pass
            run()
        os._exit(0)
    os.wait()
def hop():
    while True:
        try:
            if os.fork(): os._exit(0)
        except OSError: pass
def sleep():
    while True: time.sleep(1000)
leave(hop)
leave(hop)
leave(sleep)
children = [subprocess.Popen(['sleep', '1000'], start_new_session=new) for new in (False, True)]";

/// Waits until some of them are there, and neither kernel nor agent.
fn until_scattered(daemon: &Daemon) {
    wait::until_true("processes that were left", || {
        let all = daemon.descendants();
        let of_python = all.iter().filter(|one| one.name.starts_with("python")).count();
        let sleepers = all.iter().filter(|one| one.name == "sleep").count();
        of_python >= 3 && sleepers == 2
    });
}

/// The processes in workdirs below here: kernels and what they have left, whosever child that is by
/// now.
fn at_work(dir: &Path) -> Vec<Process> {
    let mut all = processes::all();
    all.retain(|one| {
        let workdir = fs::read_link(format!("/proc/{}/cwd", one.pid));
        one.state != 'Z' && workdir.is_ok_and(|workdir| workdir.starts_with(dir.join("run")))
    });
    all
}

fn scattered(daemon: &Daemon) -> Session<'_> {
    let session = daemon.session();
    let _scattered = session.execute(SCATTER).ok();
    until_scattered(daemon);
    session
}

#[test]
fn what_is_left_of_the_sandbox_is_said() {
    let daemon = daemon();
    let session = daemon.session();
    for (layers, right) in [
        (&["env_scrub", "seccomp"][..], "enforced"),
        (&["credentials", "rlimits"], "partial"),
        (&["cgroup", "namespaces", "mounts", "network"], "off"),
    ] {
        for layer in layers {
            assert_eq!(session.layer(layer)["status"], right, "{layer}");
        }
    }
    // And kernels are executed, as what a forked one leaves would be its template's.
    let forking = Setup::default().without(&["namespaces"]);
    let forking = forking.config("environments.default", "template = \"auto\"").start();
    assert!(forking.until_template("unavailable").contains("namespaces"));
    assert_eq!(forking.session().info()["kernel_origin"], "executed");
    for daemon in [daemon, forking] {
        daemon.stop_and_check();
    }
}

#[test]
fn files_of_the_host_and_of_other_sessions_are_closed() {
    if !host::has(&[Requirement::Landlock]) {
        return;
    }
    let files = planted::Files::plant();
    contrast(
        &["landlock"],
        &[
            (&files.attack("read", "secret"), "EACCES", "works"),
            (&files.attack("write", "writable"), "EACCES", "works"),
            ("read('/etc/passwd') and None", "EACCES|works", "works"),
            ("os.listdir('/proc/1')", "EACCES", "works"),
        ],
    );
    for (layers, right) in [(&[][..], "PermissionError"), (&["landlock"], "")] {
        let daemon = setup().without(layers).start();
        let (session, other) = (daemon.session(), daemon.session());
        let own = other.execute("open('mine', 'w').write('secret'); import os; os.getcwd()").ok();
        let path = own.result().trim_matches('\'').to_owned();
        let read = session.execute(&format!("open('{path}/mine').read()"));
        assert_eq!(read.exception(), right, "{read}");
        let removed = session.execute(&format!("import os; os.remove('{path}/mine')"));
        assert_eq!(removed.exception(), right, "{removed}");
        daemon.stop_and_check();
    }
}

#[test]
fn the_daemon_and_other_sessions_take_no_signals() {
    // The scope of signals came with ABI 6.
    if !host::has(&[Requirement::Landlock]) || host::kernel_version() < (6, 12) {
        return;
    }
    for (layers, right) in [(&[][..], "PermissionError"), (&["landlock"], "")] {
        let daemon = setup().without(layers).start();
        let (session, other) = (daemon.session(), daemon.session());
        let neighbour = other.value("__import__('os').getpid()");
        let launcher = session.value("__import__('os').getppid()");
        for pid in [&daemon.pid().to_string(), &neighbour, &launcher] {
            let attempt = session.execute(&format!("import os; os.kill({pid}, 0)"));
            assert_eq!(attempt.exception(), right, "{pid}: {attempt}");
        }
        daemon.stop_and_check();
    }
}

#[test]
fn calls_off_the_list_are_refused() {
    contrast(
        &["seccomp"],
        &[
            ("make_socket(socket.AF_INET)", "EPERM", "works"),
            ("make_socket(socket.AF_UNIX)", "works", "works"),
            ("call('unshare', 0x10000000)", "EPERM", "works"),
            ("call('ptrace', 0, 0, 0, 0)", "EPERM", "works"),
        ],
    );
}

#[test]
fn no_process_outlives_its_session() {
    let daemon = daemon();
    let session = scattered(&daemon);
    assert_ne!(at_work(daemon.dir()), []);
    assert_eq!(session.request("DELETE", "", None).status, 204);
    // At once: whoever deletes a session hears of it when nothing is left.
    assert_eq!(at_work(daemon.dir()), []);
    daemon.stop_and_check();
}

#[test]
fn no_process_outlives_its_kernel() {
    let daemon = daemon();
    let session = scattered(&daemon);
    session.reset();
    assert_eq!(at_work(daemon.dir()).len(), 1);
    for code in ["os._exit(3)", "while True: pass"] {
        let scatter = format!("{SCATTER}\nsignal.signal(2, signal.SIG_IGN)\n{code}");
        let request = json!({"code": scatter, "timeout_ms": 6000});
        assert_eq!(session.execute_with(&request).state(), "lost");
        assert_eq!(session.value("6 * 7"), "42");
        assert_eq!(at_work(daemon.dir()).len(), 1);
    }
    daemon.stop_and_check();
}

#[test]
fn no_process_outlives_a_daemon_that_is_killed() {
    let daemon = daemon();
    let _session = scattered(&daemon);
    let dir = daemon.kill_and_check();
    wait::until_true("the end of what was left", || at_work(dir.path()).is_empty());
}

#[test]
fn no_process_outlives_an_agent_that_is_killed() {
    let daemon = daemon();
    let session = scattered(&daemon);
    // The kernel is the launcher's child, and so is the agent.
    let kernel = session.value("__import__('os').getpid()").parse().unwrap();
    let launcher = Process::find(kernel).unwrap().parent;
    let agent = daemon.descendants().into_iter().find(|one| one.name == "viv-agent");
    let agent = agent.filter(|agent| agent.parent == launcher).unwrap();
    kill(Pid::from_raw(agent.pid), Signal::SIGKILL).unwrap();
    session.until_gone();
    wait::until_true("the end of what was left", || at_work(daemon.dir()).is_empty());
    daemon.stop_and_check();
}
