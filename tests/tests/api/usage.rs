//! What each tenant uses, for operators.

use serde_json::{Value, json};
use vivarium_tests::Setup;
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::tenants::{Token, entry, two};

fn usage(at: &Endpoint) -> Value {
    Client::connect(at).json("GET", "/metrics/tenants", None).expect_success()
}

#[test]
fn usage_is_by_tenant_counts_ended_sessions_and_shows_no_session() {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(&entry("one", &one, ""), &entry("other", &other, ""));
    let daemon = Setup::default().config("[tenant]", &tenants).start();
    let at = daemon.unix();
    for id in ["secret-a", "secret-b"] {
        let spec = json!({"id": id, "metadata": {"for": "secret"}});
        assert_eq!(one.ask(&at, "POST", "/v1/sessions", Some(&spec)).status, 201);
    }
    let burn = json!({"code": "import time\nwhile time.process_time() < 0.5: pass"});
    let ran = one.ask(&at, "POST", "/v1/sessions/secret-a/execute", Some(&burn));
    assert_eq!(ran.expect_success()["status"], "ok");
    let figures = |tenant: usize| usage(&at)["tenants"][tenant].clone();
    let (busy, idle) = (figures(0), figures(1));
    for (figures, name, sessions) in [(&busy, "one", 2), (&idle, "other", 0)] {
        assert_eq!((&figures["name"], &figures["sessions"]), (&json!(name), &json!(sessions)));
        assert_eq!((&figures["running"], &figures["queued"]), (&json!(0), &json!(0)));
    }
    assert_eq!(usage(&at)["tenants"].as_array().unwrap().len(), 2);
    if daemon.cgroup().is_some() {
        assert!(busy["cpu_seconds"].as_f64().unwrap() >= 0.5, "{busy}");
        // Null without the controllers. Each session has an agent and a kernel.
        assert!(busy["memory_bytes"].as_u64().is_none_or(|bytes| bytes > 1 << 20), "{busy}");
        assert!(busy["processes"].as_u64().is_none_or(|count| count >= 4), "{busy}");
        assert!(idle["processes"].as_u64().is_none_or(|count| count == 0), "{idle}");
    }
    for id in ["secret-a", "secret-b"] {
        let gone = one.ask(&at, "DELETE", &format!("/v1/sessions/{id}"), None);
        assert_eq!(gone.status, 204);
    }
    let ended = figures(0);
    assert_eq!(ended["sessions"], 0);
    if daemon.cgroup().is_some() {
        assert!(ended["processes"].as_u64().is_none_or(|count| count == 0), "{ended}");
        assert!(ended["cpu_seconds"].as_f64() >= busy["cpu_seconds"].as_f64(), "{ended}");
    }
    daemon.stop_and_check();
}

/// The sums are all that a tenant can learn of another's sessions, whatever it presents.
#[test]
fn a_tenant_does_not_see_the_sessions_of_another() {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(&entry("one", &one, ""), &entry("other", &other, ""));
    let daemon = Setup::default().config("[tenant]", &tenants).start();
    let at = daemon.tcp();
    let spec = json!({"id": "secret", "metadata": {"for": "secret"}});
    assert_eq!(one.ask(&at, "POST", "/v1/sessions", Some(&spec)).status, 201);
    let sums = other.ask(&at, "GET", "/metrics/tenants", None).expect_success();
    let mut members: Vec<_> = sums["tenants"][0].as_object().unwrap().keys().collect();
    members.sort_unstable();
    let only =
        ["cpu_seconds", "memory_bytes", "name", "processes", "queued", "running", "sessions"];
    assert_eq!(members, only);
    assert!(!sums.to_string().contains("secret"), "{sums}");
    for (token, count) in [(&one, 1), (&other, 0)] {
        let listed = token.ask(&at, "GET", "/v1/sessions", None).expect_success();
        assert_eq!(listed["sessions"].as_array().unwrap().len(), count);
        let host = token.ask(&at, "GET", "/v1/host", None).expect_success();
        assert_eq!(host["capacity"]["sessions"], count);
    }
    other.ask(&at, "GET", "/v1/sessions/secret", None).expect_problem(404, "unknown_session");
    Client::connect(&at).json("GET", "/v1/sessions", None).expect_problem(401, "unauthenticated");
    daemon.stop_and_check();
}
