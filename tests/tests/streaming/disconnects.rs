//! Clients that go away: what they started runs on, unless they said that it is not to.

use serde_json::json;
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
    // A daemon notices that on its own time: this one is queued behind it.
    let _third = session.stream_with("/execute", &[], &json!({"code": "pass"}));
    wait::until_true("the second's end", || {
        let _touched = session.request("POST", "/keepalive", None);
        session.request("PUT", "/files/go", Some(&json!(""))).status < 300
            && session.execution("2")["state"] == "done"
    });
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
