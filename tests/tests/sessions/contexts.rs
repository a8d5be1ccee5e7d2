//! Several kernels in a session: each with its variables and queue, in files and limits they share.

use std::thread;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Response;
use vivarium_tests::{Daemon, Session, Setup};

/// Code that goes on when there is a file.
const AWAIT_FILE: &str = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)";

#[track_caller]
fn open(session: &Session<'_>, id: &str) -> Value {
    let answer = session.request("POST", "/contexts", Some(&json!({ "id": id })));
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    let location = session.path(&format!("/contexts/{id}"));
    assert_eq!(answer.header("location"), Some(&*location));
    answer.json()
}

fn in_context(id: &str, code: &str) -> Value {
    json!({ "code": code, "context": id })
}

#[track_caller]
fn value(session: &Session<'_>, id: &str, code: &str) -> String {
    let outcome = session.execute_with(&in_context(id, code)).ok();
    assert_eq!(outcome.0["kernel"]["context"], id);
    outcome.0["result"]["repr"].as_str().unwrap().to_owned()
}

fn post(session: &Session<'_>, id: &str, what: &str) -> Response {
    session.request("POST", &format!("/contexts/{id}/{what}"), None)
}

fn states(session: &Session<'_>) -> Vec<(String, String)> {
    let list = session.request("GET", "/contexts", None).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let contexts = list["contexts"].as_array().unwrap().iter();
    contexts.map(|context| (text(&context["id"]), text(&context["state"]))).collect()
}

#[test]
fn contexts_have_variables_of_their_own_and_share_files() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let opened = open(&session, "other");
    assert_eq!(opened["state"], "idle");
    assert_eq!(opened["generation"], 1);
    let _ran = session.execute("x = 'main'; open('f', 'w').write('of main')").ok();
    assert_eq!(
        value(&session, "other", "'x' in globals(), open('f').read()"),
        "(False, 'of main')"
    );
    assert_eq!(value(&session, "main", "x"), "'main'");
    let random = session.request("POST", "/contexts", None);
    assert_eq!(random.status, 201);
    let random = random.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(value(&session, &random, "1 + 1"), "2");
    let shown = session.request("GET", &format!("/contexts/{random}"), None).json();
    assert_eq!((&shown["id"], &shown["session_id"]), (&json!(random), &json!(session.id)));
    daemon.release();
}

#[test]
fn contexts_run_at_the_same_time_and_each_has_a_queue() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    open(&session, "other");
    thread::scope(|scope| {
        let waits = scope.spawn(|| session.execute(AWAIT_FILE).ok());
        session.until_running(1);
        // It would wait for ever behind the first.
        assert_eq!(value(&session, "other", "1 + 1"), "2");
        assert_eq!(states(&session)[0], ("main".to_owned(), "running".to_owned()));
        assert_eq!(states(&session)[1], ("other".to_owned(), "idle".to_owned()));
        assert_eq!(session.info()["state"], "running");
        let _ran = session.execute_with(&in_context("other", "open('go', 'w').close()")).ok();
        waits.join().unwrap();
    });
    assert_eq!(session.info()["state"], "idle");
    daemon.release();
}

#[test]
fn code_in_one_context_does_not_wait_for_who_reads_another_slowly() {
    let daemon = Setup::default().config("sandbox", "max_output_bytes = \"unlimited\"").start();
    let session = daemon.session();
    open(&session, "other");
    let flood = in_context("other", "while True: print('x' * 1000)");
    let mut unread = session.stream_with("/execute", &[], &flood);
    unread.expect("started");
    for _ in 0..20 {
        assert_eq!(session.value("print('x' * 100_000); 1 + 1"), "2");
    }
    assert_eq!(post(&session, "other", "interrupt").json()["interrupted"], true);
    assert_eq!(value(&session, "other", "1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn a_context_is_interrupted_alone() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    open(&session, "other");
    thread::scope(|scope| {
        let main = scope.spawn(|| session.execute(AWAIT_FILE).ok());
        let sleep = "import time; time.sleep(1000)";
        let other = scope.spawn(|| session.execute_with(&in_context("other", sleep)));
        session.until_running(2);
        let reply = post(&session, "other", "interrupt").json();
        assert_eq!(reply["interrupted"], true, "{reply}");
        let _interrupted = other.join().unwrap().ended("interrupted", "interrupt", "preserved");
        assert_eq!(states(&session)[0].1, "running");
        assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
        main.join().unwrap();
    });
    assert_eq!(post(&session, "other", "interrupt").json()["interrupted"], false);
    daemon.release();
}

#[test]
fn with_cgroups_a_context_is_reset_and_dies_alone() {
    if !host::has(&[Requirement::Cgroup]) {
        return;
    }
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    open(&session, "other");
    let _ran = session.execute("x = 1").ok();
    let orphan = "import subprocess, os; y = 2; subprocess.Popen(['setsid', 'sleep', '1000']).pid";
    value(&session, "other", orphan);
    let processes = session.processes();
    let reply = post(&session, "other", "reset").json();
    assert_eq!((&reply["context"], &reply["scope"]), (&json!("other"), &json!("context")));
    assert_eq!(session.processes(), processes - 1, "what it had started is gone");
    assert_eq!(value(&session, "other", "'y' in globals()"), "False");
    assert_eq!(value(&session, "main", "x"), "1");
    for _ in 0..3 {
        let died = session.execute_with(&in_context("other", "import os; os.kill(os.getpid(), 9)"));
        let _died = died.ended("killed", "signal", "lost");
        assert_eq!(value(&session, "main", "x"), "1");
    }
    assert_eq!(session.reset()["scope"], "context");
    assert_eq!(value(&session, "other", "z = 3; z"), "3");
    daemon.release();
}

#[test]
fn without_cgroups_a_reset_is_of_the_session_and_says_so() {
    let daemon = Setup::default().without(&["cgroup"]).start();
    let session = daemon.session();
    open(&session, "other");
    let _ran = session.execute("x = 1").ok();
    thread::scope(|scope| {
        let main = scope.spawn(|| session.execute(AWAIT_FILE));
        session.until_running(1);
        let reply = post(&session, "other", "reset").json();
        assert_eq!(reply["scope"], "session");
        let outcome = main.join().unwrap().ended("killed", "reset", "lost");
        assert!(outcome.detail().contains("ended with a kernel of its session"), "{outcome}");
    });
    for id in ["main", "other"] {
        assert_eq!(value(&session, id, "'x' in globals()"), "False");
    }
    let survivor = json!({"argv": ["true"], "background": true, "survives_reset": true});
    let answer = session.request("POST", "/commands", Some(&survivor));
    assert_eq!(answer.expect_problem(422, "invalid_field")["field"], "survives_reset");
    daemon.stop_and_check();
}

#[test]
fn a_context_is_deleted_with_what_it_runs_and_its_id_is_free() {
    for setup in [Setup::default(), Setup::default().without(&["cgroup"])] {
        let daemon = setup.start();
        let session = daemon.session();
        let _ran = session.execute("x = 1").ok();
        open(&session, "other");
        thread::scope(|scope| {
            let sleep = "import time; time.sleep(1000)";
            let running = scope.spawn(|| session.execute_with(&in_context("other", sleep)));
            session.until_running(1);
            assert_eq!(session.request("DELETE", "/contexts/other", None).status, 204);
            let _deleted = running.join().unwrap().ended("killed", "deleted", "lost");
        });
        assert_eq!(states(&session).len(), 1);
        assert_eq!(session.processes(), 1);
        open(&session, "other");
        assert_eq!(value(&session, "other", "1 + 1"), "2");
        assert_eq!(value(&session, "main", "x"), "1");
        daemon.stop_and_check();
    }
}

#[test]
fn contexts_that_can_not_be_are_refused_in_words() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let path = "/contexts/none";
    session.request("GET", path, None).expect_problem(404, "unknown_context");
    session.request("DELETE", path, None).expect_problem(404, "unknown_context");
    post(&session, "none", "reset").expect_problem(404, "unknown_context");
    post(&session, "none", "interrupt").expect_problem(404, "unknown_context");
    session.request("DELETE", "/contexts/main", None).expect_problem(409, "main_context");
    let ask = |path: &str, body: &Value| session.request("POST", path, Some(body));
    ask("/execute", &in_context("none", "1")).expect_problem(404, "unknown_context");
    ask("/complete", &in_context("none", "1")).expect_problem(404, "unknown_context");
    for id in ["", "../x", "a b", "é"] {
        ask("/contexts", &json!({ "id": id })).expect_problem(422, "invalid_field");
    }
    ask("/contexts", &json!({ "id": "main" })).expect_problem(409, "context_exists");
    for number in 1..16 {
        open(&session, &format!("c{number}"));
    }
    ask("/contexts", &json!({})).expect_problem(429, "too_many_contexts");
    assert_eq!(session.processes(), 16);
    assert_eq!(session.request("DELETE", "/contexts/c7", None).status, 204);
    open(&session, "again");
    daemon.stop_and_check();
}

#[test]
fn questions_about_code_are_for_the_context_that_is_named() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    open(&session, "other");
    let _ran = session.execute_with(&in_context("other", "only_there = 1")).ok();
    let matches = |context: &str| {
        let request = json!({"code": "only_th", "context": context});
        let reply = session.request("POST", "/complete", Some(&request)).json();
        reply["matches"].as_array().unwrap().len()
    };
    assert_eq!((matches("main"), matches("other")), (0, 1));
    daemon.release();
}
