//! A template that is killed or hangs: sessions come about without it, those there are go on, and
//! there is another soon.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;
use vivarium_tests::host;
use vivarium_tests::processes::Process;
use vivarium_tests::program::{self, Runner};
use vivarium_tests::{Daemon, Outcome, Session, wait};

use crate::{built, send, template};

/// A template that is asked in that moment whether it is there is found to hang after this.
const FOUND_AFTER: Duration = Duration::from_secs(2);

/// The one template of a daemon.
#[track_caller]
fn the_template(daemon: &Daemon) -> Process {
    let all = daemon.templates();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

/// Waits until there is another template, and checks that kernels are forked from it.
#[track_caller]
fn until_another(daemon: &Daemon, than: &Process) {
    wait::until_true("another template", || {
        daemon.environment()["template"]["state"] == "ready"
            && daemon.templates().iter().any(|one| one.pid != than.pid)
    });
    assert!(!than.is_alive(), "{than:?} is there still");
    let session = daemon.any_session(&json!({}));
    assert!(session.is_forked());
    assert_eq!(session.request("DELETE", "", None).status, 204);
}

/// Uses a session in every way that needs its kernel's launcher: executes, resets, has the kernel
/// die, and ends it.
#[track_caller]
fn goes_on(session: &Session<'_>) {
    assert_eq!(session.value("x + 1"), "42");
    let died = session.execute("import os; os._exit(3)");
    assert_eq!((died.status(), died.state()), ("killed", "lost"), "{died}");
    assert_eq!(session.value("'x' in globals()"), "False");
    session.reset();
    assert_eq!(session.value("1 + 1"), "2");
    assert_eq!(session.request("DELETE", "", None).status, 204);
}

/// Two sessions with something in them.
fn two(daemon: &Daemon) -> [Session<'_>; 2] {
    [(), ()].map(|()| {
        let session = daemon.session();
        let _set = session.execute("x = 41").ok();
        session
    })
}

#[test]
fn killed_while_it_waits() {
    let daemon = template(&[], "").start();
    assert_eq!(built(&daemon, "ok"), 1);
    let [one, other] = two(&daemon);
    let before = the_template(&daemon);
    send(&before, Signal::SIGKILL);
    let third = daemon.any_session(&json!({}));
    assert_eq!(third.value("1 + 1"), "2");
    goes_on(&one);
    until_another(&daemon, &before);
    assert_eq!(built(&daemon, "ok"), 2);
    // Its kernel is of a template that is gone, and so is its launcher's way there.
    goes_on(&other);
    assert_eq!(third.request("DELETE", "", None).status, 204);
    daemon.until_only(0);
    daemon.stop_and_check();
}

#[test]
fn a_kernel_that_is_killed_after_its_template_is_noticed() {
    let daemon = template(&[], "").start();
    let [idle, busy] = two(&daemon);
    let (idle_kernel, busy_kernel) = (idle.kernel(), busy.kernel());
    let before = the_template(&daemon);
    send(&before, Signal::SIGKILL);
    thread::scope(|scope| {
        let code = "open('began', 'w').close()\nwhile True: pass";
        let running = scope.spawn(|| busy.execute(code));
        // What a kernel had not begun as it was killed, the next one runs.
        wait::until_true("its file", || busy.request("GET", "/files/began", None).status == 200);
        send(&busy_kernel, Signal::SIGKILL);
        let outcome = running.join().unwrap();
        assert_eq!((outcome.status(), outcome.state()), ("killed", "lost"), "{outcome}");
        assert!(!outcome.detail().is_empty(), "{outcome}");
    });
    send(&idle_kernel, Signal::SIGKILL);
    for session in [&idle, &busy] {
        // An execution may still be one that the dying takes with it.
        wait::until_true("a fresh kernel", || {
            session.execute("'x' in globals()").result() == "False"
        });
    }
    assert!(!idle_kernel.is_alive() && !busy_kernel.is_alive());
    until_another(&daemon, &before);
    daemon.until_only(2);
    daemon.stop_and_check();
}

/// Its template is to collect it, and to tell.
#[test]
fn how_a_kernel_ended_is_told_though_its_template_hangs_or_is_gone() {
    for (signal, sees) in
        [(Signal::SIGSTOP, true), (Signal::SIGKILL, host::kernel_version() >= (6, 15))]
    {
        let daemon = template(&[], "").start();
        let [one, other] = two(&daemon);
        let before = the_template(&daemon);
        send(&before, signal);
        if signal == Signal::SIGKILL {
            wait::until_true("its end", || !before.is_alive());
        }
        let code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)";
        let is = |outcome: &Outcome, cause: &str, evidence: &str| {
            assert_eq!((outcome.status(), outcome.state()), ("killed", "lost"), "{outcome}");
            let told = outcome.0["cause"] == cause && outcome.detail().contains(evidence);
            assert!(told || (!sees && outcome.0["cause"] == "unknown"), "{outcome}");
        };
        is(&one.execute(code), "signal", "SIGSEGV (11)");
        is(&other.execute("import os; os._exit(7)"), "exited", "code 7");
        for session in [&one, &other] {
            assert_eq!(session.value("'x' in globals()"), "False");
        }
        until_another(&daemon, &before);
        daemon.until_only(2);
        daemon.stop_and_check();
    }
}

#[test]
fn one_that_hangs_is_done_without_and_replaced() {
    let daemon = template(&[], "").start();
    let [one, other] = two(&daemon);
    let before = the_template(&daemon);
    send(&before, Signal::SIGSTOP);
    let stopped = Instant::now();
    let third = daemon.any_session(&json!({}));
    assert!(
        before.is_alive() || stopped.elapsed() > FOUND_AFTER,
        "it has waited for the end of the template"
    );
    assert_eq!(third.value("1 + 1"), "2");
    assert!(!third.is_forked());
    goes_on(&one);
    until_another(&daemon, &before);
    goes_on(&other);
    assert_eq!(third.request("DELETE", "", None).status, 204);
    daemon.until_only(0);
    daemon.stop_and_check();
}

#[test]
fn one_that_goes_on_too_late_leaves_no_second_kernel() {
    let daemon = template(&[], "").start();
    let before = the_template(&daemon);
    send(&before, Signal::SIGSTOP);
    // It was asked for a kernel, and the one that there is was made without it.
    let stopped = Instant::now();
    let session = daemon.any_session(&json!({}));
    assert!(
        before.is_alive() || stopped.elapsed() > FOUND_AFTER,
        "it has waited for the end of the template"
    );
    assert!(!session.is_forked());
    send(&before, Signal::SIGCONT);
    daemon.until_only(1);
    assert_eq!(session.processes(), 1);
    assert!(!session.is_forked());
    // It is the same one, or, if it was found to hang, another.
    let again = daemon.any_session(&json!({}));
    assert_eq!(again.value("1 + 1"), "2");
    assert_eq!(session.value("1 + 1"), "2");
    daemon.until_only(2);
    daemon.stop_and_check();
}

#[test]
fn killed_in_the_midst_of_a_fork() {
    let daemon = template(&[], "").start();
    let [one, other] = two(&daemon);
    let before = the_template(&daemon);
    send(&before, Signal::SIGSTOP);
    let count = daemon.descendants().len();
    thread::scope(|scope| {
        let third = scope.spawn(|| daemon.any_session(&json!({})));
        // Launcher and agent are there, so that a kernel is what there is to come.
        wait::until_true("a session that begins", || daemon.descendants().len() >= count + 2);
        send(&before, Signal::SIGKILL);
        let third = third.join().unwrap();
        assert_eq!(third.value("1 + 1"), "2");
        assert_eq!(third.request("DELETE", "", None).status, 204);
    });
    goes_on(&one);
    until_another(&daemon, &before);
    goes_on(&other);
    daemon.until_only(0);
    daemon.stop_and_check();
}

#[test]
fn killed_while_many_are_being_made() {
    let daemon = template(&[], "").start();
    let before = the_template(&daemon);
    let ids: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = (0..12)
            .map(|number| {
                let (daemon, before) = (&daemon, &before);
                scope.spawn(move || {
                    let session = daemon.any_session(&json!({}));
                    // One in the middle takes the template with it.
                    if number == 4 {
                        send(before, Signal::SIGKILL);
                    }
                    assert_eq!(session.value("6 * 7"), "42");
                    session.reset();
                    assert_eq!(session.value("6 * 7"), "42");
                    session.id
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    until_another(&daemon, &before);
    // Kernels of the template that is gone are nobody's children here, so they are told by their
    // session's namespace.
    let mut all = Vec::new();
    for id in ids {
        let session = Session::named(&daemon, &id);
        wait::until_true("one kernel alone", || session.processes() == 1);
        all.extend(session.members());
        assert_eq!(session.request("DELETE", "", None).status, 204);
    }
    wait::until_true("the end of all", || !all.iter().any(Process::is_alive));
    daemon.until_only(0);
    daemon.stop_and_check();
}

#[test]
fn again_and_again() {
    let daemon = template(&[], "").start();
    let session = daemon.session();
    let _set = session.execute("x = 41").ok();
    for _ in 0..3 {
        let before = the_template(&daemon);
        send(&before, Signal::SIGKILL);
        until_another(&daemon, &before);
        assert_eq!(session.value("x + 1"), "42");
    }
    assert_eq!(built(&daemon, "ok"), 4);
    daemon.stop_and_check();
}

/// Joins the user namespace of a process, and sets how many there can be in it. The capabilities
/// that it has there would not outlive an execve(2).
const LIMIT_NAMESPACES: &str = "
import ctypes, os, sys
pid, most = sys.argv[1:]
if ctypes.CDLL(None).setns(os.open(f'/proc/{pid}/ns/user', os.O_RDONLY), 0x1000_0000):
    sys.exit('setns')
open('/proc/sys/user/max_user_namespaces', 'w').write(most)";

/// Has so many user namespaces be possible within that of a process.
#[track_caller]
fn limit_namespaces(of: &Process, most: &str) {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", LIMIT_NAMESPACES, &of.pid.to_string(), most]);
    let _set = program::finish(&mut python, "").expect_code(0);
}

/// Its interpreter is on a read-only mount, which takes a user namespace to make.
#[test]
fn without_a_read_only_mount_there_is_none_until_there_can_be_one() {
    let runner = Runner::FewProcesses(host::user_of_daemons());
    let daemon = template(&[], "").runner(runner).start();
    let before = the_template(&daemon);
    limit_namespaces(&before, "0");
    send(&before, Signal::SIGKILL);
    assert!(daemon.until_template("unavailable").contains("has ended"));
    daemon.until_logged("clone3 with a user namespace: No space left on device");
    assert!(daemon.templates().is_empty());
    limit_namespaces(&daemon.fork_server().unwrap(), "1000");
    until_another(&daemon, &before);
    daemon.stop_and_check();
}
