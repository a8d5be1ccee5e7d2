//! Requests that are sent again: with a key, they are carried out once.

use std::thread;

use serde_json::{Value, json};
use vivarium_tests::http::{Client, Response};
use vivarium_tests::{Daemon, Outcome, Session, Setup, wait};

/// Adds one to a file of the session, slowly enough that retries come meanwhile.
const COUNT: &str = "
import os, time
with open('count', 'a') as file: file.write('x')
while not os.path.exists('go'): time.sleep(0.005)
os.path.getsize('count')";

fn send(session: &Session<'_>, daemon: &Daemon, path: &str, key: &str, body: &Value) -> Response {
    let mut client = Client::connect(&daemon.unix());
    let path = if path.starts_with("/v1") { path.to_owned() } else { session.path(path) };
    let body = body.to_string();
    client.send("POST", &path, &[("Idempotency-Key", key)], Some(body.as_bytes()))
}

#[test]
fn retries_of_an_execution_run_once() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let request = json!({"code": COUNT});
    let answers: Vec<Response> = thread::scope(|scope| {
        let retry = || send(&session, &daemon, "/execute", "k1", &request);
        let retries: Vec<_> = (0..5).map(|_| scope.spawn(retry)).collect();
        wait::until_true("the first's start", || session.info()["state"] == "running");
        assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
        retries.into_iter().map(|retry| retry.join().unwrap()).collect()
    });
    let replayed = |answer: &&Response| answer.header("idempotent-replayed") == Some("true");
    assert_eq!(answers.iter().filter(replayed).count(), 4);
    let late = send(&session, &daemon, "/execute", "k1", &request);
    assert!(replayed(&&late));
    for answer in answers.iter().chain([&late]) {
        let outcome = Outcome(answer.expect_success()).ok();
        assert_eq!((outcome.text("execution_id"), outcome.result()), ("1", "1"));
    }
    // Another key is another request.
    let other = Outcome(send(&session, &daemon, "/execute", "k2", &request).expect_success()).ok();
    assert_eq!(other.result(), "2");
    daemon.stop_and_check();
}

#[test]
fn who_lost_the_connection_gets_the_result_by_asking_again() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let request = json!({"code": COUNT});
    let mut events = session.stream_with("/execute", &[("Idempotency-Key", "k")], &request);
    let started = events.expect("started");
    drop(events);
    let last = started.id.to_string();
    let headers = [("Idempotency-Key", "k"), ("Last-Event-ID", last.as_str())];
    let mut again = session.stream_with("/execute", &headers, &request);
    assert_eq!(again.head.header("idempotent-replayed"), Some("true"));
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    let rest = again.rest();
    assert_eq!(vivarium_tests::events::names(&rest), ["result", "done"]);
    assert_eq!(rest[0].data["repr"], "1");
}

#[test]
fn commands_and_runs_run_once_too() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let command = json!({"shell": "echo x >> count; wc -l < count"});
    for _ in 0..3 {
        let answer = send(&session, &daemon, "/commands", "c", &command).expect_success();
        assert_eq!(Outcome(answer).ok().stdout().trim(), "1");
    }
    let run = json!({"code": "import uuid; uuid.uuid4().hex"});
    let results: Vec<String> = (0..3)
        .map(|_| send(&session, &daemon, "/v1/run", "r", &run).expect_success())
        .map(|answer| Outcome(answer).ok().result().to_owned())
        .collect();
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
}

#[test]
fn a_key_belongs_to_one_request_and_is_forgotten_with_its_result() {
    let daemon = Setup::default().config("session", "results_kept = \"5s\"").start();
    let session = daemon.session();
    let request = json!({"code": "1 + 1"});
    let first = send(&session, &daemon, "/execute", "k", &request).expect_success();
    let other = send(&session, &daemon, "/execute", "k", &json!({"code": "1 + 2"}));
    other.expect_problem(422, "idempotency_key_reused");
    wait::until_true("the key's end", || {
        let answer = send(&session, &daemon, "/execute", "k", &request).expect_success();
        answer["execution_id"] != first["execution_id"]
    });
}

/// Asks for a session with a key.
fn create(daemon: &Daemon, key: &str, body: &Value) -> Response {
    let mut client = Client::connect(&daemon.unix());
    let body = body.to_string();
    client.send("POST", "/v1/sessions", &[("Idempotency-Key", key)], Some(body.as_bytes()))
}

#[test]
fn retries_of_a_create_make_one_session() {
    let daemon = Daemon::start();
    let body = json!({"metadata": {"for": "this"}});
    let answers: Vec<Response> = thread::scope(|scope| {
        let retries: Vec<_> = (0..5).map(|_| scope.spawn(|| create(&daemon, "k", &body))).collect();
        retries.into_iter().map(|retry| retry.join().unwrap()).collect()
    });
    let replayed = |answer: &&Response| answer.header("idempotent-replayed") == Some("true");
    assert_eq!(answers.iter().filter(replayed).count(), 4);
    assert!(answers.iter().all(|answer| answer.status == 201));
    let ids: Vec<_> = answers.iter().map(|answer| answer.expect_success()["id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let id = ids[0].as_str().unwrap();
    let session = Session::named(&daemon, id);
    let _set = session.execute("x = 1").ok();
    let late = create(&daemon, "k", &body).expect_success();
    assert_eq!((&late["id"], &late["usage"]["executions"]), (&ids[0], &json!(1)));
    // Another body, and another kind of request.
    let other = create(&daemon, "k", &json!({}));
    other.expect_problem(422, "idempotency_key_reused");
    let code = json!({"code": "x"});
    let run = send(&session, &daemon, "/execute", "k", &code);
    run.expect_problem(422, "idempotency_key_reused");
    assert_eq!(session.value("x"), "1");
    // Once its session was deleted no second one is made by the same request.
    assert_eq!(session.request("DELETE", "", None).status, 204);
    create(&daemon, "k", &body).expect_problem(410, "result_gone");
    // A request that was refused is not remembered.
    let wrong = json!({"environment": "none"});
    create(&daemon, "w", &wrong).expect_problem(422, "invalid_field");
    assert!(create(&daemon, "w", &body).header("idempotent-replayed").is_none());
    daemon.stop_and_check();
}

#[test]
fn a_key_of_a_create_is_forgotten_some_time_after_its_session() {
    let daemon = Setup::default().config("session", "results_kept = \"1ms\"").start();
    let first = create(&daemon, "k", &json!({})).expect_success();
    let again = create(&daemon, "k", &json!({})).expect_success();
    assert_eq!(first["id"], again["id"]);
    let session = Session::named(&daemon, first["id"].as_str().unwrap());
    assert_eq!(session.request("DELETE", "", None).status, 204);
    let second = wait::until("the end of the key's time", || {
        Some(create(&daemon, "k", &json!({}))).filter(|answer| answer.status == 201)
    });
    assert_ne!(second.expect_success()["id"], first["id"]);
}
