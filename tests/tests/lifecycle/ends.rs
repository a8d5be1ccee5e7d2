//! Ends: the daemon's, and those of its parts, orderly and not.

use std::fs;
use std::path::PathBuf;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Client;
use vivarium_tests::processes::Process;
use vivarium_tests::{Daemon, Outcome, Session, Setup, wait};

use crate::Family;

/// Leaves a bit of everything behind.
const LITTER: &str = "
import os, subprocess
open('/workspace/x', 'w').write('x'); open('/tmp/x', 'w').write('x')
subprocess.Popen(['sleep', '1000'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execvp('sleep', ['sleep', '1000'])
    os._exit(0)";

#[test]
fn after_sigterm_nothing_is_left() {
    let daemon = Daemon::start();
    let sessions: Vec<_> = (0..3).map(|_| daemon.session()).collect();
    for session in &sessions {
        let _littered = session.execute(LITTER).ok();
    }
    daemon.stop_and_check();
}

#[test]
fn after_sigterm_without_mounts_no_workdir_is_left() {
    let daemon = Setup::default().without(&["mounts"]).start();
    let session = daemon.session();
    // Not what its owner has locked itself out of, either.
    let locked = "import os; os.mkdir('d'); open('d/x', 'w').write('x'); os.chmod('d', 0)";
    let _written = session.execute(locked).ok();
    daemon.stop_and_check();
}

#[test]
fn a_session_without_mounts_takes_its_workdir_with_it() {
    let daemon = Setup::default().without(&["mounts"]).start();
    let (ended, kept) = (daemon.session(), daemon.session());
    let workdir = |session: &Session<'_>| {
        let path = session.value("__import__('os').getcwd()");
        PathBuf::from(path.trim_matches('\''))
    };
    let (gone, there) = (workdir(&ended), workdir(&kept));
    let _written = ended.execute("open('x', 'w').write('x')").ok();
    assert!(gone.join("x").exists());
    assert_ne!(gone, there);
    assert_eq!(ended.request("DELETE", "", None).status, 204);
    ended.until_gone();
    wait::until_true("the end of the workdir", || !gone.exists());
    assert!(there.exists(), "another session's");
    daemon.stop_and_check();
}

#[test]
fn after_sigkill_nothing_runs_and_the_next_start_clears_the_rest() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let _littered = session.execute(LITTER).ok();
    let other = daemon.session();
    let unix = daemon.unix();
    // One of them is busy, and its client waits.
    let path = other.path("/execute");
    let client = thread::spawn(move || {
        let mut client = Client::connect(&unix);
        let body = json!({"code": "while True: pass"}).to_string();
        client.send_raw(
            format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        );
        client.receive()
    });
    other.until_state("running");
    let cgroup = daemon.cgroup();
    let dir = daemon.kill_and_check();
    assert!(client.join().unwrap().is_none(), "no answer can have come");
    let again = Setup::default().in_place_of(dir).start();
    if let Some(cgroup) = cgroup {
        assert!(!cgroup.exists(), "{} is left", cgroup.display());
    }
    assert_eq!(again.request("GET", "/v1/sessions", None).expect_success()["sessions"], json!([]));
    assert_eq!(again.session().value("1 + 1"), "2");
    again.stop_and_check();
}

#[test]
fn after_sigkill_without_mounts_the_next_start_clears_workdirs() {
    let setup = || Setup::default().without(&["mounts"]);
    let daemon = setup().start();
    let _written = daemon.session().execute("open('x', 'w').write('x')").ok();
    let workdirs = |dir: &std::path::Path| fs::read_dir(dir.join("run")).unwrap().count();
    assert_eq!(workdirs(daemon.dir()), 1);
    let dir = daemon.kill_and_check();
    assert_eq!(workdirs(dir.path()), 1, "this is what is to be cleared");
    let again = setup().in_place_of(dir).start();
    let _other = again.session();
    assert_eq!(workdirs(again.dir()), 1, "its own");
    again.stop_and_check();
}

#[test]
fn sigterm_lets_executions_end() {
    let mut daemon = Daemon::start();
    let session = daemon.session();
    let (unix, path) = (daemon.unix(), session.path("/execute"));
    let running = thread::spawn(move || {
        let code = "import time\ntry:\n    open('began', 'w').close()\n    time.sleep(600)\n\
                    except KeyboardInterrupt: pass\n'done'";
        let body = json!({"code": code});
        Outcome(Client::connect(&unix).json("POST", &path, Some(&body)).expect_success())
    });
    wait::until_true("its file", || session.request("GET", "/files/began", None).status == 200);
    // A connection that is there before it stops.
    let mut client = Client::connect(&daemon.unix());
    assert_eq!(client.json("GET", "/readyz", None).status, 200);
    daemon.signal(Signal::SIGTERM);
    drop(client.json("POST", &session.path("/interrupt"), None).expect_success());
    assert_eq!(running.join().unwrap().ok().result(), "'done'");
    assert!(daemon.wait().success());
}

#[test]
fn sigterm_waits_no_longer_than_one_execution_may_take() {
    let mut daemon = Setup::default().config("session", "exec_timeout = \"500ms\"").start();
    let session = daemon.session();
    let (unix, path) = (daemon.unix(), session.path("/execute"));
    let running = thread::spawn(move || {
        let body = json!({"code": "while True: pass", "timeout_ms": 600_000});
        Outcome(Client::connect(&unix).json("POST", &path, Some(&body)).expect_success())
    });
    session.until_state("running");
    daemon.signal(Signal::SIGTERM);
    let _outcome = running.join().unwrap().ended("killed", "draining", "lost");
    assert!(daemon.wait().success());
}

#[test]
fn a_second_signal_ends_it_at_once_and_nothing_runs_on() {
    let mut daemon = Daemon::start();
    let session = daemon.session();
    let body = json!({"code": "while True: pass", "timeout_ms": 600_000}).to_string();
    let mut client = Client::connect(&daemon.unix());
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        session.path("/execute"),
        body.len()
    );
    client.send_raw(format!("{head}{body}").as_bytes());
    session.until_state("running");
    let all = daemon.descendants();
    daemon.signal(Signal::SIGTERM);
    wait::until_true("the first signal's effect", || daemon.told_manager().contains("STOPPING=1"));
    daemon.signal(Signal::SIGTERM);
    assert!(!daemon.wait().success());
    wait::until_true("the end of every process", || !all.iter().any(Process::is_alive));
}

/// Kills a part of one session while it runs, and looks at what comes of it and of another.
fn kill_one(choose: impl Fn(&Family) -> Process) {
    let daemon = Daemon::start();
    let session = daemon.session();
    let family = Family::of(&daemon);
    let neighbour = daemon.session();
    let _set = neighbour.execute("x = 41").ok();
    thread::scope(|scope| {
        let code = "open('began', 'w').close()\nwhile True: pass";
        let running = scope.spawn(|| session.execute(code));
        // What a kernel had not begun as it was killed, the next one runs.
        let file = || session.request("GET", "/files/began", None);
        wait::until_true("its file", || file().status == 200);
        kill(Pid::from_raw(choose(&family).pid), Signal::SIGKILL).unwrap();
        let outcome = running.join().unwrap();
        assert_eq!((outcome.status(), outcome.state()), ("killed", "lost"), "{outcome}");
        assert!(!outcome.detail().is_empty(), "{outcome}");
    });
    assert_eq!(neighbour.value("x + 1"), "42");
    if session.request("GET", "", None).status == 200 {
        assert_eq!(session.value("1 + 1"), "2");
    } else {
        // The session is over as a whole, its name is free, and nothing of it runs.
        for process in [&family.launcher, &family.agent, &family.kernel] {
            wait::until_true("the end of its processes", || !process.is_alive());
        }
        let again = daemon.session_with(&json!({ "id": session.id }));
        assert_eq!(again.value("1 + 1"), "2");
    }
    daemon.stop_and_check();
}

#[test]
fn a_kernel_that_is_killed_from_outside_is_replaced() {
    kill_one(|family| family.kernel.clone());
}

#[test]
fn an_agent_that_is_killed_takes_its_session_alone() {
    kill_one(|family| family.agent.clone());
}

#[test]
fn a_launcher_that_is_killed_takes_its_session_at_most() {
    kill_one(|family| family.launcher.clone());
}

#[test]
fn an_agent_that_stops_answering_is_given_up() {
    let times = "interrupt_grace = \"300ms\"\nstart_timeout = \"5s\"";
    let daemon = Setup::default().config("session", times).start();
    let session = daemon.session();
    let family = Family::of(&daemon);
    thread::scope(|scope| {
        let running = scope.spawn(|| session.execute_for(3000, "while True: pass"));
        session.until_state("running");
        kill(Pid::from_raw(family.agent.pid), Signal::SIGSTOP).unwrap();
        let outcome = running.join().unwrap();
        assert_eq!(outcome.state(), "lost", "{outcome}");
    });
    session.until_gone();
    wait::until_true("the end of its processes", || daemon.descendants().is_empty());
    daemon.stop_and_check();
}

/// Whatever it was asked for: nothing of it waits for ever.
#[test]
fn an_agent_that_hangs_ends_its_session_whatever_was_asked_of_it() {
    let daemon = Daemon::start();
    let stopped = |daemon: &Daemon| {
        let before = daemon.descendants();
        let session = daemon.session();
        assert_eq!(session.value("1 + 1"), "2");
        let is_agent = |one: &&Process| one.name == "viv-agent" && !before.contains(one);
        let agent = daemon.descendants().iter().find(is_agent).unwrap().clone();
        (session.id.clone(), agent)
    };
    let asked = [("GET", "files"), ("DELETE", "files/a"), ("POST", "reset")];
    let sessions = asked.map(|what| (what, stopped(&daemon)));
    let executes = stopped(&daemon);
    for (_, agent) in sessions.iter().map(|(_, session)| session).chain([&executes]) {
        kill(Pid::from_raw(agent.pid), Signal::SIGSTOP).unwrap();
    }
    thread::scope(|scope| {
        for ((method, path), (id, _)) in &sessions {
            let daemon = &daemon;
            scope.spawn(move || {
                let path = format!("/v1/sessions/{id}/{path}");
                assert_eq!(daemon.request(method, &path, None).status, 404, "{method} {path}");
            });
        }
        let body = json!({"code": "1"});
        let path = format!("/v1/sessions/{}/execute", executes.0);
        let outcome = Outcome(daemon.request("POST", &path, Some(&body)).expect_success());
        let outcome = outcome.ended("killed", "agent", "lost");
        assert!(outcome.detail().contains("did not answer within"), "{outcome}");
    });
    let ended = "vivarium_sessions_ended_total{cause=\"agent\",tenant=\"default\"}";
    wait::until_true("the end of all four", || daemon.metric(ended) == Some(4));
    wait::until_true("the end of their processes", || daemon.descendants().is_empty());
    daemon.stop_and_check();
}

/// Where there is no cgroup to be killed and seen empty: an agent that is stopped does not follow
/// the end of its session, nor does a launcher.
#[test]
fn a_session_that_is_over_has_no_process_left_that_has_its_ids() {
    if !host::has(&[Requirement::SubordinateIds]) {
        return;
    }
    let daemon = Setup::default().without(&["cgroup"]).start();
    for both in [false, true] {
        let session = daemon.session();
        assert_eq!(session.value("1 + 1"), "2");
        let family = Family::of(&daemon);
        kill(Pid::from_raw(family.agent.pid), Signal::SIGSTOP).unwrap();
        if both {
            kill(Pid::from_raw(family.launcher.pid), Signal::SIGSTOP).unwrap();
        }
        assert_eq!(session.request("DELETE", "", None).status, 204);
        // At once: its ids are free for the next session.
        for process in [&family.launcher, &family.agent, &family.kernel] {
            assert!(!process.is_alive(), "{process:?}");
        }
    }
    daemon.stop_and_check();
}
