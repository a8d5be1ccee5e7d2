//! A request may have its calls wait where the tenant's rule allows them, and never the other way.

use serde_json::{Value, json};
use vivarium_tests::http::Endpoint;
use vivarium_tests::tenants::Token;
use vivarium_tests::{Setup, program};

use super::{allow, ask, ask_at, daemon, decide, done};

fn source(at: &Endpoint, token: &Token, session: &str, key: &str) -> (Value, Value) {
    let path = format!("/v1/sessions/{session}");
    let info = token.ask(at, "GET", &path, None).expect_success();
    let policy = info["policy"].as_array().unwrap();
    let found = policy.iter().find(|entry| entry["key"] == key).unwrap();
    (found["value"].clone(), found["source"].clone())
}

#[test]
fn requests_tighten_the_rule_and_never_widen_it() {
    let (daemon, asking, free) = daemon("");
    let at = daemon.unix();
    let post = |token: &Token, path: &str, body: Value| token.ask(&at, "POST", path, Some(&body));
    let executions = |rule: &str| json!({ "executions": rule });
    let execute = |rule: &str| json!({"code": "print(1)", "approval": executions(rule)});

    // A session, all of whose calls wait; and one of which a single call does.
    let spec = json!({"id": "tight", "approval": executions("ask")});
    assert_eq!(post(&free, "/v1/sessions", spec).status, 201);
    assert_eq!(post(&free, "/v1/sessions", json!({"id": "plain"})).status, 201);
    let key = "approval.executions";
    assert_eq!(source(&at, &free, "tight", key), (json!("ask"), json!("request")));
    assert_eq!(source(&at, &free, "plain", key), (json!("allow"), json!("default")));
    assert_eq!(source(&at, &free, "tight", "approval.egress"), (json!("deny"), json!("default")));
    let (mut waits, id) = ask(&at, &free, "tight", &json!({"code": "print(1)"}));
    allow(&at, &id);
    assert_eq!(done(&mut waits)["status"], "ok");
    let (mut waits, id) = ask(&at, &free, "plain", &execute("ask"));
    assert_eq!(decide(&at, &id, &json!({"decision": "deny"})).status, 200);
    assert_eq!(done(&mut waits)["cause"], "approval_denied");
    assert_eq!(free.execute(&at, "plain", "print(1)")["stdout"], "1\n", "others do not wait");
    for (path, body) in [
        ("/v1/sessions/plain/commands", json!({"argv": ["true"], "approval": executions("ask")})),
        ("/v1/run", json!({"code": "1", "approval": executions("ask")})),
    ] {
        let (mut waits, id) = ask_at(&at, &free, path, &body);
        allow(&at, &id);
        assert_eq!(done(&mut waits)["status"], "ok", "{path}");
    }

    // To nothing at all.
    let spec = json!({"id": "none", "approval": executions("deny")});
    assert_eq!(post(&free, "/v1/sessions", spec).status, 201);
    let run = json!({"code": "1", "approval": executions("deny")});
    for (path, body) in [
        ("/v1/sessions/none/execute", json!({"code": "1"})),
        ("/v1/sessions/none/execute", execute("ask")),
        ("/v1/sessions/none/commands", json!({"argv": ["true"]})),
        ("/v1/sessions/plain/execute", execute("deny")),
        ("/v1/sessions/new/execute?create=true", execute("deny")),
        ("/v1/run", run),
    ] {
        drop(post(&free, path, body).expect_problem(403, "executions_denied"));
    }
    assert_eq!(free.ask(&at, "GET", "/v1/sessions/new", None).status, 404, "it is not made");

    // Never wider: neither than the tenant's, nor than the session's.
    let spec = json!({"id": "a", "approval": executions("ask")});
    assert_eq!(post(&asking, "/v1/sessions", spec).status, 201);
    let wide = executions("allow");
    for (token, path, body) in [
        (&asking, "/v1/sessions", json!({ "approval": wide })),
        (&asking, "/v1/run", json!({"code": "1", "approval": wide})),
        (&asking, "/v1/sessions/a/execute", execute("allow")),
        (&asking, "/v1/sessions/a/commands", json!({"argv": ["true"], "approval": wide})),
        (&free, "/v1/sessions/tight/execute", execute("allow")),
        (&free, "/v1/sessions/tight/commands", json!({"shell": "true", "approval": wide})),
    ] {
        let refused = post(token, path, body).expect_problem(422, "invalid_field");
        assert_eq!(refused["field"], key, "{path}: {refused}");
    }
    // What a kernel's start would run is nobody's to allow.
    let spec = json!({"approval": executions("ask"), "env": {"PYTHONPATH": "/workspace"}});
    let refused = post(&free, "/v1/sessions", spec).expect_problem(422, "invalid_field");
    assert_eq!(refused["field"], "env");
    // Destinations are a session's of network `trusted`, and no execution's.
    let egress = json!({"egress": "deny"});
    for (path, body) in [
        ("/v1/sessions", json!({ "approval": egress })),
        ("/v1/sessions/plain/execute", json!({"code": "1", "approval": egress})),
        ("/v1/sessions/plain/commands", json!({"argv": ["true"], "approval": egress})),
    ] {
        let refused = post(&free, path, body).expect_problem(422, "invalid_field");
        assert_eq!(refused["field"], "approval.egress", "{path}: {refused}");
    }
    daemon.stop_and_check();
}

#[test]
fn the_command_line_tightens_what_it_runs() {
    let daemon = Setup::default().start();
    let url = daemon.unix().url();
    let run = |arguments: &[&str]| program::run(&[arguments, &["--url", &url]].concat());
    let deny = ["--approval-executions", "deny"];
    let create = [&["sessions", "create", "a"], &deny[..]].concat();
    drop(run(&create).expect_code(0));
    drop(run(&["exec", "--create", "b", "-c", "1"]).expect_code(0));
    for arguments in [
        vec!["exec", "a", "-c", "1"],
        [&["exec"], &deny[..], &["b", "-c", "1"]].concat(),
        [&["run"], &deny[..], &["-c", "1"]].concat(),
    ] {
        let refused = run(&arguments);
        assert!(refused.stderr().contains("approval.executions"), "{}", refused.stderr());
        assert_ne!(refused.code(), 0);
    }
    daemon.stop_and_check();
}
