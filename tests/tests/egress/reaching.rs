//! What is listed is reached by programs as they are, and nothing else is.

use serde_json::json;
use vivarium_tests::{Daemon, Session};

use crate::played::Gate;
use crate::{get, setup, trusted};

const LIST: &str = "allow = [\"files.example\", \"*.below.example:8080\"]";

fn daemon(gate: &Gate) -> Daemon {
    setup(gate, LIST).start()
}

#[track_caller]
fn printed(session: &Session<'_>, code: &str) -> String {
    session.execute(code).ok().stdout().to_owned()
}

#[test]
fn listed_names_are_reached_and_others_refused_with_the_reason() {
    let gate = Gate::start();
    let daemon = daemon(&gate);
    let session = daemon.session_with(&trusted());
    assert_eq!(session.info()["network"], "trusted");
    assert_eq!(session.info()["egress_allow"], json!(["files.example", "*.below.example:8080"]));
    for (url, said) in [
        ("http://files.example/a", "200 reached files.example:80\n"),
        ("http://x.below.example:8080/", "200 reached x.below.example:8080\n"),
        ("http://below.example:8080/", "403 egress refused: below.example:8080 is not listed\n"),
        ("http://other.example/", "403 egress refused: other.example:80 is not listed\n"),
        ("http://files.example:81/", "403 egress refused: files.example:81 is not listed\n"),
    ] {
        assert_eq!(printed(&session, &get(url)), said, "{url}");
    }
    // TLS goes by CONNECT, which is refused before a name is looked up.
    let tls = "import urllib.request\n\
               try: urllib.request.urlopen(\"https://other.example/\", timeout=30)\n\
               except OSError as e: print(e)";
    assert!(printed(&session, tls).contains("403"), "{}", printed(&session, tls));
    let curl = session.command(&json!({
        "argv": ["/bin/sh", "-c", "command -v curl >/dev/null || exit 77; curl -sS http://files.example/"],
    }));
    assert!(curl.0["exit_code"] == 77 || curl.stdout() == "reached files.example:80", "{curl}");
    let usage = session.info()["usage"].clone();
    assert!(usage["egress_in_bytes"].as_u64() > Some(20), "{usage}");
    assert!(usage["egress_out_bytes"].as_u64() > Some(50), "{usage}");
    let metric = r#"vivarium_egress_decisions_total{outcome="allowed",tenant="default"}"#;
    assert!(daemon.metric(metric) >= Some(2), "{:?}", daemon.metric(metric));
    daemon.stop_and_check();
}

#[test]
fn way_out_stays_when_the_kernel_is_replaced_and_is_every_contexts() {
    let gate = Gate::start();
    let daemon = daemon(&gate);
    let session = daemon.session_with(&trusted());
    let code = get("http://files.example/");
    assert!(printed(&session, &code).starts_with("200"));
    let _reset = session.request("POST", "/reset", Some(&json!({}))).expect_success();
    assert!(printed(&session, &code).starts_with("200"));
    let context = json!({"id": "beside"});
    let _made = session.request("POST", "/contexts", Some(&context)).expect_success();
    let beside = session.execute_with(&json!({"code": code, "context": "beside"})).ok();
    assert!(beside.stdout().starts_with("200"), "{beside}");
    assert_eq!(gate.sessions().len(), 1);
    let _gone = session.request("DELETE", "", None);
    gate.until_serving(0);
}

#[test]
fn request_names_less_than_the_operator_and_never_more() {
    let gate = Gate::start();
    let daemon = daemon(&gate);
    let spec = json!({"network": "trusted", "egress_allow": ["a.below.example:8080"]});
    let session = daemon.session_with(&spec);
    assert!(printed(&session, &get("http://a.below.example:8080/")).starts_with("200"));
    assert!(printed(&session, &get("http://b.below.example:8080/")).starts_with("403"));
    assert!(printed(&session, &get("http://files.example/")).starts_with("403"));
    for wider in ["*.example", "files.example:22", "other.example", "below.example:8080", "*"] {
        let spec = json!({"network": "trusted", "egress_allow": [wider]});
        let refused = daemon.request("POST", "/v1/sessions", Some(&spec));
        let problem = refused.expect_problem(422, "invalid_field");
        assert_eq!(problem["field"], "egress_allow", "{wider}");
    }
    let spec = json!({"network": "loopback", "egress_allow": ["files.example"]});
    let refused = daemon.request("POST", "/v1/sessions", Some(&spec));
    assert_eq!(refused.expect_problem(422, "invalid_field")["field"], "egress_allow");
    let none = daemon.session_with(&json!({"network": "trusted", "egress_allow": []}));
    assert!(printed(&none, &get("http://files.example/")).starts_with("403"));
}
