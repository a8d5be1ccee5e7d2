//! Who may see and decide what waits.

use std::fs;

use serde_json::{Value, json};
use vivarium_tests::http::Client;
use vivarium_tests::tenants::{RELOADED, Token, entry, reload};
use vivarium_tests::{Setup, program};

use super::{allow, approval, ask, daemon, decide, done, make};

const ALLOW: &str = r#"{"decision": "allow"}"#;

#[test]
fn who_runs_code_can_not_allow_it_and_nobody_decides_for_another_tenant() {
    let (one, approver, stranger, admin) = (Token::new(), Token::new(), Token::new(), Token::new());
    let token = |token: &Token, name: &str, scopes: &str| {
        format!("[[tenant.token]]\nhash = {:?}\nname = {name:?}\nscopes = [{scopes}]\n", token.hash)
    };
    let asks = "[tenant.approval]\nexecutions = \"ask\"\n";
    let own = format!("{asks}{}", token(&approver, "boss", "\"approve\""));
    let others = format!(
        "{}{}",
        token(&stranger, "stranger", "\"approve\", \"run\""),
        token(&admin, "root", "\"admin\"")
    );
    let tenants = format!(
        "{}[[tenant]]\n{}",
        entry("one", &one, &own),
        entry("other", &Token::new(), &others)
    );
    let daemon = Setup::default().config("[tenant]", &tenants).start();
    let at = daemon.unix();
    make(&at, &one, "a");
    let (mut events, id) = ask(&at, &one, "a", &json!({"code": "1"}));
    let path = format!("/v1/approvals/{id}");
    let body: Value = serde_json::from_str(ALLOW).unwrap();

    // Its own call it sees, and does not decide.
    let seen = one.ask(&at, "GET", "/v1/approvals", None).expect_success();
    assert_eq!(seen["approvals"][0]["id"], id.as_str());
    assert_eq!(seen["approvals"][0]["execution"]["code"], Value::Null, "not in lists");
    let refused = one.ask(&at, "POST", &path, Some(&body));
    assert_eq!(refused.expect_problem(403, "scope_required")["scope"], "approve");
    // Another tenant's token finds nothing, whatever it may at home.
    for (method, body) in [("GET", None), ("POST", Some(&body))] {
        let unknown = stranger.ask(&at, method, &path, body);
        unknown.expect_problem(404, "unknown_approval");
    }
    assert_eq!(
        stranger.ask(&at, "GET", "/v1/approvals", None).expect_success()["approvals"],
        json!([])
    );
    // No token at all, over TCP, and a made-up one.
    let tcp = daemon.tcp();
    Client::connect(&tcp).json("POST", &path, Some(&body)).expect_problem(401, "unauthenticated");
    Token::new().ask(&at, "POST", &path, Some(&body)).expect_problem(401, "unauthenticated");
    // Nonsense decides nothing.
    for (nonsense, code) in [
        (json!({}), 422),
        (json!({"decision": "maybe"}), 422),
        (json!({"decision": "allow", "for": "ever"}), 422),
        (json!({"decision": "allow", "reason": "x".repeat(201)}), 422),
    ] {
        assert_eq!(approver.ask(&at, "POST", &path, Some(&nonsense)).status, code, "{nonsense}");
    }
    // An approver runs nothing.
    let run = approver.ask(&at, "POST", "/v1/run", Some(&json!({"code": "1"})));
    assert_eq!(run.expect_problem(403, "scope_required")["scope"], "run");
    assert_eq!(approval(&at, &id)["state"], "pending");

    let decided = approver.ask(&at, "POST", &path, Some(&body)).expect_success();
    assert_eq!(decided["by"], "token boss of one");
    assert_eq!(done(&mut events)["status"], "ok");
    approver.ask(&at, "POST", &path, Some(&body)).expect_problem(409, "approval_ended");

    // An administrator sees all, and a tenant does not learn which one.
    let (mut events, id) = ask(&at, &one, "a", &json!({"code": "2"}));
    let path = format!("/v1/approvals/{id}");
    assert_eq!(admin.ask(&at, "GET", &path, None).expect_success()["execution"]["code"], "2");
    let decided = admin.ask(&at, "POST", &path, Some(&body)).expect_success();
    assert_eq!(decided["by"], "token root of other");
    assert_eq!(one.ask(&at, "GET", &path, None).expect_success()["by"], "administrator");
    assert_eq!(done(&mut events)["status"], "ok");
    daemon.stop_and_check();
}

#[test]
fn without_tenants_only_an_administrator_decides() {
    let daemon = Setup::default().config("approval", "executions = \"ask\"").start();
    let (tcp, at) = (daemon.tcp(), daemon.unix());
    let body = json!({"code": "1"});
    let mut events =
        vivarium_tests::events::Events::open(&tcp, "POST", "/v1/run", &[], Some(&body));
    let id = events.expect("awaiting_approval").data["approval_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/approvals/{id}");
    let list = Client::connect(&tcp).json("GET", "/v1/approvals", None).expect_success();
    assert_eq!(list["approvals"][0]["id"], id.as_str());
    let decision = json!({"decision": "allow"});
    let refused = Client::connect(&tcp).json("POST", &path, Some(&decision));
    refused.expect_problem(401, "unauthenticated");
    allow(&at, &id);
    assert_eq!(done(&mut events)["status"], "ok");
    daemon.stop_and_check();
}

#[test]
fn reloads_decide_what_waits_and_a_rule_that_denies_makes_nothing() {
    let (daemon, one, _) = daemon("");
    let at = daemon.unix();
    make(&at, &one, "a");
    let (mut events, _) = ask(&at, &one, "a", &json!({"code": "1"}));
    let config = fs::read_to_string(daemon.dir().join("vivarium.toml")).unwrap();
    reload(&daemon, &config.replace("\"ask\"", "\"deny\""), RELOADED);
    assert_eq!(done(&mut events)["cause"], "approval_denied");
    for (path, body) in [
        ("/v1/sessions/a/execute", json!({"code": "1"})),
        ("/v1/sessions/a/commands", json!({"argv": ["true"]})),
        ("/v1/run", json!({"code": "1"})),
    ] {
        one.ask(&at, "POST", path, Some(&body)).expect_problem(403, "executions_denied");
    }
    reload(&daemon, &config.replace("\"ask\"", "\"allow\""), RELOADED);
    assert_eq!(one.execute(&at, "a", "6 * 7")["result"]["repr"], "42");
    daemon.stop_and_check();
}

#[test]
fn every_decision_is_audited_with_who_made_it() {
    let temp = program::temp_dir();
    let log = temp.path().join("audit");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(temp.path(), mode).unwrap();
    let (setup, one, _) = super::setup("remember = \"session\"");
    let daemon = setup.config("audit", &format!("dir = {:?}", log.to_str().unwrap())).start();
    let at = daemon.unix();
    make(&at, &one, "a");
    let (mut events, allowed) = ask(&at, &one, "a", &json!({"code": "'s3cret'"}));
    allow(&at, &allowed);
    assert_eq!(done(&mut events)["status"], "ok");
    one.execute(&at, "a", "'s3cret'");
    let (mut events, denied) = ask(&at, &one, "a", &json!({"code": "2"}));
    assert_eq!(decide(&at, &denied, &json!({"decision": "deny", "reason": "no"})).status, 200);
    done(&mut events);
    daemon.stop_and_check();

    let exported = program::run(&["audit", "export", "--dir", log.to_str().unwrap()]);
    let lines: Value = serde_json::from_str(&exported.expect_code(0).stdout()).unwrap();
    let lines = lines.as_array().unwrap();
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    let (asked, ended) = (of("approval_asked"), of("approval_ended"));
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!((&asked[0]["approval"], &asked[0]["execution"]), (&json!(allowed), &json!(1)));
    let outcomes: Vec<_> = ended
        .iter()
        .map(|line| (line["outcome"].as_str().unwrap(), line["approval"].as_str().unwrap()))
        .collect();
    let wanted = [("allowed", &*allowed), ("remembered", &*allowed), ("denied", &*denied)];
    assert_eq!(outcomes, wanted);
    assert!(ended[0]["by"].as_str().unwrap().starts_with("uid "), "{}", ended[0]);
    assert_eq!(ended[2]["reason"], "no");
    let hash = &of("execution_ended")[0]["code_sha256"];
    assert_eq!(&ended[0]["code_sha256"], hash);
    assert!(!lines.iter().any(|line| line.to_string().contains("s3cret")));
}
