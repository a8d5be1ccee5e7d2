//! Each act of an administrator: what it does, to whom, and that the audit log has it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};
use vivarium_tests::http::Client;
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Setup, program, wait};

use super::{admin, admin_json};

/// A new token with its lines for the configuration, as the command prints them.
pub(super) fn made(more: &[&str]) -> (Token, String) {
    let arguments = [&["admin", "token", "new", "--json"], more].concat();
    let made = program::run(&arguments).expect_code(0).stdout();
    let made: Value = serde_json::from_str(&made).unwrap();
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    (Token { text: text("token"), hash: text("hash") }, text("entry"))
}

/// Ends the load when it goes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn lines(at: &std::path::Path, event: &str) -> Vec<Value> {
    let arguments = ["audit", "export", "--event", event, "--dir", at.to_str().unwrap()];
    serde_json::from_str(&program::run(&arguments).expect_code(0).stdout()).unwrap()
}

#[test]
fn work_is_paused_billed_and_drained_under_load_and_all_of_it_is_audited() {
    let place = program::temp_dir();
    fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    let log = place.path().join("audit");
    let (one, other) = (Token::new(), Token::new());
    let (chief, chief_entry) = made(&["--scopes", "admin", "--name", "chief"]);
    let (late, late_entry) = made(&["--scopes", "admin", "--expires", "2020-01-01T00:00:00Z"]);
    let (reader, reader_entry) = made(&["--scopes", "read", "--expires", "90d"]);
    let tokens = format!("{chief_entry}{late_entry}{reader_entry}");
    let tenants = two(&entry("one", &one, &tokens), &entry("other", &other, ""));
    let mut daemon = Setup::default()
        .config("audit", &format!("dir = {:?}", log.to_str().unwrap()))
        .config("[tenant]", &tenants)
        .start();
    let at = daemon.unix();

    // Who may not: an expired token, one of another scope, and root through a proxy.
    let path = "/v1/admin/status";
    drop(late.ask(&at, "GET", path, None).expect_problem(401, "token_expired"));
    for token in [&one, &reader] {
        drop(token.ask(&at, "GET", path, None).expect_problem(403, "scope_required"));
    }
    let proxied = Client::connect(&at).send("GET", path, &[("X-Forwarded-For", "192.0.2.1")], None);
    drop(proxied.expect_problem(401, "unauthenticated"));
    drop(chief.ask(&at, "GET", "/v1/sessions", None).expect_problem(403, "scope_required"));
    drop(reader.ask(&at, "GET", "/v1/sessions", None).expect_success());
    // A thread of its own writes it.
    let failed = wait::until("the line", || lines(&log, "auth_failed").into_iter().next());
    assert_eq!(failed["reason"], "expired token", "{failed}");

    for (token, session) in [(&one, "s0"), (&one, "s1"), (&other, "s0")] {
        let spec = json!({ "id": session });
        assert_eq!(token.ask(&at, "POST", "/v1/sessions", Some(&spec)).status, 201);
    }
    let (over, served) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        // Also where an assertion fails.
        let _ends = Ends(&over);
        for number in 0..8 {
            let (at, one, over, served) = (&at, &one, &over, &served);
            scope.spawn(move || {
                let path = format!("/v1/sessions/s{}/execute", number % 2);
                while !over.load(Ordering::Relaxed) {
                    let answer = one.ask(at, "POST", &path, Some(&json!({"code": "1"})));
                    if answer.status == 200 {
                        served.fetch_add(1, Ordering::Relaxed);
                    } else {
                        drop(answer.expect_problem(429, "tenant_paused"));
                    }
                }
            });
        }
        wait::until_true("work", || served.load(Ordering::Relaxed) > 20);
        let said = admin_json(&daemon, &["pause", "--tenant", "one", "--reason", "unpaid"]);
        assert_eq!(said["paused_tenants"]["one"]["reason"], "unpaid");
        let refused = admin(&daemon, &["pause", "--reason", &"x".repeat(201)]);
        assert_ne!(refused.code(), 0);
        let unknown = admin(&daemon, &["pause", "--tenant", "nosuch"]);
        assert_ne!(unknown.code(), 0);
        assert!(unknown.stderr().contains("there is no tenant \"nosuch\""), "{unknown:?}");
        let paused = &admin_json(&daemon, &["status"])["paused_tenants"];
        assert_eq!(paused.as_object().unwrap().keys().collect::<Vec<_>>(), ["one"]);
        // From the answer on nothing new is taken, of this tenant.
        for _ in 0..50 {
            let path = "/v1/sessions/s0/execute";
            let refused = one.ask(&at, "POST", path, Some(&json!({"code": "1"})));
            assert_eq!(refused.expect_problem(429, "tenant_paused")["code"], "tenant_paused");
        }
        assert_eq!(other.execute(&at, "s0", "1")["status"], "ok");
        drop(one.ask(&at, "GET", "/v1/sessions/s0", None).expect_success());
        let before = served.load(Ordering::Relaxed);
        drop(admin(&daemon, &["resume", "--tenant", "one"]).expect_code(0));
        wait::until_true("work again", || served.load(Ordering::Relaxed) > before + 20);
    });

    // With a token as by the socket; JSON and CSV say the same.
    let ran = served.load(Ordering::Relaxed);
    let report = chief.ask(&at, "GET", "/v1/admin/usage?period=total", None).expect_success();
    let rows: Vec<_> = report["rows"].as_array().unwrap().iter().collect();
    let of = |rows: &[&Value], name: &str| {
        rows.iter().find(|row| row["tenant"] == name).map(|row| row["executions"].clone())
    };
    assert_eq!(of(&rows, "one"), Some(json!(ran)));
    assert_eq!(of(&rows, "other"), Some(json!(1)));
    let csv = admin(&daemon, &["usage", "--period", "total", "--csv"]).expect_code(0).stdout();
    let mut records = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = records.next().unwrap();
    let column = |name: &str| heading.iter().position(|it| *it == name).unwrap();
    let told: Vec<_> = records
        .map(|it| (it[column("tenant")].to_owned(), it[column("executions")].to_owned()))
        .collect();
    assert_eq!(told, [("one".to_owned(), ran.to_string()), ("other".to_owned(), "1".to_owned())]);
    let tenants = admin_json(&daemon, &["tenants"]);
    assert_eq!(tenants["tenants"][0]["sessions"], 2, "{tenants}");
    assert!(admin(&daemon, &["tenants"]).expect_code(0).stdout().contains("chief"));
    assert_eq!(admin_json(&daemon, &["status"])["tenants"], 2);

    // All at once, and then for good.
    drop(admin(&daemon, &["pause"]).expect_code(0));
    drop(other.ask(&at, "POST", "/v1/sessions", Some(&json!({}))).expect_problem(503, "paused"));
    drop(admin(&daemon, &["resume"]).expect_code(0));
    assert_eq!(admin_json(&daemon, &["drain"])["exit"], false);
    let refused = other.ask(&at, "POST", "/v1/sessions", Some(&json!({})));
    let refused = refused.expect_problem(503, "draining");
    assert!(refused["detail"].as_str().unwrap().contains("is draining"), "{refused}");
    let resumed = admin(&daemon, &["resume"]).expect_code(0).stdout();
    assert!(resumed.contains("but the daemon is draining"), "{resumed}");
    wait::until_true("no session", || admin_json(&daemon, &["status"])["sessions"] == json!({}));
    drop(admin(&daemon, &["drain", "--exit"]).expect_code(0));
    assert!(daemon.wait().success());

    let acts: Vec<_> = lines(&log, "admin")
        .iter()
        .map(|line| (line["action"].clone(), line["target"].clone(), line["result"] == "ok"))
        .collect();
    let act = |action: &str, target: &str, is_ok| (json!(action), json!(target), is_ok);
    let expected = [
        act("pause", "one", true),
        act("pause", "all tenants", false),
        act("pause", "nosuch", false),
        act("resume", "one", true),
        act("pause", "all tenants", true),
        act("resume", "all tenants", true),
        act("drain", "all tenants", true),
        act("resume", "all tenants", true),
        act("drain", "all tenants", true),
    ];
    assert_eq!(acts, expected);
    assert_eq!(lines(&log, "daemon_stopped").len(), 1);
}
