//! Each tenant has a list of its own, and a reload reaches sessions that run.

use std::fs;

use serde_json::json;
use vivarium_tests::tenants::{RELOADED, Token, entry, reload, two};
use vivarium_tests::wait;

use crate::played::Gate;
use crate::{get, setup};

#[test]
fn lists_are_of_their_tenants_and_follow_the_configuration() {
    let gate = Gate::start();
    let (ann, bob) = (Token::new(), Token::new());
    let entries =
        two(&entry("ann", &ann, "egress_allow = [\"ann.example\"]"), &entry("bob", &bob, ""));
    let daemon = setup(&gate, "allow = [\"all.example\"]").config("[tenant]", &entries).start();
    let spec = json!({"id": "same", "network": "trusted"});
    for token in [&ann, &bob] {
        let _made = token.ask(&daemon.tcp(), "POST", "/v1/sessions", Some(&spec)).expect_success();
    }
    let said = |token: &Token, host: &str| {
        let code = get(&format!("http://{host}/"));
        let done = token.execute(&daemon.tcp(), "same", &code);
        done["stdout"].as_str().unwrap()[..3].to_owned()
    };
    for (token, host, expected) in [
        (&ann, "ann.example", "200"),
        (&ann, "all.example", "403"),
        (&bob, "all.example", "200"),
        (&bob, "ann.example", "403"),
    ] {
        assert_eq!(said(token, host), expected, "{host}");
    }
    let tenants: Vec<_> = gate.sessions().into_iter().map(|opened| opened.tenant).collect();
    assert_eq!(tenants, ["ann", "bob"]);

    let path = daemon.dir().join("vivarium.toml");
    let text = fs::read_to_string(&path).unwrap();
    reload(&daemon, &text.replace("ann.example", "new.example"), RELOADED);
    wait::until_true("the new list", || said(&ann, "new.example") == "200");
    assert_eq!(said(&ann, "ann.example"), "403");
    assert_eq!(said(&bob, "all.example"), "200");
}

#[test]
fn rule_by_method_where_requests_are_not_seen_is_refused_at_start() {
    let gate = Gate::start();
    let refused = setup(&gate, "allow = [\"GET files.example\"]").try_start().unwrap_err();
    assert!(
        refused.1.contains("egress.allow") && refused.1.contains("within TLS"),
        "{}",
        refused.1
    );
    let daemon = setup(&gate, "allow = [\"GET files.example:80\"]").start();
    let session = daemon.session_with(&json!({"network": "trusted"}));
    assert!(session.execute(&get("http://files.example/")).ok().stdout().starts_with("200"));
}
