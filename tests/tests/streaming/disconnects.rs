//! Clients that go away: what they started runs on, unless they said that it is not to.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use vivarium_tests::http::Client;
use vivarium_tests::{Daemon, Setup, wait};

#[test]
fn an_execution_outlives_its_client() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "import os, time\nprint('on')\nwhile not os.path.exists('go'): time.sleep(0.01)\n42";
    let mut events = session.stream(code);
    events.expect("started");
    drop(events);
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    let outcome = session.until_done("1").ok();
    assert_eq!((outcome.stdout(), outcome.result()), ("on\n", "42"));
    daemon.stop_and_check();
}

#[test]
fn one_that_is_to_end_with_its_client_is_interrupted() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let _set = session.execute("x = 1").ok();
    let forever =
        json!({"code": "import time\nwhile True: time.sleep(0.01)", "cancel_on_disconnect": true});
    let mut events = session.stream_with("/execute", &[], &forever);
    events.expect("started");
    drop(events);
    let _outcome = session.until_done("2").ended("interrupted", "interrupt", "preserved");
    // The same of a client that waits for an outcome.
    let mut client = Client::connect(&daemon.unix());
    let body = forever.to_string();
    client.ask("POST", &session.path("/execute"), &[], Some(body.as_bytes()));
    session.until_state("running");
    drop(client);
    let _outcome = session.until_done("3").ended("interrupted", "interrupt", "preserved");
    assert_eq!(session.value("x"), "1");
}

#[test]
fn one_whose_turn_has_not_come_never_runs() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut first =
        session.stream("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)");
    first.expect("started");
    let second = json!({"code": "open('ran', 'w')", "cancel_on_disconnect": true});
    let waiting = session.stream_with("/execute", &[], &second);
    assert_eq!(session.execution("2")["state"], "queued");
    drop(waiting);
    // A daemon notices that on its own time, and looks when it is asked to run something.
    let _third = session.stream_with("/execute", &[], &json!({"code": "pass"}));
    wait::until_true("the second's end", || {
        let _ran = session.command(&json!({"argv": ["true"]})).ok();
        session.execution("2")["state"] == "done"
    });
    assert_eq!(session.execution("1")["state"], "running");
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    let _outcome = session.until_done("2").ended("rejected", "interrupt", "preserved");
    assert_eq!(session.value("os.path.exists('ran')"), "False");
}

#[test]
fn a_stream_gets_its_end_from_a_daemon_that_is_stopped() {
    // As long as that a stopping daemon waits for what runs.
    let mut daemon = Setup::default().config("session", "exec_timeout = \"500ms\"").start();
    let mut events = {
        let session = daemon.session();
        let request = json!({"code": "while True: pass", "timeout_ms": 100_000});
        let mut events = session.stream_with("/execute", &[], &request);
        events.expect("started");
        events
    };
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    let done = events.rest().pop().unwrap();
    assert_eq!((done.name.as_str(), &done.data["cause"]), ("done", &json!("draining")));
    assert!(daemon.wait().success());
}

#[test]
fn a_run_that_is_to_end_with_its_client_leaves_nothing() {
    let daemon = Daemon::start();
    let request = json!({"shell": "while :; do sleep 1; done", "cancel_on_disconnect": true});
    let mut client = Client::connect(&daemon.unix());
    client.ask("POST", "/v1/run", &[], Some(request.to_string().as_bytes()));
    let sessions = || {
        let list = daemon.request("GET", "/v1/sessions", None).expect_success();
        list["sessions"].as_array().unwrap().clone()
    };
    wait::until_true("the run", || sessions().iter().any(|session| session["state"] == "running"));
    drop(client);
    wait::until_true("the end of its session", || sessions().is_empty());
    daemon.stop_and_check();
}

/// Asks for a session, hangs up after `looks` looks at the daemon, and gives the id of the session
/// if the answer had come by then.
fn hang_up(daemon: &Daemon, headers: &str, body: &str, looks: usize) -> Option<String> {
    let mut stream = UnixStream::connect(daemon.dir().join("api.sock")).unwrap();
    let length = body.len();
    let request = format!(
        "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    for _ in 0..looks {
        assert_eq!(daemon.request("GET", "/healthz", None).status, 200);
    }
    // From here on nothing can come any more, and what has come can still be read.
    stream.shutdown(Shutdown::Both).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let info: Value = serde_json::from_str(body).unwrap();
    Some(info["id"].as_str().unwrap().to_owned())
}

fn ids(daemon: &Daemon) -> BTreeSet<String> {
    let list = daemon.request("GET", "/v1/sessions?limit=1000", None).expect_success();
    let sessions = list["sessions"].as_array().unwrap();
    sessions.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_session_that_nobody_was_told_of_is_ended() {
    let daemon = Daemon::start();
    let mut known = BTreeSet::new();
    // From at once to long after the answer.
    for looks in (0..60).flat_map(|step| [step, step * 5]) {
        known.extend(hang_up(&daemon, "", "{}", looks));
    }
    // One that was told, however slow the host is.
    known.insert(daemon.session().info()["id"].as_str().unwrap().to_owned());
    wait::until_true("the end of what nobody knows", || ids(&daemon) == known);
    assert!(known.len() < 121, "each of them knew");
    daemon.stop_and_check();
}

#[test]
fn a_session_that_its_client_can_name_stays() {
    let daemon = Daemon::start();
    // The control: nobody waits for the answer here either.
    let mut unanswered = 0;
    for number in 0..10 {
        let body = json!({"id": format!("named-{number}")}).to_string();
        unanswered += usize::from(hang_up(&daemon, "", &body, 0).is_none());
        let key = format!("Idempotency-Key: key-{number}\r\n");
        unanswered += usize::from(hang_up(&daemon, &key, "{}", 0).is_none());
    }
    assert!(unanswered > 0);
    // Who hung up before the request was read, has asked for nothing.
    let named = |ids: &BTreeSet<String>| ids.iter().filter(|id| id.starts_with("named-")).count();
    wait::until_true("all of them", || {
        let ids = ids(&daemon);
        named(&ids) == 10 && ids.len() == 20
    });
    // By the key its session is found.
    for number in 0..10 {
        let key = format!("key-{number}");
        let mut client = Client::connect(&daemon.unix());
        let again = client.send("POST", "/v1/sessions", &[("Idempotency-Key", &key)], Some(b"{}"));
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert!(ids(&daemon).contains(again.expect_success()["id"].as_str().unwrap()));
    }
    assert_eq!(ids(&daemon).len(), 20);
    daemon.stop_and_check();
}

#[test]
fn a_session_made_by_an_execution_has_a_name_and_stays() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.unix());
    let body = json!({"code": "x = 1"}).to_string();
    client.ask("POST", "/v1/sessions/mine/execute?create=true", &[], Some(body.as_bytes()));
    wait::until_true("its session", || ids(&daemon).contains("mine"));
    drop(client);
    let session = vivarium_tests::Session::named(&daemon, "mine");
    wait::until_true("its execution", || {
        session.request("GET", "/executions/1", None).status == 200
    });
    let _ran = session.until_done("1").ok();
    assert_eq!(session.value("x"), "1");
    daemon.stop_and_check();
}
