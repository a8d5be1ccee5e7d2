//! Signals and input that are refused.

use serde_json::{Value, json};
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, Setup};

#[test]
fn nonsense_is_refused_by_name() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let commands = [
        (
            json!({"argv": ["true"], "background": true, "cancel_on_disconnect": true}),
            "cancel_on_disconnect",
        ),
        (json!({"argv": ["true"], "background": true, "queued": true}), "queued"),
        (json!({"argv": ["true"], "stdin": "x", "stdin_open": true}), "stdin"),
        (json!({"argv": ["true"], "env": {"A=B": "c"}}), "env"),
    ];
    for (command, field) in commands {
        let answer = session.request("POST", "/commands", Some(&command));
        let found = answer.expect_problem(422, "invalid_field")["field"].clone();
        assert!(found.as_str().unwrap().starts_with(field), "{found} for {command}");
    }
    for (field, value) in [("cwd", json!("../x")), ("env", json!({"": "x"}))] {
        let mut request = json!({"code": "1"});
        request[field] = value;
        let answer = session.request("POST", "/execute", Some(&request));
        let found = answer.expect_problem(422, "invalid_field")["field"].clone();
        assert!(found.as_str().unwrap().starts_with(field), "{found}");
    }
    let command = json!({"argv": ["sleep", "1000"], "background": true});
    let started = session.request("POST", "/commands", Some(&command)).expect_success();
    let path = format!("/executions/{}", started["execution_id"].as_str().unwrap());
    let ask =
        |rest: &str, body: Value| session.request("POST", &format!("{path}{rest}"), Some(&body));
    for name in ["", "SIGNONSENSE", "9", "SIGSIGTERM", "sigterm", "SIGTERM\u{0}"] {
        let answer = ask("/signal", json!({ "signal": name }));
        assert_eq!(answer.expect_problem(422, "invalid_field")["field"], "signal", "{name:?}");
    }
    ask("/signal", json!({})).expect_problem(422, "missing_field");
    for (value, told) in [(json!({}), "an object"), (json!([]), "an array"), (json!(null), "null")]
    {
        let problem = ask("/signal", json!({"signal": value})).expect_problem(422, "invalid_field");
        assert_eq!(problem["detail"], format!("expected a string, but got {told}"));
        assert_eq!(problem["field"], "signal");
    }
    ask("/resize", json!({"columns": 80, "rows": 24})).expect_problem(409, "no_terminal");
    ask("/signal", json!({"signal": "SIGTERM", "to": 1})).expect_problem(422, "unknown_field");
    ask("/stdin?close=maybe", json!("")).expect_problem(400, "invalid_query");
    assert_ne!(session.execution(started["execution_id"].as_str().unwrap())["state"], "done");
    for unknown in ["99", "..", "x"] {
        for rest in ["signal", "stdin"] {
            let path = format!("/executions/{unknown}/{rest}");
            let answer = session.request("POST", &path, Some(&json!({"signal": "SIGTERM"})));
            assert_eq!(answer.status, 404, "{path}");
        }
    }
    daemon.stop_and_check();
}

#[test]
fn code_is_sent_nothing_but_an_interrupt() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut events = session.stream("x = 1\nprint('on', flush=True)\nwhile True: pass");
    events.expect("started");
    events.expect("stdout");
    let ask = |rest: &str, body: Value| {
        session.request("POST", &format!("/executions/1/{rest}"), Some(&body))
    };
    for name in ["SIGTERM", "SIGKILL", "SIGSTOP"] {
        ask("signal", json!({ "signal": name })).expect_problem(409, "not_running");
    }
    ask("stdin", json!("x")).expect_problem(409, "no_stdin");
    assert_eq!(ask("signal", json!({"signal": "SIGINT"})).status, 204);
    assert_eq!(events.rest().pop().unwrap().data["status"], "interrupted");
    ask("signal", json!({"signal": "SIGINT"})).expect_problem(409, "not_running");
    assert_eq!(session.value("x"), "1");
}

#[test]
fn another_tenants_command_is_not_there() {
    let (owner, stranger) = (Token::new(), Token::new());
    let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
    let daemon = Setup::default().config("[tenant]", &tenants).start();
    let at = daemon.unix();
    let session = json!({"id": "same"});
    let _made = owner.ask(&at, "POST", "/v1/sessions", Some(&session)).expect_success();
    let command = json!({"argv": ["cat"], "background": true, "stdin_open": true});
    let started = owner.ask(&at, "POST", "/v1/sessions/same/commands", Some(&command));
    let id = started.expect_success()["execution_id"].as_str().unwrap().to_owned();
    let path = |rest: &str| format!("/v1/sessions/same/executions/{id}{rest}");
    let try_all = || {
        let kill = json!({"signal": "SIGKILL"});
        for (rest, body) in
            [("/signal", &kill), ("/stdin", &json!("x")), ("/stdin?close=true", &json!("x"))]
        {
            assert_eq!(stranger.ask(&at, "POST", &path(rest), Some(body)).status, 404, "{rest}");
        }
        assert_eq!(stranger.ask(&at, "GET", &path(""), None).status, 404);
    };
    try_all();
    // Nor where the stranger has a session of the same name.
    let _made = stranger.ask(&at, "POST", "/v1/sessions", Some(&session)).expect_success();
    try_all();
    let close = owner.ask(&at, "POST", &path("/stdin?close=true"), Some(&json!("x")));
    assert_eq!(close.expect_success()["written_bytes"], 3);
    vivarium_tests::wait::until_true("its end", || {
        let info = owner.ask(&at, "GET", &path(""), None).expect_success();
        info["outcome"]["stdout"] == "\"x\""
    });
    daemon.stop_and_check();
}
