//! Results can be asked for afterwards, for a time.

use serde_json::json;
use vivarium_tests::events::names;
use vivarium_tests::{Daemon, Session, Setup, wait};

#[test]
fn a_runs_result_is_there_when_its_session_is_gone() {
    let daemon = Daemon::start();
    let outcome = daemon.run(&json!({"code": "print('out'); 6 * 7"})).ok();
    let session = Session::named(&daemon, outcome.text("session_id"));
    assert_eq!(session.request("GET", "", None).status, 404);
    let info = session.execution("1");
    assert_eq!(info["outcome"], outcome.0);
    let events = session.follow("1", None).rest();
    assert_eq!(names(&events).last(), Some(&"done"));
    daemon.stop_and_check();
}

#[test]
fn a_result_is_there_for_its_time() {
    let daemon = Setup::default().config("session", "results_kept = \"5s\"").start();
    let session = daemon.session();
    let _outcome = session.execute("1").ok();
    assert_eq!(session.execution("1")["state"], "done");
    wait::until_true("its end", || session.request("GET", "/executions/1", None).status == 404);
}

#[test]
fn no_result_is_kept_where_none_is_to_be() {
    let daemon = Setup::default().config("session", "results_kept = \"0s\"").start();
    let session = daemon.session();
    let mut events =
        session.stream("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)");
    events.expect("started");
    assert_eq!(session.execution("1")["state"], "running");
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    events.rest();
    session.request("GET", "/executions/1", None).expect_problem(404, "unknown_execution");
}

#[test]
fn large_results_make_room_for_each_other() {
    let daemon = Daemon::start();
    let session = daemon.session();
    for _ in 1..=8 {
        assert_eq!(session.execute("print('x' * (9 << 20))").ok().stdout().len(), (9 << 20) + 1);
    }
    let is_kept =
        |number: &u32| session.request("GET", &format!("/executions/{number}"), None).status == 200;
    let kept: Vec<u32> = (1..=8).filter(is_kept).collect();
    assert!((3..8).contains(&kept.len()), "{kept:?}");
    assert_eq!(kept.last(), Some(&8), "the newest stays");
    assert_eq!(session.execution("8")["outcome"]["stdout"].as_str().unwrap().len(), (9 << 20) + 1);
}
