//! Bodies: malformed, hostile, large.

use serde_json::json;
use vivarium_tests::http::Client;
use vivarium_tests::{Outcome, Setup};

use crate::{over_both, over_both_of, post};

#[test]
fn invalid_json_is_400() {
    over_both(|_, endpoint| {
        for body in [
            &b""[..],
            b"{",
            b"}",
            b"{\"code\": ",
            b"{\"code\": \"1\"} trailing",
            b"{\"code\": \"\\ud800\"}",
            b"{\"code\": \"\xff\"}",
            b"{'code': '1'}",
            b"\x00\x01\x02",
        ] {
            post(endpoint, "/v1/run", body).expect_problem(400, "malformed_json");
        }
        let nested = "[".repeat(100_000);
        for body in [nested.clone(), format!("{{\"code\": {nested}"), format!("{{\"x\": {nested}")]
        {
            let answer = post(endpoint, "/v1/run", body.as_bytes());
            assert!([400, 422].contains(&answer.status), "{answer:?}");
        }
    });
}

#[test]
fn fields_that_can_not_be_are_named() {
    over_both(|_, endpoint| {
        for (path, body, code, field) in [
            ("/v1/run", json!({}), "missing_field", "code"),
            ("/v1/run", json!({"code": 1}), "invalid_field", "code"),
            ("/v1/run", json!({"code": "1", "kode": "2"}), "unknown_field", "kode"),
            (
                "/v1/run",
                json!({"code": "1", "limits": {"max_prox": 1}}),
                "unknown_field",
                "limits.max_prox",
            ),
            (
                "/v1/run",
                json!({"code": "1", "limits": {"max_procs": 0}}),
                "invalid_field",
                "limits.max_procs",
            ),
            (
                "/v1/run",
                json!({"code": "1", "limits": {"max_procs": -1}}),
                "invalid_field",
                "limits.max_procs",
            ),
            ("/v1/run", json!({"code": "1", "timeout_ms": 0}), "invalid_field", "timeout_ms"),
            ("/v1/run", json!({"code": "1", "timeout_ms": 1e300}), "invalid_field", "timeout_ms"),
            (
                "/v1/run",
                json!({"code": "1", "environment": "none"}),
                "invalid_field",
                "environment",
            ),
            ("/v1/run", json!({"code": "1", "env": {"A=B": "1"}}), "invalid_field", "env.A=B"),
            (
                "/v1/run",
                json!({"code": "1", "files": [{"name": "../x", "text": ""}]}),
                "invalid_field",
                "files[0].name",
            ),
            (
                "/v1/run",
                json!({"code": "1", "files": [{"name": "/etc/x", "text": ""}]}),
                "invalid_field",
                "files[0].name",
            ),
            (
                "/v1/run",
                json!({"code": "1", "files": [{"name": "x", "data": "%"}]}),
                "invalid_field",
                "files[0].data",
            ),
            (
                "/v1/run",
                json!({"code": "1", "files": [{"name": "x"}]}),
                "invalid_field",
                "files[0].text",
            ),
            ("/v1/sessions", json!({"name": "x"}), "unknown_field", "name"),
            ("/v1/sessions", json!({"id": 7}), "invalid_field", "id"),
            ("/v1/sessions", json!({"network": "everything"}), "invalid_field", "network"),
            (
                "/v1/sessions",
                json!({"metadata": {"k": "v".repeat(5000)}}),
                "invalid_field",
                "metadata",
            ),
        ] {
            let answer = post(endpoint, path, body.to_string().as_bytes());
            let problem = answer.expect_problem(422, code);
            assert_eq!(problem["field"], field, "{problem}");
        }
        let twice = br#"{"code": "1", "code": "2"}"#;
        assert_eq!(
            post(endpoint, "/v1/run", twice).expect_problem(422, "duplicate_field")["field"],
            "code"
        );
        for body in [json!([]), json!("code"), json!(null), json!(1)] {
            let answer = post(endpoint, "/v1/run", body.to_string().as_bytes());
            assert!([400, 422].contains(&answer.status), "{answer:?}");
        }
    });
}

#[test]
fn a_value_that_there_is_not_is_refused_by_name() {
    over_both(|_, endpoint| {
        let home = post(endpoint, "/v1/sessions", br#"{"home": "mine"}"#);
        assert_eq!(home.expect_problem(422, "invalid_field")["field"], "home");
        let unknown = post(endpoint, "/v1/sessions", br#"{"network": "bridge"}"#);
        let problem = unknown.expect_problem(422, "invalid_field");
        assert_eq!(problem["field"], "network");
        assert!(problem["detail"].as_str().unwrap().contains("bridge"), "{problem}");
    });
}

#[test]
fn a_body_over_the_limit_is_413() {
    let daemon = Setup::default().config("server", "max_body_bytes = 1000000").start();
    over_both_of(&daemon, |_, endpoint| {
        let large = json!({"code": "#".repeat(2_000_000)}).to_string();
        let answer = post(endpoint, "/v1/run", large.as_bytes());
        assert!(
            answer.expect_problem(413, "body_too_large")["detail"]
                .as_str()
                .unwrap()
                .contains("1000000")
        );
        // Announced and never sent, with a client that asks first.
        let mut client = Client::connect(endpoint);
        client.send_raw(
            b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
            Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n",
        );
        client.receive().unwrap().expect_problem(413, "body_too_large");
        // Without a length, in pieces.
        let mut client = Client::connect(endpoint);
        client.send_raw(
            b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
            Transfer-Encoding: chunked\r\n\r\n",
        );
        for _ in 0..20 {
            client.send_raw(b"10000\r\n");
            client.send_raw(&[b' '; 0x10000]);
            client.send_raw(b"\r\n");
        }
        client.send_raw(b"0\r\n\r\n");
        client.receive().unwrap().expect_problem(413, "body_too_large");
    });
    daemon.stop_and_check();
}

#[test]
fn ten_megabytes_of_code_run() {
    over_both(|_, endpoint| {
        let code = format!("x = 1\n{}x + 1", "# a comment that takes some room\n".repeat(320_000));
        assert!(code.len() > 10 << 20);
        let body = json!({ "code": code, "timeout_ms": 60_000 }).to_string();
        let outcome = Outcome(post(endpoint, "/v1/run", body.as_bytes()).expect_success());
        assert_eq!(outcome.ok().result(), "2");
    });
}

#[test]
fn strange_characters_are_characters() {
    over_both(|_, endpoint| {
        for (code, exception) in
            [("a\0b", "SyntaxError"), ("\u{0}", "SyntaxError"), ("'\u{ffff}\u{1f600}'", "")]
        {
            let body = json!({ "code": code }).to_string();
            let outcome = Outcome(post(endpoint, "/v1/run", body.as_bytes()).expect_success());
            // What Python calls a source with NUL has changed over time.
            let right = outcome.exception() == exception
                || (code.contains('\0') && outcome.exception() == "ValueError");
            assert!(right, "{outcome}");
        }
        let nul = json!({"code": "1", "env": {"A": "x\0y"}}).to_string();
        post(endpoint, "/v1/run", nul.as_bytes()).expect_problem(422, "invalid_field");
        let nul = json!({"code": "1", "files": [{"name": "a\0b", "text": ""}]}).to_string();
        post(endpoint, "/v1/run", nul.as_bytes()).expect_problem(422, "invalid_field");
    });
}
