//! The process that launchers are forked from: what becomes of sessions without it, and what it has
//! of them.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use vivarium_tests::processes::{self, Process};
use vivarium_tests::{Daemon, Session, Setup, wait};

use crate::Family;

/// Forks until another takes its place: supervisor/engine/src/backend/fork_server.rs.
const FORKS: usize = 256;

fn fork_server(daemon: &Daemon) -> Process {
    daemon.fork_server().expect("a fork server")
}

/// Waits until there is nobody that the daemon has to wait for.
#[track_caller]
fn until_no_zombies(daemon: &Daemon) {
    wait::until_true("the end of what has ended", || {
        !processes::all().iter().any(|one| one.parent == daemon.pid() && one.state == 'Z')
    });
}

/// Ends sessions, of which no process is then to be waited for.
#[track_caller]
fn delete<const N: usize>(daemon: &Daemon, sessions: [Session<'_>; N]) {
    for session in sessions {
        assert_eq!(session.request("DELETE", "", None).status, 204);
    }
    until_no_zombies(daemon);
}

#[test]
fn killed_it_is_replaced_and_sessions_go_on() {
    let daemon = Setup::default().start();
    let early = daemon.session();
    let _set = early.execute("x = 41").ok();
    let before = fork_server(&daemon);
    kill(Pid::from_raw(before.pid), Signal::SIGKILL).unwrap();
    wait::until_true("its end", || !before.is_alive());
    // The first may be one that was prepared.
    let [late, later] = [daemon.session(), daemon.session()];
    assert_eq!(late.value("1 + 1"), "2");
    assert_eq!(later.value("1 + 1"), "2");
    assert_ne!(fork_server(&daemon), before);
    daemon.until_logged("fork server has ended");
    assert_eq!(early.value("x + 1"), "42");
    early.reset();
    assert_eq!(early.value("1 + 1"), "2");
    delete(&daemon, [early, late, later]);
    daemon.stop_and_check();
}

#[test]
fn one_that_hangs_is_killed_and_the_session_starts_from_the_next() {
    let daemon = Setup::default().start();
    let early = daemon.session();
    let before = fork_server(&daemon);
    kill(Pid::from_raw(before.pid), Signal::SIGSTOP).unwrap();
    // The first may be one that was prepared.
    let [late, later] = [daemon.session(), daemon.session()];
    assert_eq!(late.value("1 + 1"), "2");
    assert_eq!(later.value("1 + 1"), "2");
    daemon.until_logged("fork server hangs");
    wait::until_true("its end", || !before.is_alive());
    assert_ne!(fork_server(&daemon), before);
    assert_eq!(early.value("1 + 1"), "2");
    delete(&daemon, [early, late, later]);
    daemon.stop_and_check();
}

#[test]
fn launchers_are_waited_for_however_they_end() {
    let daemon = Setup::default().start();
    let sessions: Vec<_> = (0..4).map(|_| daemon.session()).collect();
    let launchers: Vec<_> =
        daemon.descendants().into_iter().filter(|process| process.parent == daemon.pid()).collect();
    assert_eq!(launchers.len(), 4, "{launchers:?}");
    kill(Pid::from_raw(launchers[0].pid), Signal::SIGKILL).unwrap();
    for session in sessions {
        // One of them is gone by itself.
        assert!([204, 404].contains(&session.request("DELETE", "", None).status));
    }
    wait::until_true("the end of all processes", || daemon.descendants().is_empty());
    until_no_zombies(&daemon);
    daemon.stop_and_check();
}

#[test]
fn another_takes_its_place_after_so_many_sessions() {
    let daemon = Setup::default().start();
    let kept = daemon.session();
    let before = fork_server(&daemon);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..=FORKS / 4 {
                    let run = json!({"argv": ["true"]});
                    let _run = daemon.request("POST", "/v1/run", Some(&run)).expect_success();
                }
            });
        }
    });
    wait::until_true("its end", || !before.is_alive());
    assert_ne!(fork_server(&daemon), before);
    assert_eq!(kept.value("6 * 7"), "42");
    until_no_zombies(&daemon);
    daemon.stop_and_check();
}

#[test]
fn it_has_nothing_of_a_session() {
    let daemon = Setup::default().start();
    let canary = "a-canary-of-the-environment";
    let session = daemon.session_with(&json!({"env": {"CANARY": canary}}));
    assert_eq!(session.value("1 + 1"), "2");
    assert!(!fork_server(&daemon).holds(canary));
    // The control: the launcher has it, which was forked from there.
    assert!(Family::of(&daemon).launcher.holds(canary));
    daemon.stop_and_check();
}
