//! Executions that wait, and what becomes of them.

use serde_json::json;
use vivarium_tests::http::Client;
use vivarium_tests::{program, wait};

use super::{allow, approval, ask, ask_at, daemon, decide, done, make, setup, until};

#[test]
fn nothing_runs_before_it_is_allowed_and_everything_keeps_its_order() {
    let (daemon, one, other) = daemon("");
    let at = daemon.unix();
    make(&at, &one, "a");
    // A timeout that would be long over: the clock is the code's.
    let code = json!({"code": "x = 'ran'; print(x)", "timeout_ms": 60_000});
    let (mut first, id) = ask(&at, &one, "a", &code);
    let (mut second, next) = ask(&at, &one, "a", &json!({"code": "print(x + '!')"}));

    let list = one.ask(&at, "GET", "/v1/sessions/a/executions", None).expect_success();
    for execution in list["executions"].as_array().unwrap() {
        assert_eq!(execution["state"], "awaiting_approval", "{list}");
        assert_eq!(execution["started_at"], json!(null));
    }
    let shown = one.ask(&at, "GET", "/v1/sessions/a/executions/1", None).expect_success();
    assert_eq!((&shown["state"], &shown["outcome"]), (&json!("awaiting_approval"), &json!(null)));
    let waiting = approval(&at, &id);
    assert_eq!(waiting["execution"]["code"], "x = 'ran'; print(x)");
    assert_eq!((&waiting["tenant"], &waiting["session_id"]), (&json!("one"), &json!("a")));

    // The second is allowed, and waits for the first all the same.
    allow(&at, &next);
    wait::until_true("the second to be queued", || {
        let shown = one.ask(&at, "GET", "/v1/sessions/a/executions/2", None).expect_success();
        shown["state"] == "queued"
    });
    allow(&at, &id);
    assert_eq!(first.expect("started").data["execution_id"], "1");
    assert_eq!(first.expect("stdout").data["text"], "ran\n");
    let outcome = done(&mut first);
    assert_eq!(outcome["status"], "ok");
    second.expect("started");
    assert_eq!(second.expect("stdout").data["text"], "ran!\n");
    assert_eq!(done(&mut second)["status"], "ok");

    // What is denied has never run, and the session goes on as it was.
    let (mut denied, id) = ask(&at, &one, "a", &json!({"code": "x = 'wrong'"}));
    let decision = json!({"decision": "deny", "reason": "not today"});
    assert_eq!(decide(&at, &id, &decision).status, 200);
    let outcome = done(&mut denied);
    assert_eq!(outcome["status"], "rejected");
    assert_eq!(
        (&outcome["cause"], &outcome["state"]),
        (&json!("approval_denied"), &json!("preserved"))
    );
    assert!(outcome["detail"].as_str().unwrap().contains("not today"), "{outcome}");

    // Commands and runs, too; one that waits for nobody's turn does not wait for the denied.
    let (mut command, id) =
        ask_at(&at, &one, "/v1/sessions/a/commands", &json!({"argv": ["echo", "hi"]}));
    assert_eq!(approval(&at, &id)["execution"]["argv"], json!(["echo", "hi"]));
    allow(&at, &id);
    command.expect("started");
    assert_eq!(command.expect("stdout").data["text"], "hi\n");
    let (mut run, id) = ask_at(&at, &one, "/v1/run", &json!({"code": "print('run')"}));
    allow(&at, &id);
    run.expect("started");
    assert_eq!(run.expect("stdout").data["text"], "run\n");
    assert_eq!(done(&mut run)["status"], "ok");
    // Who has not to ask does not wait.
    make(&at, &other, "b");
    assert_eq!(other.execute(&at, "b", "6 * 7")["result"]["repr"], "42");
    daemon.stop_and_check();
}

#[test]
fn what_nobody_decides_in_time_is_denied() {
    let (daemon, one, _) = daemon("timeout = \"50ms\"");
    let at = daemon.unix();
    make(&at, &one, "a");
    let outcome = one.execute(&at, "a", "open('ran', 'w')");
    assert_eq!(outcome["status"], "rejected");
    assert_eq!(outcome["cause"], "approval_timeout");
    let files = one.ask(&at, "GET", "/v1/sessions/a/files", None).expect_success();
    assert_eq!(files["entries"], json!([]));
    let list = Client::connect(&at).json("GET", "/v1/approvals?all=true", None).expect_success();
    assert_eq!(list["approvals"][0]["state"], "timed_out");
    daemon.stop_and_check();
}

#[test]
fn what_is_remembered_is_the_same_call_alone() {
    let (daemon, one, _) = daemon("remember = \"session\"");
    let at = daemon.unix();
    make(&at, &one, "a");
    make(&at, &one, "b");
    let (mut first, id) = ask(&at, &one, "a", &json!({"code": "print(1)"}));
    let more = decide(&at, &id, &json!({"decision": "allow", "remember": "tenant"}));
    assert_eq!(more.expect_problem(422, "invalid_field")["field"], "remember");
    allow(&at, &id);
    assert_eq!(done(&mut first)["status"], "ok");
    assert_eq!(one.execute(&at, "a", "print(1)")["stdout"], "1\n", "not asked for again");
    // Other code, another session, and the same code with a file that it may read.
    let with_file = json!({"code": "print(1)", "files": [{"name": "f", "text": "x"}]});
    let others = [
        ("a", json!({"code": "print(1) "})),
        ("b", json!({"code": "print(1)"})),
        ("a", with_file),
        ("a", json!({"code": "print(1)", "env": {"A": "b"}})),
        ("a", json!({"code": "print(1)", "tools": [{"name": "t"}]})),
    ];
    for (session, body) in others {
        let (_waiting, id) = ask(&at, &one, session, &body);
        assert_eq!(decide(&at, &id, &json!({"decision": "deny"})).status, 200);
    }
    // Another session of the same id is another session.
    assert_eq!(one.ask(&at, "DELETE", "/v1/sessions/a", None).status, 204);
    make(&at, &one, "a");
    drop(ask(&at, &one, "a", &json!({"code": "print(1)"})));
    daemon.stop_and_check();
}

#[test]
fn whatever_ends_a_call_that_waits_withdraws_it() {
    let (setup, one, _) = setup("");
    let daemon = setup.start();
    let at = daemon.unix();
    make(&at, &one, "a");
    // An interrupt.
    let (mut events, id) = ask(&at, &one, "a", &json!({"code": "1"}));
    let interrupt = one.ask(&at, "POST", "/v1/sessions/a/interrupt", None).expect_success();
    assert_eq!(interrupt["execution_id"], "1");
    let outcome = done(&mut events);
    assert_eq!((&outcome["status"], &outcome["cause"]), (&json!("rejected"), &json!("interrupt")));
    until(&at, &id, "withdrawn");
    let late = decide(&at, &id, &json!({"decision": "allow"}));
    late.expect_problem(409, "approval_ended");
    // A signal to a command.
    let background = json!({"argv": ["sleep", "600"], "background": true});
    let started =
        one.ask(&at, "POST", "/v1/sessions/a/commands", Some(&background)).expect_success();
    let path = format!("/v1/sessions/a/executions/{}", started["execution_id"].as_str().unwrap());
    let signal = json!({"signal": "TERM"});
    assert_eq!(one.ask(&at, "POST", &format!("{path}/signal"), Some(&signal)).status, 204);
    // It is told once the audit log has it.
    let info = wait::until("the command's end", || {
        let info = one.ask(&at, "GET", &path, None).expect_success();
        (info["state"] == "done").then_some(info)
    });
    assert_eq!(info["outcome"]["status"], "rejected", "{info}");
    // A client that goes away, of code that is to end with it.
    let body = json!({"code": "1", "cancel_on_disconnect": true});
    let (events, id) = ask(&at, &one, "a", &body);
    drop(events);
    until(&at, &id, "withdrawn");
    // The session's end.
    let (mut events, id) = ask(&at, &one, "a", &json!({"code": "1"}));
    assert_eq!(one.ask(&at, "DELETE", "/v1/sessions/a", None).status, 204);
    assert_eq!(done(&mut events)["cause"], "deleted");
    until(&at, &id, "withdrawn");
    // The daemon's: it does not wait for people.
    make(&at, &one, "b");
    let (mut events, _) = ask(&at, &one, "b", &json!({"code": "1"}));
    daemon.stop_and_check();
    let outcome = done(&mut events);
    assert_eq!((&outcome["status"], &outcome["cause"]), (&json!("rejected"), &json!("draining")));
}

#[test]
fn sessions_of_who_has_to_ask_run_nothing_as_they_start() {
    let (daemon, one, other) = daemon("");
    let at = daemon.unix();
    let spec = json!({"id": "a", "env": {"PYTHONPATH": "/workspace"}});
    let refused = one.ask(&at, "POST", "/v1/sessions", Some(&spec));
    assert_eq!(refused.expect_problem(422, "invalid_field")["field"], "env");
    let run = json!({"code": "1", "env": {"A": "b"}});
    let refused = one.ask(&at, "POST", "/v1/run", Some(&run));
    assert_eq!(refused.expect_problem(422, "invalid_field")["field"], "env");
    // The control: others may, and their variables do run code.
    assert_eq!(other.ask(&at, "POST", "/v1/sessions", Some(&spec)).status, 201);
    let file = json!({"code": "1", "files": [{"name": "sitecustomize.py", "text": "open('/workspace/ran', 'w')"}]});
    let _ran = other.ask(&at, "POST", "/v1/sessions/a/execute", Some(&file)).expect_success();
    let _reset = other.ask(&at, "POST", "/v1/sessions/a/reset", None).expect_success();
    assert_eq!(other.ask(&at, "GET", "/v1/sessions/a/files/ran", None).status, 200);
    daemon.stop_and_check();
}

#[test]
fn the_command_line_says_what_it_waits_for_and_decides() {
    let (daemon, one, _) = daemon("");
    let at = daemon.unix();
    make(&at, &one, "a");
    let (mut events, id) = ask(&at, &one, "a", &json!({"code": "print('\u{1b}[31m')"}));
    let run = |arguments: &[&str]| {
        let url = at.url();
        program::run(&[&["approvals"], arguments, &["--url", &url]].concat())
    };
    let list = run(&["list"]).expect_code(0).stdout();
    assert!(list.contains(&id) && list.contains("pending") && list.contains("one"), "{list}");
    let shown = run(&["show", &id]).expect_code(0).stdout();
    assert!(shown.contains("print('\\x1b[31m')"), "escaped: {shown}");
    assert!(run(&["allow", &id, "--reason", "fine"]).expect_code(0).stdout().contains("allowed"));
    assert_eq!(done(&mut events)["status"], "ok");
    assert!(run(&["list"]).expect_code(0).stdout().lines().count() == 1);
    assert!(run(&["list", "--all"]).expect_code(0).stdout().contains("uid "));
    assert_eq!(run(&["deny", &id]).code(), 1, "decided already");
    daemon.stop_and_check();
}
