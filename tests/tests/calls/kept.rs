//! Calls of sessions that are suspended and resumed.

use serde_json::json;
use vivarium_tests::Setup;
use vivarium_tests::start_mode::StartMode;

use super::{IMPORT, echo_all, result, start, start_with, tools, until};

#[test]
fn a_session_that_has_called_can_be_suspended_and_has_its_tools_afterwards() {
    let setup = Setup::with_start_mode(StartMode::Forked);
    let daemon = setup.config("environments.default", "images = true").start();
    let session = daemon.session_with(&json!({"tools": tools()}));
    let code = format!("{IMPORT}x = tools.echo(n=1), await tools.aio.echo(n=2)");
    let (done, _) = echo_all(&session, &mut start_with(&session, &json!({"code": code})));
    assert_eq!(done["status"], "ok");
    // No pipe of it is left.
    let answer = session.request("GET", "/imageable", None).expect_success();
    assert_eq!(answer, json!({"imageable": true, "reasons": []}));
    // While it waits, it is busy as with any code.
    let mut events = start(&session, "tools.echo(n=3)");
    let call = events.expect("call");
    session.request("POST", "/suspend", None).expect_problem(409, "busy");
    result(&session, &call, &json!(3));
    assert_eq!(until(&mut events, "done").data["status"], "ok");
    assert_eq!(session.request("POST", "/suspend", None).expect_success()["state"], "suspended");
    let request = json!({"code": "x, tools.echo(n=4), await tools.aio.echo(n=5)"});
    let (done, calls) = echo_all(&session, &mut start_with(&session, &request));
    assert_eq!((&done["status"], calls), (&json!("ok"), 2));
    assert_eq!(session.value("_"), "(({'n': 1}, {'n': 2}), {'n': 4}, {'n': 5})");
    daemon.stop_and_check();
}
