//! Connections: kept, broken, slow, many.

use serde_json::json;
use vivarium_tests::http::Client;
use vivarium_tests::{Setup, wait};

use crate::over_both;

#[test]
fn a_connection_is_kept() {
    over_both(|_, endpoint| {
        let mut client = Client::connect(endpoint);
        let session = client.json("POST", "/v1/sessions", Some(&json!({}))).expect_success();
        let path = format!("/v1/sessions/{}/execute", session["id"].as_str().unwrap());
        for number in 0..20 {
            let code = json!({"code": format!("{number} + 1")});
            let outcome = client.json("POST", &path, Some(&code)).expect_success();
            assert_eq!(outcome["result"]["repr"], (number + 1).to_string());
        }
        // An error does not end it either.
        client.json("POST", "/v1/run", Some(&json!({}))).expect_problem(422, "missing_field");
        assert_eq!(client.json("GET", "/healthz", None).expect_success(), json!({"status": "ok"}));
    });
}

#[test]
fn slow_and_silent_clients_do_not_keep_others_waiting() {
    over_both(|_, endpoint| {
        let mut slow: Vec<_> = (0..50).map(|_| Client::connect(endpoint)).collect();
        for (number, client) in slow.iter_mut().enumerate() {
            client.send_raw(match number % 4 {
                0 => b"",
                1 => b"POST /v1/run HT",
                2 => b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
                _ => b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"co",
            });
        }
        let outcome =
            Client::connect(endpoint).json("POST", "/v1/run", Some(&json!({"code": "1 + 1"})));
        assert_eq!(outcome.expect_success()["result"]["repr"], "2");
        drop(slow);
    });
}

#[test]
fn what_is_no_http_is_closed_or_refused() {
    over_both(|_, endpoint| {
        for bytes in [
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
            b"GET / HTTP/9.9\r\n\r\n",
            b"\0\0\0\0\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        ] {
            let mut client = Client::connect(endpoint);
            client.send_raw(bytes);
            if let Some(answer) = client.receive() {
                assert!((400..506).contains(&answer.status), "{bytes:?}: {answer:?}");
            }
        }
        let many = "X-Many: header\r\n".repeat(1000);
        let mut client = Client::connect(endpoint);
        client
            .send_raw(format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}\r\n").as_bytes());
        assert_eq!(client.receive().unwrap().status, 431);
        let mut client = Client::connect(endpoint);
        let long = "x".repeat(100_000);
        client.send_raw(format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        assert!([414, 431].contains(&client.receive().unwrap().status));
    });
}

#[test]
fn requests_can_be_sent_ahead() {
    over_both(|_, endpoint| {
        let mut client = Client::connect(endpoint);
        client.send_raw(&b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(10));
        for _ in 0..10 {
            assert_eq!(client.receive().unwrap().status, 200);
        }
    });
}

#[test]
fn busy_connections_leave_health_checks_and_the_other_listener_alone() {
    let daemon = Setup::default().config("server", "max_connections = 8").start();
    let sleeping = json!({"code": "import time; time.sleep(1000)"});
    let body = sleeping.to_string();
    let request = format!(
        "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // One peer may have three quarters of them.
    let mut busy: Vec<_> = (0..6).map(|_| Client::connect(&daemon.tcp())).collect();
    busy.iter_mut().for_each(|client| client.send_raw(request.as_bytes()));
    wait::until_true("all of them to run", || {
        let mut client = Client::connect(&daemon.unix());
        let sessions = client.json("GET", "/v1/sessions", None).expect_success();
        let sessions = sessions["sessions"].as_array().unwrap().clone();
        sessions.iter().filter(|session| session["state"] == "running").count() == 6
    });
    let get = |path: &str| Client::connect(&daemon.tcp()).json("GET", path, None);
    assert_eq!(get("/healthz").status, 200);
    assert_eq!(get("/readyz").status, 200);
    assert_eq!(get("/metrics").status, 200);
    get("/v1/host").expect_problem(503, "too_many_connections");
    drop(busy);
}
