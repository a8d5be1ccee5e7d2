//! A host without memory for more sessions: as told by a reserve that no host has.

use serde_json::json;
use vivarium_tests::{Daemon, Setup, wait};

/// More than any host has, in MiB.
const ALL: &str = "memory_reserve_mb = 1000000000";

fn has_line(daemon: &Daemon, line: &str) -> bool {
    let text = String::from_utf8(daemon.request("GET", "/metrics", None).body).unwrap();
    text.lines().any(|found| found == line)
}

#[test]
fn new_sessions_are_refused_those_there_are_go_on_and_then_there_is_room_again() {
    let usual = "memory_reserve_mb = 1";
    let daemon = Setup::default().config("session", usual).start();
    let session = daemon.session_with(&json!({"id": "there"}));
    let _set = session.execute("x = 41").ok();
    daemon.reload_with(usual, ALL);
    let code = json!({"code": "1"});
    for (path, body) in [
        ("/v1/sessions", json!({"id": "new"})),
        ("/v1/sessions/new/execute?create=true", code.clone()),
        ("/v1/run", code),
    ] {
        let refused = daemon.request("POST", path, Some(&body));
        let problem = refused.expect_problem(503, "no_capacity");
        let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!(after > 0, "{path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("available 0 MiB") && detail.contains("needed"), "{detail}");
    }
    assert_eq!(session.value("x + 1"), "42");
    session.reset();
    assert_eq!(session.value("1 + 1"), "2");
    let host = daemon.request("GET", "/v1/host", None).expect_success();
    let memory = &host["capacity"]["memory"];
    assert_eq!(memory["available_bytes"], 0);
    assert!(memory["session_estimate_bytes"].as_u64().unwrap() >= 1 << 20);
    let refusals = r#"vivarium_refusals_total{reason="no_capacity",tenant="default"} 3"#;
    assert!(has_line(&daemon, refusals));
    assert!(has_line(&daemon, r#"vivarium_creates_refused{environment="default"} 1"#));
    daemon.reload_with(ALL, usual);
    assert_eq!(daemon.session().value("1 + 1"), "2");
    assert!(has_line(&daemon, r#"vivarium_creates_refused{environment="default"} 0"#));
    daemon.stop_and_check();
}

#[test]
fn pools_give_up_what_they_have_ready() {
    let usual = "memory_reserve_mb = 1";
    let setup = Setup::default().config("environments.default", "pool_size = 6");
    let daemon = setup.config("session", usual).start();
    let pool = |key: &str| {
        let host = daemon.request("GET", "/v1/host", None).expect_success();
        host["environments"][0]["pool"][key].as_u64().unwrap()
    };
    wait::until_true("sessions in the pool", || pool("ready") == 6);
    let waiting = daemon.descendants();
    daemon.reload_with(usual, ALL);
    wait::until_true("the pool's end", || pool("ready") == 0);
    assert!(has_line(&daemon, r#"vivarium_pool_given_up_total{environment="default"} 6"#));
    assert!(has_line(&daemon, r#"vivarium_pool_paused{reason="memory_pressure"} 1"#));
    wait::until_true("the end of their kernels", || {
        let alive = waiting.iter().filter(|process| process.is_alive());
        // The template may stay.
        alive.filter(|process| process.name.starts_with("python")).count() <= 1
    });
    daemon.request("POST", "/v1/sessions", None).expect_problem(503, "no_capacity");
    daemon.reload_with(ALL, usual);
    wait::until_true("sessions in the pool again", || pool("ready") == 6);
    daemon.stop_and_check();
}

#[test]
fn what_sessions_take_is_learnt() {
    let daemon = Setup::default().start();
    let session = daemon.session();
    let estimate = || {
        let host = daemon.request("GET", "/v1/host", None).expect_success();
        host["capacity"]["memory"]["session_estimate_bytes"].as_u64().unwrap()
    };
    let fill = "x = bytearray(100 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1";
    let _filled = session.execute(fill).ok();
    wait::until_true("an estimate of what it takes", || estimate() > 50 << 20);
    daemon.stop_and_check();
}

#[test]
fn without_descriptors_new_sessions_are_refused_for_now_and_those_there_are_go_on() {
    let daemon = Setup::default().open_files(64).start();
    let first = daemon.session_with(&json!({"id": "first"}));
    let _set = first.execute("x = 41").ok();
    // A connection of its own, before there are no descriptors for one.
    let mut client = vivarium_tests::http::Client::connect(&daemon.unix());
    let mut made = Vec::new();
    let mut refusals = 0;
    loop {
        let answer = client.json("POST", "/v1/sessions", Some(&json!({})));
        if answer.status == 201 {
            made.push(answer.expect_success()["id"].as_str().unwrap().to_owned());
            assert!(made.len() < 64, "each takes one at least");
            continue;
        }
        answer.expect_problem(503, "no_descriptors");
        assert!(answer.header("retry-after").is_some());
        refusals += 1;
        let run = client.json("POST", "/v1/run", Some(&json!({"code": "1"})));
        // It may have what was prepared meanwhile.
        if run.status != 200 {
            run.expect_problem(503, "no_descriptors");
            refusals += 1;
            break;
        }
    }
    let code = json!({"code": "x + 1"});
    let outcome = client.json("POST", "/v1/sessions/first/execute", Some(&code)).expect_success();
    assert_eq!(outcome["result"]["repr"], "42");
    assert!(!made.is_empty());
    for id in made {
        let path = format!("/v1/sessions/{id}");
        assert_eq!(client.json("DELETE", &path, None).status, 204);
    }
    assert_eq!(client.json("POST", "/v1/sessions", Some(&json!({}))).status, 201);
    let line = "vivarium_refusals_total{reason=\"no_descriptors\",tenant=\"default\"}";
    assert!(has_line(&daemon, &format!("{line} {refusals}")));
    daemon.stop_and_check();
}
