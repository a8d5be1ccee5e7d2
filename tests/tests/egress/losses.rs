//! A gate that is not there, or goes.

use serde_json::json;

use crate::played::Gate;
use crate::{get, setup, trusted};

const LIST: &str = "allow = [\"files.example\"]";

#[test]
fn without_a_gate_only_sessions_that_need_one_are_refused() {
    let mut gate = Gate::absent();
    std::fs::remove_file(gate.path()).unwrap();
    let daemon = setup(&gate, LIST).start();
    let refused = daemon.request("POST", "/v1/sessions", Some(&trusted()));
    let problem = refused.expect_problem(503, "egress_unavailable");
    assert!(refused.header("Retry-After").is_some(), "{problem}");
    let body = json!({"code": "1", "session": {"network": "trusted"}});
    let _refused = daemon.request("POST", "/v1/run", Some(&body));
    assert_eq!(daemon.session().value("1 + 1"), "2");
    gate.go();
    daemon.stop_and_check();
}

#[test]
fn sessions_go_on_with_the_next_gate_and_others_never_notice() {
    let mut gate = Gate::start();
    let daemon = setup(&gate, LIST).start();
    let session = daemon.session_with(&trusted());
    let beside = daemon.session();
    let code = get("http://files.example/");
    let _kept = session.execute("kept = 5").ok();
    assert!(session.execute(&code).ok().stdout().starts_with("200"));
    gate.go();
    daemon.until_logged("the egress gate is lost");
    assert_eq!(beside.value("1 + 1"), "2");
    assert_eq!(session.value("kept"), "5");
    // Whoever connects meanwhile waits for the next.
    gate.come();
    assert!(session.execute(&code).ok().stdout().starts_with("200"));
    gate.until_serving(1);
    assert_eq!(session.value("kept"), "5");
    daemon.stop_and_check();
}
