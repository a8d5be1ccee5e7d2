//! Who may have tools, and whose calls are whose.

use serde_json::json;
use vivarium_tests::Setup;
use vivarium_tests::events::Events;
use vivarium_tests::tenants::{Token, entry, two};

use super::{tools, until};

#[test]
fn operators_switch_tools_off_by_tenant_and_by_environment() {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(
        &entry("one", &one, "[tenant.session]\ntools = false"),
        &entry("other", &other, "[tenant.session]\nmax_call_timeout = \"2s\""),
    );
    let daemon = Setup::default()
        .config("environments.bare", "tools = false")
        .config("[tenant]", &tenants)
        .start();
    let at = daemon.unix();
    let run = |tools| json!({"code": "1", "tools": tools});
    let refused = one.ask(&at, "POST", "/v1/run", Some(&run(tools())));
    let problem = refused.expect_problem(422, "invalid_field");
    assert_eq!(problem["field"], "tools");
    assert!(problem["detail"].as_str().unwrap().contains("session.tools"), "{problem}");
    let create = json!({"tools": tools()});
    one.ask(&at, "POST", "/v1/sessions", Some(&create)).expect_problem(422, "invalid_field");
    // The control: without tools, and another tenant.
    assert_eq!(one.ask(&at, "POST", "/v1/run", Some(&json!({"code": "1"}))).status, 200);
    assert_eq!(other.ask(&at, "POST", "/v1/run", Some(&run(tools()))).status, 200);
    let slow = json!([{"name": "a", "timeout_ms": 2001}]);
    let problem = other.ask(&at, "POST", "/v1/run", Some(&run(slow)));
    assert_eq!(problem.expect_problem(422, "invalid_field")["field"], "tools[0].timeout_ms");
    // An environment without.
    let mut bare = run(tools());
    bare["environment"] = json!("bare");
    let problem =
        other.ask(&at, "POST", "/v1/run", Some(&bare)).expect_problem(422, "invalid_field");
    assert!(problem["detail"].as_str().unwrap().contains("environments.bare.tools"), "{problem}");
    daemon.stop_and_check();
}

#[test]
fn calls_of_another_tenant_do_not_exist() {
    let (owner, stranger) = (Token::new(), Token::new());
    let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
    let daemon = Setup::default().config("[tenant]", &tenants).start();
    let at = daemon.unix();
    for token in [&owner, &stranger] {
        let made = token.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "same"})));
        assert_eq!(made.status, 201);
    }
    let code = "from vivarium import tools; tools.echo(secret=1)";
    let request = json!({"code": code, "tools": tools()});
    let bearer = format!("Bearer {}", owner.text);
    let headers = [("Authorization", bearer.as_str())];
    let path = "/v1/sessions/same/execute";
    let mut events = Events::open(&at, "POST", path, &headers, Some(&request));
    let call = until(&mut events, "call");
    let of = |rest: &str| format!("/v1/sessions/same/executions/1{rest}");
    let id = call.data["call_id"].as_str().unwrap();
    let result = json!({"result": "theirs"});
    let answer = of(&format!("/calls/{id}"));
    stranger.ask(&at, "GET", &of("/calls"), None).expect_problem(404, "unknown_execution");
    stranger.ask(&at, "POST", &answer, Some(&result)).expect_problem(404, "unknown_execution");
    let answers = json!({"answers": {id: {"result": "theirs"}}});
    let rest = of("/continue");
    stranger.ask(&at, "POST", &rest, Some(&answers)).expect_problem(404, "unknown_execution");
    // Nor do they for an execution of the same number.
    assert_eq!(stranger.execute(&at, "same", "1")["status"], "ok");
    stranger.ask(&at, "POST", &answer, Some(&result)).expect_problem(404, "unknown_call");
    let answered = owner.ask(&at, "POST", &answer, Some(&json!({"result": "mine"})));
    assert_eq!(answered.status, 204);
    assert_eq!(until(&mut events, "result").data["repr"], "'mine'");
    daemon.stop_and_check();
}

#[test]
fn a_token_that_may_only_read_answers_no_call() {
    let (all, reader) = (Token::new(), Token::new());
    let more = format!("[[tenant.token]]\nhash = {:?}\nscopes = [\"read\"]", reader.hash);
    let daemon = Setup::default().config("[tenant]", &entry("one", &all, &more)).start();
    let at = daemon.unix();
    assert_eq!(all.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "a"}))).status, 201);
    assert_eq!(all.execute(&at, "a", "1")["status"], "ok");
    let path = |rest: &str| format!("/v1/sessions/a/executions/1{rest}");
    for rest in ["/calls/1", "/continue"] {
        let refused = reader.ask(&at, "POST", &path(rest), Some(&json!({})));
        refused.expect_problem(403, "scope_required");
    }
    // The control: it may see what waits, as it may follow the events.
    let seen = reader.ask(&at, "GET", &path("/calls"), None).expect_success();
    assert_eq!(seen, json!({"calls": []}));
    daemon.stop_and_check();
}
