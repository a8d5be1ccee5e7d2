//! Rounds, for clients that only send requests.

use serde_json::{Value, json};
use vivarium_tests::events::Events;
use vivarium_tests::{Daemon, wait};

use super::{IMPORT, tools};

fn round(code: &str) -> Value {
    json!({"code": format!("{IMPORT}{code}"), "tools": tools(), "wait_for_calls": true})
}

#[test]
fn code_goes_on_round_by_round() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let request = round("print('begin')\nn = tools.add(1)\nn = tools.add(n)\nn");
    let mut reply = session.request("POST", "/execute", Some(&request)).expect_success();
    for n in 1..=2 {
        assert_eq!((&reply["status"], &reply["execution_id"]), (&json!("waiting"), &json!("1")));
        let calls = reply["calls"].as_array().unwrap();
        assert_eq!((calls.len(), &calls[0]["arguments"]), (1, &json!({"n": n})));
        let id = calls[0]["call_id"].as_str().unwrap();
        let answers = json!({"answers": {id: {"result": n + 1}}});
        reply = session.request("POST", "/executions/1/continue", Some(&answers)).expect_success();
    }
    assert_eq!((&reply["status"], &reply["stdout"]), (&json!("ok"), &json!("begin\n")));
    assert_eq!(reply["result"]["repr"], "3");
    // Once more: it is over.
    let again =
        session.request("POST", "/executions/1/continue", Some(&json!({}))).expect_success();
    assert_eq!(again["result"]["repr"], "3");
    // Code that calls nothing is over in the first round.
    let reply = session.request("POST", "/execute", Some(&round("7"))).expect_success();
    assert_eq!((&reply["status"], &reply["result"]["repr"]), (&json!("ok"), &json!("7")));
    daemon.stop_and_check();
}

#[test]
fn calls_that_are_made_at_once_are_in_one_round() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "import asyncio\n\
                r = await asyncio.gather(*(tools.aio.add(n) for n in range(5)))\nr";
    let path = "/executions/1/continue";
    let mut reply = session.request("POST", "/execute", Some(&round(code))).expect_success();
    // On a busy host more time may pass between two calls than a round waits for another.
    wait::until_true("all of its calls", || {
        let has_all = reply["calls"].as_array().unwrap().len() == 5;
        if !has_all {
            reply = session.request("POST", path, Some(&json!({}))).expect_success();
        }
        has_all
    });
    let calls = reply["calls"].as_array().unwrap();
    // Those that are not answered wait on.
    let of = |calls: &[Value]| -> Value {
        let answer = |call: &Value| {
            let result = json!({"result": call["arguments"]["n"]});
            (call["call_id"].as_str().unwrap().to_owned(), result)
        };
        json!({"answers": calls.iter().map(answer).collect::<serde_json::Map<_, _>>()})
    };
    let reply = session.request("POST", path, Some(&of(&calls[..2]))).expect_success();
    assert_eq!(reply["calls"].as_array().unwrap().len(), 3, "{reply}");
    let reply = session.request("POST", path, Some(&of(&calls[2..]))).expect_success();
    assert_eq!(reply["result"]["repr"], "[0, 1, 2, 3, 4]");
    daemon.stop_and_check();
}

#[test]
fn what_goes_with_no_rounds_is_refused() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut request = round("1");
    request["cancel_on_disconnect"] = json!(true);
    let refused = session.request("POST", "/execute", Some(&request));
    assert_eq!(refused.expect_problem(422, "invalid_field")["field"], "cancel_on_disconnect");
    let (at, path) = (daemon.unix(), session.path("/execute"));
    let events = Events::open(&at, "POST", &path, &[], Some(&round("1")));
    assert_eq!(events.head.expect_problem(422, "invalid_field")["field"], "wait_for_calls");
    // An answer to a call that there is not answers nothing.
    let reply = session.request("POST", "/execute", Some(&round("tools.add(1)"))).expect_success();
    assert_eq!(reply["status"], "waiting");
    let path = "/executions/1/continue";
    // Nor do those beside it.
    let wrong = json!({"answers": {"1": {"result": 3}, "9": {"result": 1}}});
    session.request("POST", path, Some(&wrong)).expect_problem(404, "unknown_call");
    let wrong = json!({"answers": {"1": {}}});
    let problem = session.request("POST", path, Some(&wrong)).expect_problem(422, "invalid_field");
    assert_eq!(problem["field"], "answers.1.result");
    let right = json!({"answers": {"1": {"result": 2}}});
    let reply = session.request("POST", path, Some(&right)).expect_success();
    assert_eq!(reply["result"]["repr"], "2", "{reply}");
    daemon.stop_and_check();
}
