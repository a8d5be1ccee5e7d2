//! Tenants that try to get more than their quotas, or to keep what they were given.

use std::thread;

use serde_json::json;
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::tenants::Token;
use vivarium_tests::wait;

use super::{daemon, is_over};

fn in_flight(at: &Endpoint, tenant: &str) -> u64 {
    let metrics = Client::connect(at).json("GET", "/metrics", None);
    let text = String::from_utf8(metrics.body).unwrap();
    let name = format!("vivarium_executions_in_flight{{tenant=\"{tenant}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().unwrap())
}

fn make(at: &Endpoint, token: &Token, id: &str) {
    assert_eq!(token.ask(at, "POST", "/v1/sessions", Some(&json!({ "id": id }))).status, 201);
}

/// One token over 200 connections, each of which asks again and again.
#[test]
fn a_shared_token_gets_no_more_over_many_connections() {
    let (daemon, one, _) = daemon("execution_rate = \"25/1d\"");
    let at = daemon.unix();
    make(&at, &one, "a");
    let served: usize = thread::scope(|scope| {
        let ask = || {
            let mut client = Client::connect(&at);
            let authorization = format!("Bearer {}", one.text);
            let headers = [("Authorization", authorization.as_str())];
            let ask = |_: &usize| {
                let body = br#"{"code": "1"}"#;
                let response = client.send("POST", "/v1/sessions/a/execute", &headers, Some(body));
                !is_over(&response, "execution_rate")
            };
            (0..5).filter(ask).count()
        };
        let clients: Vec<_> = (0..200).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(served, 25);
    daemon.stop_and_check();
}

/// Streams that are cut off, with and without the wish to end with their client.
#[test]
fn aborted_streams_give_back_what_they_held() {
    let (daemon, one, _) = daemon("max_executions = 4");
    let at = daemon.unix();
    make(&at, &one, "a");
    let authorization = format!("Bearer {}", one.text);
    let headers = [("Authorization", authorization.as_str()), ("Accept", "text/event-stream")];
    for _ in 0..5 {
        let streams: Vec<_> = (0..4)
            .map(|_| {
                let mut client = Client::connect(&at);
                let body =
                    json!({"code": "import time; time.sleep(600)", "cancel_on_disconnect": true});
                client.ask(
                    "POST",
                    "/v1/sessions/a/execute",
                    &headers,
                    Some(body.to_string().as_bytes()),
                );
                assert_eq!(client.receive_head().unwrap().status, 200);
                client
            })
            .collect();
        assert_eq!(in_flight(&at, "one"), 4);
        let more = one.ask(&at, "POST", "/v1/sessions/a/execute", Some(&json!({"code": "1"})));
        assert!(is_over(&more, "max_executions"));
        drop(streams);
        wait::until_true("all to be given back", || in_flight(&at, "one") == 0);
    }
    one.execute(&at, "a", "1");
    daemon.stop_and_check();
}

/// Code that kills its kernel, sessions that are deleted or run out of memory under what runs.
#[test]
fn whatever_ends_an_execution_gives_back_what_it_held() {
    let (daemon, one, _) = daemon("max_executions = 1\nmax_sessions = 1");
    let at = daemon.unix();
    for _ in 0..3 {
        make(&at, &one, "a");
        let execute = |code: &str, timeout_ms: u64| {
            let body = json!({"code": code, "timeout_ms": timeout_ms});
            one.ask(&at, "POST", "/v1/sessions/a/execute", Some(&body)).expect_success()
        };
        for (code, status) in [
            ("import os; os.kill(os.getpid(), 9)", "killed"),
            ("import time; time.sleep(600)", "timed_out"),
            ("import os; os._exit(3)", "killed"),
            ("1 / 0", "error"),
            ("not Python", "error"),
            ("6 * 7", "ok"),
        ] {
            let timeout_ms = if status == "timed_out" { 200 } else { 30_000 };
            assert_eq!(execute(code, timeout_ms)["status"], status, "{code}");
        }
        let command = json!({"argv": ["sleep", "600"], "background": true});
        let _started =
            one.ask(&at, "POST", "/v1/sessions/a/commands", Some(&command)).expect_success();
        let more = one.ask(&at, "POST", "/v1/sessions/a/execute", Some(&json!({"code": "1"})));
        assert!(is_over(&more, "max_executions"), "a command in the background counts");
        assert_eq!(in_flight(&at, "one"), 1);
        assert_eq!(one.ask(&at, "DELETE", "/v1/sessions/a", None).status, 204);
        assert_eq!(in_flight(&at, "one"), 0);
    }
    daemon.stop_and_check();
}

#[test]
fn requests_that_are_sent_again_count_once() {
    let (daemon, one, _) = daemon("execution_rate = \"2/1d\"\nsession_rate = \"1/1d\"");
    let at = daemon.unix();
    let authorization = format!("Bearer {}", one.text);
    let send = |path: &str, key: &str, body: &str| {
        let headers = [("Authorization", authorization.as_str()), ("Idempotency-Key", key)];
        Client::connect(&at).send("POST", path, &headers, Some(body.as_bytes()))
    };
    for _ in 0..20 {
        assert_eq!(send("/v1/sessions", "create", r#"{"id": "a"}"#).status, 201);
        let outcome = send("/v1/sessions/a/execute", "code", r#"{"code": "1"}"#).expect_success();
        assert_eq!(outcome["execution_id"], "1");
    }
    // One that is refused is not remembered under its key, and costs nothing.
    let again = |key: &str| send("/v1/sessions/a/execute", key, r#"{"code": "2"}"#);
    assert_eq!(again("second").status, 200);
    for _ in 0..3 {
        assert!(is_over(&again("third"), "execution_rate"));
    }
    assert!(is_over(&send("/v1/sessions", "other", r#"{"id": "b"}"#), "session_rate"));
    daemon.stop_and_check();
}

#[test]
fn queues_of_all_sessions_together_are_bounded() {
    let (daemon, one, other) = daemon("max_queued = 3");
    let at = daemon.unix();
    for token in [&one, &other] {
        for id in ["a", "b"] {
            make(&at, token, id);
        }
    }
    let start = |token: &Token, id: &str| {
        let authorization = format!("Bearer {}", token.text);
        let headers = [("Authorization", authorization.as_str()), ("Accept", "text/event-stream")];
        let mut client = Client::connect(&at);
        let body = br#"{"code": "import time; time.sleep(600)"}"#;
        client.ask("POST", &format!("/v1/sessions/{id}/execute"), &headers, Some(body));
        client
    };
    for token in [&one, &other] {
        let mut waiting = Vec::new();
        for id in ["a", "b", "a", "b", "a"] {
            let mut client = start(token, id);
            assert_eq!(client.receive_head().unwrap().status, 200);
            waiting.push(client);
        }
        for id in ["a", "b"] {
            let path = format!("/v1/sessions/{id}/execute");
            if std::ptr::eq(token, &one) {
                let refused = token.ask(&at, "POST", &path, Some(&json!({"code": "1"})));
                assert!(is_over(&refused, "max_queued"));
            } else {
                assert_eq!(start(token, id).receive_head().unwrap().status, 200);
            }
        }
        // Commands wait for nobody.
        let command = json!({"argv": ["true"]});
        let _ran =
            token.ask(&at, "POST", "/v1/sessions/a/commands", Some(&command)).expect_success();
    }
    assert_eq!(one.ask(&at, "DELETE", "/v1/sessions/b", None).status, 204);
    assert_eq!(start(&one, "a").receive_head().unwrap().status, 200);
    daemon.stop_and_check();
}
