//! Clients that have sent their request and shut down their sending side get their answer.

use serde_json::{Value, json};
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::{Daemon, wait};

const WAIT: &str = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n6 * 7";
const FOREVER: &str = "import time\nwhile True: time.sleep(0.01)";

const STREAM: (&str, &str) = ("Accept", "text/event-stream");

/// A client that has sent all that it will.
fn asked(at: &Endpoint, path: &str, headers: &[(&str, &str)], body: &Value) -> Client {
    let mut client = Client::connect(at);
    client.ask("POST", path, headers, Some(body.to_string().as_bytes()));
    client.half_close();
    client
}

fn answer(mut client: Client) -> Response {
    client.receive().expect("an answer")
}

fn sessions(daemon: &Daemon) -> Vec<Value> {
    let list = daemon.request("GET", "/v1/sessions", None).expect_success();
    list["sessions"].as_array().unwrap().clone()
}

#[test]
fn every_request_that_does_not_end_with_its_client_is_answered() {
    let daemon = Daemon::start();
    for (at, id) in [(daemon.tcp(), "tcp"), (daemon.unix(), "unix")] {
        let made = answer(asked(&at, "/v1/sessions", &[], &json!({"id": id})));
        assert_eq!(made.expect_success()["id"], id);
        let key = ("Idempotency-Key", id);
        let keyed = answer(asked(&at, "/v1/sessions", &[key], &json!({}))).expect_success();
        let mut client = Client::connect(&at);
        client.ask("GET", &format!("/v1/sessions/{id}"), &[], None);
        client.half_close();
        assert_eq!(answer(client).expect_success()["id"], id);

        let session = vivarium_tests::Session::named(&daemon, id);
        let wait_for = |path: &str, body: &Value| {
            let client = asked(&at, &session.path(path), &[], body);
            session.until_state("running");
            assert!(session.request("PUT", "/files/go", Some(&json!(""))).status < 300);
            let outcome = answer(client).expect_success();
            assert_eq!(session.request("DELETE", "/files/go", None).status, 204);
            outcome
        };
        let outcome = wait_for("/execute", &json!({"code": WAIT}));
        assert_eq!(outcome["result"]["repr"], "42", "{outcome}");
        let command = json!({"shell": "while [ ! -e go ]; do sleep 0.01; done; echo gone"});
        let outcome = wait_for("/commands", &command);
        assert_eq!(outcome["stdout"], "gone\n", "{outcome}");
        let run = json!({"code": "import time\ntime.sleep(0.1)\n6 * 7"});
        let outcome = answer(asked(&at, "/v1/run", &[], &run)).expect_success();
        assert_eq!(outcome["result"]["repr"], "42", "{outcome}");
        for id in [id, keyed["id"].as_str().unwrap()] {
            assert_eq!(daemon.request("DELETE", &format!("/v1/sessions/{id}"), None).status, 204);
        }
    }
    assert_eq!(sessions(&daemon), [] as [Value; 0]);
    daemon.stop_and_check();
}

#[test]
fn on_a_unix_socket_those_that_do_are_answered_too() {
    let daemon = Daemon::start();
    let at = daemon.unix();
    let made = answer(asked(&at, "/v1/sessions", &[], &json!({}))).expect_success();
    assert_eq!(sessions(&daemon).len(), 1);
    let session = vivarium_tests::Session::named(&daemon, made["id"].as_str().unwrap());
    let body = json!({"code": WAIT, "cancel_on_disconnect": true});
    for headers in [&[][..], &[STREAM]] {
        let client = asked(&at, &session.path("/execute"), headers, &body);
        session.until_state("running");
        assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
        let answer = answer(client);
        assert!(answer.status == 200 && String::from_utf8_lossy(&answer.body).contains("42"));
        assert_eq!(session.request("DELETE", "/files/go", None).status, 204);
    }
    daemon.stop_and_check();
}

#[test]
fn who_hangs_up_altogether_ends_what_ends_with_its_client() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let body = json!({"code": FOREVER, "cancel_on_disconnect": true});
    let mut number = 0;
    for (at, is_half_closed) in
        [(daemon.tcp(), false), (daemon.unix(), false), (daemon.unix(), true)]
    {
        for headers in [&[][..], &[STREAM]] {
            number += 1;
            let mut client = Client::connect(&at);
            let bytes = body.to_string();
            client.ask("POST", &session.path("/execute"), headers, Some(bytes.as_bytes()));
            if is_half_closed {
                client.half_close();
            }
            session.until_state("running");
            drop(client);
            let done = session.until_done(&number.to_string());
            let _outcome = done.ended("interrupted", "interrupt", "preserved");
        }
    }
    daemon.stop_and_check();
}

#[test]
fn on_tcp_the_end_of_what_a_client_sends_ends_what_ends_with_it() {
    let daemon = Daemon::start();
    let at = daemon.tcp();
    let session = daemon.session();
    let body = json!({"code": FOREVER, "cancel_on_disconnect": true});
    for (number, headers) in [("1", &[][..]), ("2", &[STREAM])] {
        let mut client = Client::connect(&at);
        let bytes = body.to_string();
        client.ask("POST", &session.path("/execute"), headers, Some(bytes.as_bytes()));
        session.until_state("running");
        client.half_close();
        assert!(client.receive().is_none());
        let done = session.until_done(number);
        let _outcome = done.ended("interrupted", "interrupt", "preserved");
    }
    // With the same connection a client can go on after a request that was answered.
    let mut client = Client::connect(&at);
    let quick = json!({"code": "1", "cancel_on_disconnect": true});
    for _ in 0..2 {
        assert_eq!(client.json("POST", &session.path("/execute"), Some(&quick)).status, 200);
    }
    client.ask("GET", &session.path(""), &[], None);
    client.half_close();
    assert_eq!(client.receive().expect("an answer").status, 200);
    // Sessions that nobody was told of are ended.
    let known = sessions(&daemon).len();
    let mut told = 0;
    for _ in 0..20 {
        let mut client = asked(&at, "/v1/sessions", &[], &json!({}));
        told += usize::from(client.receive().is_some_and(|answer| answer.status == 201));
    }
    wait::until_true("the end of the others", || sessions(&daemon).len() == known + told);
    assert!(told < 20);
    daemon.stop_and_check();
}
