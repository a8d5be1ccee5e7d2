//! Calls as they should be: declared, made, answered.

use serde_json::json;
use vivarium_tests::Daemon;

use super::{answer, answer_at, echo_all, result, start, start_with, tools, until};

#[test]
fn code_calls_a_function_and_gets_what_its_client_answers() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut events = start(&session, "tools.add(41), tools.add.__doc__");
    let call = events.expect("call");
    assert_eq!((&call.data["tool"], &call.data["arguments"]), (&json!("add"), &json!({"n": 41})));
    assert_eq!(call.data["session_id"], session.info()["id"]);
    assert!(call.data["expires_at"].is_string());
    let path = "/executions/1/calls";
    let open = session.request("GET", path, None).expect_success();
    assert_eq!(open["calls"][0]["call_id"], call.data["call_id"]);
    assert_eq!(open["calls"][0]["arguments"], json!({"n": 41}));
    result(&session, &call, &json!(42));
    assert_eq!(events.expect("call_ended").data["outcome"], "result");
    let value = events.expect("result");
    let said = value.data["repr"].as_str().unwrap();
    assert_eq!(said, r"(42, 'Adds one.\n\nParameters:\n    n (integer)')");
    assert_eq!(events.expect("done").data["status"], "ok");
    let open = session.request("GET", path, None).expect_success();
    assert_eq!(open["calls"], json!([]));
    // Another execution has no tools, and says so.
    let outcome = session.execute("tools.add(1)");
    assert_eq!(outcome.exception(), "vivarium.ToolUnavailable");
    daemon.stop_and_check();
}

#[test]
fn every_kind_of_json_goes_out_and_comes_back() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "
given = {'a': [1, 1.5, None, True, 'é\\n', {'b': []}], 'big': 2**60, '': {}}
tools.echo(**given) == given";
    let (done, calls) = echo_all(&session, &mut start(&session, code));
    assert_eq!((&done["status"], calls), (&json!("ok"), 1));
    assert_eq!(session.value("_"), "True");
    daemon.stop_and_check();
}

/// JSON carries a double as the shortest decimal that reads back as the same (RFC 8259, section 6). A parser
/// that rounds once too often is wrong by one in the last place, for one number in a hundred.
#[test]
fn doubles_go_out_and_come_back_as_they_were() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "
import random, struct
bits = random.Random(1).getrandbits
doubles = [struct.unpack('d', bits(64).to_bytes(8, 'little'))[0] for _ in range(2000)]
given = [n for n in doubles if n - n == 0] + [6.66666e29, 5e-324, 1.7976931348623157e308, -0.0]
answer = tools.echo(n=given)['n']
[(a, b) for a, b in zip(given, answer) if repr(a) != repr(b)], len(given) > 1900, len(answer) == len(given)";
    let (done, calls) = echo_all(&session, &mut start(&session, code));
    assert_eq!((&done["status"], calls), (&json!("ok"), 1));
    assert_eq!(session.value("_"), "([], True, True)");
    daemon.stop_and_check();
}

#[test]
fn a_thousand_calls_in_a_row() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "sum(tools.echo(n=n)['n'] for n in range(1000))";
    let (done, calls) = echo_all(&session, &mut start(&session, code));
    assert_eq!((&done["status"], calls), (&json!("ok"), 1000));
    assert_eq!(session.value("_"), "499500");
    daemon.stop_and_check();
}

#[test]
fn calls_of_threads_and_coroutines_wait_at_once() {
    let daemon = Daemon::start();
    let session = daemon.session();
    for code in [
        "import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    found = list(pool.map(lambda n: tools.echo(n=n)['n'], range(8)))",
        "import asyncio
found = [it['n'] for it in await asyncio.gather(*(tools.aio.echo(n=n) for n in range(8)))]",
    ] {
        let mut events = start(&session, code);
        // None is answered before all wait.
        let mut calls: Vec<_> = (0..8).map(|_| events.expect("call")).collect();
        calls.reverse();
        for call in &calls {
            result(&session, call, &call.data["arguments"]);
        }
        assert_eq!(until(&mut events, "done").data["status"], "ok");
        assert_eq!(session.value("found == list(range(8))"), "True");
    }
    daemon.stop_and_check();
}

#[test]
fn errors_of_the_clients_are_exceptions() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "
try: tools.echo()
except vivarium.ToolCallError as error: found = type(error).__name__, error.message, error.data";
    let mut events = start(&session, code);
    let call = events.expect("call");
    let error = json!({"error": {"message": "no such row", "data": {"row": 7}}});
    assert_eq!(answer(&session, &call, &error).status, 204);
    assert_eq!(events.expect("call_ended").data["outcome"], "error");
    assert_eq!(events.expect("done").data["status"], "ok");
    assert_eq!(session.value("found"), "('ToolError', 'no such row', {'row': 7})");
    daemon.stop_and_check();
}

#[test]
fn tools_of_a_session_are_those_of_all_its_executions() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&json!({"tools": tools(), "tools_as_globals": true}));
    let own = json!([{"name": "echo", "parameters": {"required": ["own"]}}, {"name": "more"}]);
    let request = json!({"code": "echo(own=1), more(), add(2)", "tools": own});
    let (done, calls) = echo_all(&session, &mut start_with(&session, &request));
    assert_eq!((&done["status"], calls), (&json!("ok"), 3));
    let request = json!({"code": "echo(), add(2)"});
    let (done, calls) = echo_all(&session, &mut start_with(&session, &request));
    assert_eq!((&done["status"], calls), (&json!("ok"), 2));
    assert_eq!(session.execute("more()").exception(), "vivarium.UnknownTool");
    // And of a run.
    let request = json!({"code": "echo(n=1)", "tools": tools(), "tools_as_globals": true});
    let mut events = vivarium_tests::events::Events::open(
        &daemon.unix(),
        "POST",
        "/v1/run",
        &[],
        Some(&request),
    );
    let call = until(&mut events, "call");
    let at = |name: &str| call.data[name].as_str().unwrap();
    let path = format!(
        "/v1/sessions/{}/executions/{}/calls/{}",
        at("session_id"),
        at("execution_id"),
        at("call_id")
    );
    let answered = daemon.request("POST", &path, Some(&json!({"result": 1})));
    assert_eq!(answered.status, 204);
    assert_eq!(until(&mut events, "done").data["status"], "ok");
    daemon.stop_and_check();
}

#[test]
fn an_answer_is_taken_once() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut events = start(&session, "tools.echo(n=1), tools.echo(n=2)");
    let call = events.expect("call");
    let right = json!({"result": 1});
    assert_eq!(answer(&session, &call, &right).status, 204);
    assert_eq!(answer(&session, &call, &right).status, 204);
    answer(&session, &call, &json!({"result": 2})).expect_problem(409, "call_answered");
    answer_at(&session, "1", "77", &right).expect_problem(404, "unknown_call");
    answer_at(&session, "1", "x", &right).expect_problem(404, "unknown_call");
    answer_at(&session, "9", "1", &right).expect_problem(404, "unknown_execution");
    let second = until(&mut events, "call");
    result(&session, &second, &json!(2));
    assert_eq!(until(&mut events, "done").data["status"], "ok");
    assert_eq!(session.value("_"), "(1, 2)");
    // An answer whose confirmation was lost is taken after the end, too.
    assert_eq!(answer(&session, &call, &right).status, 204);
    for bad in [json!({}), json!({"result": 1, "error": {"message": "x"}})] {
        answer(&session, &call, &bad).expect_problem(422, "invalid_field");
    }
    // Code without tools has no calls.
    assert_eq!(session.execute("1").status(), "ok");
    answer_at(&session, "3", "1", &right).expect_problem(404, "unknown_call");
    daemon.stop_and_check();
}

#[test]
fn calls_are_followed_from_another_connection() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut events = start(&session, "tools.echo(n=1)");
    let call = events.expect("call");
    drop(events);
    let mut again = session.follow("1", None);
    again.expect("started");
    assert_eq!(again.expect("call").data, call.data);
    result(&session, &call, &json!("late"));
    assert_eq!(until(&mut again, "result").data["repr"], "'late'");
    daemon.stop_and_check();
}
