//! A day of an operator's: a token is replaced while its work goes on, and the daemon drained while calls
//! run, wait for their turn, and wait for somebody.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vivarium_tests::events::Events;
use vivarium_tests::http::Endpoint;
use vivarium_tests::tenants::{RELOADED, Token, entry, reload};
use vivarium_tests::{Setup, wait};

use super::acts::made;
use super::{admin, admin_json};

/// How long the old token works beside the new one, at least: 2 s, but ends are whole seconds.
const OVERLAP: Duration = Duration::from_millis(1500);

fn token(token: &Token, name: &str, scope: &str, more: &str) -> String {
    let Token { hash, .. } = token;
    format!("[[tenant.token]]\nhash = {hash:?}\nname = {name:?}\nscopes = [{scope:?}]\n{more}\n")
}

fn begin(at: &Endpoint, token: &Token, body: &Value) -> Events {
    let authorization = format!("Bearer {}", token.text);
    let headers = [("Authorization", authorization.as_str())];
    Events::open(at, "POST", "/v1/sessions/s/execute", &headers, Some(body))
}

/// Code that runs until there is a file.
const UNTIL_FILE: &str =
    "import os, time\nwhile not os.path.exists('first'):\n    time.sleep(0.01)";

fn outcome(events: &mut Events) -> Value {
    events.rest().pop().unwrap().data
}

#[test]
fn tokens_are_replaced_and_work_is_drained_without_losing_any() {
    let [main, chief, old, new, reader] = [(); 5].map(|()| Token::new());
    let of_chief = token(&chief, "chief", "admin", "");
    let of_old = token(&old, "old", "run", "");
    let text = entry("one", &main, &format!("{of_chief}{of_old}"));
    let mut daemon = Setup::default().config("[tenant]", &text).start();
    let at = daemon.unix();
    assert_eq!(old.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "s"}))).status, 201);
    let mut first = begin(&at, &old, &json!({"code": UNTIL_FILE, "timeout_ms": 600_000}));
    first.expect("started");
    let since = Instant::now();
    // As the command writes it.
    let (_, lines) = made(&["--expires", "2s"]);
    let expires = lines.lines().find(|line| line.starts_with("expires")).unwrap();
    let of_old_now = token(&old, "old", "run", expires);
    let of_new = token(&new, "new", "run", "");
    let of_reader = token(&reader, "reader", "read", "");
    let config = fs::read_to_string(daemon.dir().join("vivarium.toml")).unwrap();
    let config = config.replace(&of_old, &format!("{of_old_now}{of_new}{of_reader}"));
    // One with an error changes nothing, and is shown until one succeeds.
    let failed = || admin_json(&daemon, &["status"])["failed_reload"].clone();
    assert_eq!(failed(), Value::Null);
    reload(&daemon, &format!("nosuch_key = 1\n{config}"), "not reloaded");
    let why = failed();
    assert!(why["error"].as_str().unwrap().contains("vivarium.toml:1: "), "{why}");
    assert!(
        why["error"].as_str().unwrap().contains("nosuch_key") && why["at"].is_string(),
        "{why}"
    );
    let shown = admin(&daemon, &["status"]).expect_code(0).stdout();
    assert!(shown.contains("the configuration before it holds") && shown.contains("nosuch_key"));
    assert_eq!(new.ask(&at, "GET", "/v1/sessions/s", None).status, 401);
    reload(&daemon, &config, RELOADED);
    assert_eq!(failed(), Value::Null);
    // Both work, until the old one's time.
    let show = |token: &Token| token.ask(&at, "GET", "/v1/sessions/s", None);
    let (by_old, is_early) = (show(&old), since.elapsed() < OVERLAP);
    assert!(by_old.status == 200 || !is_early);
    assert_eq!((show(&new).status, show(&reader).status), (200, 200));
    for (token, method, path) in [
        (&reader, "POST", "/v1/sessions/s/execute"),
        (&new, "GET", "/v1/admin/status"),
        (&chief, "GET", "/v1/sessions/s"),
    ] {
        let body = (method == "POST").then(|| json!({"code": "1"}));
        drop(token.ask(&at, method, path, body.as_ref()).expect_problem(403, "scope_required"));
    }
    wait::until_true("the old token's end", || show(&old).status != 200);
    assert!(since.elapsed() >= OVERLAP);
    drop(show(&old).expect_problem(401, "token_expired"));
    let execute = json!({"code": "1"});
    let refused = old.ask(&at, "POST", "/v1/sessions/s/execute", Some(&execute));
    drop(refused.expect_problem(401, "token_expired"));
    let listed = admin_json(&daemon, &["tenants"]).to_string();
    assert!(listed.contains("\"new\"") && listed.contains("\"old\""), "{listed}");
    // What was begun with it goes on, and is answered.
    assert_eq!(new.ask(&at, "PUT", "/v1/sessions/s/files/first", Some(&json!(""))).status, 201);
    assert_eq!(outcome(&mut first)["status"], "ok");

    // One runs, one waits for its turn, and one for somebody.
    let until_told = "import time\ntry:\n    print('on', flush=True)\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    pass";
    let mut running = begin(&at, &new, &json!({"code": until_told, "timeout_ms": 600_000}));
    running.expect("started");
    running.expect("stdout");
    let mut waiting = begin(&at, &new, &json!({"code": "print('third')"}));
    let asks = json!({"code": "print('fourth')", "approval": {"executions": "ask"}});
    let mut asking = begin(&at, &new, &asks);
    asking.expect("awaiting_approval");
    wait::until_true("the queue", || admin_json(&daemon, &["status"])["queued"] == 2);
    let drain = chief.ask(&at, "POST", "/v1/admin/drain", Some(&json!({})));
    assert_eq!(drain.status, 202);
    // Nobody is waited for, and nothing new is taken.
    let withdrawn = outcome(&mut asking);
    assert_eq!(
        (&withdrawn["status"], &withdrawn["cause"]),
        (&json!("rejected"), &json!("draining"))
    );
    let refused = new.ask(&at, "POST", "/v1/sessions/s/execute", Some(&execute));
    drop(refused.expect_problem(503, "draining"));
    let status = admin_json(&daemon, &["status"]);
    assert_eq!((&status["draining"], &status["sessions"]), (&json!(true), &json!({"running": 1})));
    assert_eq!(new.ask(&at, "POST", "/v1/sessions/s/interrupt", None).status, 200);
    assert_eq!(outcome(&mut running)["status"], "ok");
    let outcome = waiting.rest();
    assert_eq!(vivarium_tests::events::text(&outcome, "stdout"), "third\n");
    wait::until_true("no session", || admin_json(&daemon, &["status"])["sessions"] == json!({}));
    drop(admin(&daemon, &["drain", "--exit"]).expect_code(0));
    assert!(daemon.wait().success());
}
