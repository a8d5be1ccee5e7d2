//! What is refused: calls that are not as declared, too large, too deep or too many; and declarations.

use serde_json::{Value, json};
use vivarium_tests::{Daemon, Setup, wait};

use super::{IMPORT, answer, echo_all, result, start, start_with, tools, until};

#[test]
fn calls_that_are_not_as_declared_do_not_reach_the_client() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "
found = []
def attempt(**arguments):
    try: found.append(tools.add(**arguments))
    except vivarium.ToolRefused as error: found.append(str(error))
attempt(n='1')
attempt()
attempt(n=2, a='x' * 2**20)
deep = []
for _ in range(70): deep = [deep]
attempt(n=3, a=deep)
attempt(n=4)";
    let (done, calls) = echo_all(&session, &mut start(&session, code));
    assert_eq!((&done["status"], calls), (&json!("ok"), 1));
    let found = session.value("found");
    for why in
        ["n: it is not of type", "\\\"n\\\" is missing", "are the most", "nested more than 64 deep"]
    {
        assert!(found.contains(why) || found.contains(&why.replace('\\', "")), "{why}: {found}");
    }
    assert!(found.ends_with("{'n': 4}]"), "{found}");
    daemon.stop_and_check();
}

#[test]
fn answers_are_bounded_too() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut events = start(&session, "len(tools.echo())");
    let call = events.expect("call");
    let deep = (0..70).fold(json!(1), |inner, _| json!([inner]));
    for bad in [json!({"result": deep}), json!({"result": "x".repeat(1 << 20)})] {
        let problem = answer(&session, &call, &bad).expect_problem(422, "invalid_field");
        assert_eq!(problem["field"], "result");
    }
    result(&session, &call, &json!("x".repeat((1 << 20) - 2)));
    assert_eq!(until(&mut events, "result").data["repr"], "1048574");
    daemon.stop_and_check();
}

#[test]
fn calls_are_counted_by_tool_and_by_execution() {
    let daemon = Setup::default().config("session", "max_calls = 5").start();
    let session = daemon.session();
    let code = format!(
        "{IMPORT}
found = 0
refused = []
for n in range(10):
    try: tools.echo(n=n)
    except vivarium.ToolRefused as error: refused.append(str(error))"
    );
    let limited = json!([{"name": "echo", "max_calls": 2}]);
    let request = json!({"code": code, "tools": limited});
    let (_, calls) = echo_all(&session, &mut start_with(&session, &request));
    assert_eq!(calls, 2);
    assert!(session.value("refused[0]").contains("it was called 2 times"));
    let request = json!({"code": code, "tools": tools()});
    let (_, calls) = echo_all(&session, &mut start_with(&session, &request));
    assert_eq!(calls, 5);
    assert!(session.value("refused[0]").contains("session.max_calls"));
    let many = json!({"code": "1", "tools": [{"name": "echo", "max_calls": 6}]});
    let problem = session.request("POST", "/execute", Some(&many));
    assert_eq!(problem.expect_problem(422, "invalid_field")["field"], "tools[0].max_calls");
    daemon.stop_and_check();
}

#[test]
fn no_more_than_64_calls_wait_at_a_time() {
    let daemon = Setup::default().limits(&json!({"max_procs": 128})).start();
    let session = daemon.session();
    let code = "import asyncio
r = await asyncio.gather(*(tools.aio.echo(n=n) for n in range(70)), return_exceptions=True)
sorted(type(it).__name__ for it in r)[:6] + [len([it for it in r if type(it) is dict])]";
    let mut events = start(&session, code);
    let calls: Vec<_> = (0..64).map(|_| events.expect("call")).collect();
    // Before one of them is answered, and makes room.
    let refused = "vivarium_tool_calls_total{outcome=\"refused\",tenant=\"default\"} 6";
    wait::until_true("the others are refused", || {
        let metrics = daemon.request("GET", "/metrics", None).body;
        String::from_utf8(metrics).unwrap().contains(refused)
    });
    for call in &calls {
        result(&session, call, &call.data["arguments"]);
    }
    let repr = until(&mut events, "result").data["repr"].clone();
    let expected = format!("[{}64]", "'ToolRefused', ".repeat(6));
    assert_eq!(repr, expected);
    daemon.stop_and_check();
}

#[test]
fn declarations_that_can_not_be_held_to_are_refused() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let twice = json!([{"name": "a"}, {"name": "a"}]);
    let with = |parameters: Value| json!([{"name": "a", "parameters": parameters}]);
    for (tools, field) in [
        (json!([{"name": "not-python"}]), "tools[0].name"),
        (json!([{"name": "class"}]), "tools[0].name"),
        (twice, "tools[1].name"),
        (json!([{"name": "a", "timeout_ms": 3_600_000}]), "tools[0].timeout_ms"),
        (with(json!({"type": "string"})), "tools[0].parameters"),
        (with(json!({"$ref": "https://example.com/"})), "tools[0].parameters"),
        (with(json!({"properties": {"a": {"pattern": "(a+)+\\1"}}})), "tools[0].parameters"),
        (with(json!({"dependentSchemas": {}})), "tools[0].parameters"),
    ] {
        let execute = json!({"code": "1", "tools": tools});
        let create = json!({ "tools": tools });
        let run = json!({"code": "1", "tools": tools});
        for (path, body) in [
            (session.path("/execute"), execute),
            ("/v1/sessions".into(), create),
            ("/v1/run".into(), run),
        ] {
            let problem = daemon.request("POST", &path, Some(&body));
            assert_eq!(problem.expect_problem(422, "invalid_field")["field"], field, "{body}");
        }
    }
    let command = json!({"argv": ["true"], "tools": [{"name": "a"}]});
    let problem = daemon.request("POST", "/v1/run", Some(&command));
    assert_eq!(problem.expect_problem(422, "invalid_field")["field"], "tools");
    daemon.stop_and_check();
}

#[test]
fn patterns_of_schemas_take_linear_time() {
    let daemon = Daemon::start();
    let session = daemon.session();
    // With backtracking this takes longer than anybody has.
    let parameters = json!({"properties": {"a": {"pattern": "^(a|a)*$"}}});
    let code = format!(
        "{IMPORT}
try: tools.t(a='a' * 10_000 + 'b')
except vivarium.ToolRefused as error: found = str(error)
found"
    );
    let request = json!({"code": code, "tools": [{"name": "t", "parameters": parameters}]});
    let repr = until(&mut start_with(&session, &request), "result").data["repr"].clone();
    assert!(repr.as_str().unwrap().contains("does not match"), "{repr}");
    daemon.stop_and_check();
}
