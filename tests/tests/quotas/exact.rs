//! A thousand clients at once, of whom exactly as many are served as the quota says.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Setup, wait};

use super::{daemon, is_over};

const CLIENTS: usize = 1000;

/// How many of a thousand clients, each with a connection of its own, are served; the others are over
/// this quota.
fn served(
    at: &Endpoint,
    token: &Token,
    quota: &str,
    body: impl Fn(usize) -> (String, Value) + Sync,
) -> usize {
    let (barrier, served) = (Barrier::new(CLIENTS), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (barrier, served, body) = (&barrier, &served, &body);
            let client = move || {
                let mut client = Client::connect(at);
                let (path, body) = body(number);
                let (body, token) = (body.to_string(), format!("Bearer {}", token.text));
                barrier.wait();
                let headers = [("Authorization", token.as_str())];
                let response = client.send("POST", &path, &headers, Some(body.as_bytes()));
                if is_served(&response, quota) {
                    served.fetch_add(1, Ordering::Relaxed);
                }
            };
            thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, client).unwrap();
        }
    });
    served.into_inner()
}

/// Refusals of other bounds have codes of their own.
#[track_caller]
fn is_served(response: &Response, quota: &str) -> bool {
    match quota {
        "too_many_sessions" | "too_many_homes" if response.status >= 300 => {
            drop(response.expect_problem(429, quota));
            false
        }
        _ => !is_over(response, quota),
    }
}

fn executions(number: usize) -> (String, Value) {
    (format!("/v1/sessions/s{}/execute", number % 4), json!({"code": "1 + 1"}))
}

fn make_sessions(at: &Endpoint, token: &Token) {
    for number in 0..4 {
        let body = json!({ "id": format!("s{number}") });
        assert_eq!(token.ask(at, "POST", "/v1/sessions", Some(&body)).status, 201);
    }
}

#[test]
fn a_thousand_clients_never_run_one_more_than_the_rate_allows() {
    let (daemon, one, other) = daemon("execution_rate = \"37/1d\"");
    let at = daemon.unix();
    make_sessions(&at, &one);
    make_sessions(&at, &other);
    assert_eq!(served(&at, &one, "execution_rate", executions), 37);
    let ran: u64 = (0..4)
        .map(|number| {
            let path = format!("/v1/sessions/s{number}");
            let info = one.ask(&at, "GET", &path, None).expect_success();
            info["usage"]["executions"].as_u64().unwrap()
        })
        .sum();
    assert_eq!(ran, 37, "the sessions' own count");
    // The same from a tenant without quotas: nothing else refuses.
    assert_eq!(served(&at, &other, "none", executions), CLIENTS);
    let metrics = Client::connect(&at).json("GET", "/metrics", None);
    let line = r#"vivarium_quota_refusals_total{quota="execution_rate",tenant="one"} 963"#;
    assert!(String::from_utf8(metrics.body).unwrap().contains(line));
    daemon.stop_and_check();
}

#[test]
fn a_thousand_clients_never_have_one_more_in_flight_than_allowed() {
    let (daemon, one, _) = daemon("max_executions = 11");
    let at = daemon.unix();
    make_sessions(&at, &one);
    let work = |number: usize| {
        let session = format!("/v1/sessions/s{}", number % 4);
        let sleep = json!({"argv": ["sleep", "600"], "background": true});
        (format!("{session}/commands"), sleep)
    };
    assert_eq!(served(&at, &one, "max_executions", work), 11);
    assert!(is_over(
        &one.ask(&at, "POST", "/v1/run", Some(&json!({"code": "1"}))),
        "max_executions"
    ));
    for number in 0..4 {
        let path = format!("/v1/sessions/s{number}");
        assert_eq!(one.ask(&at, "DELETE", &path, None).status, 204);
    }
    // All of it came back.
    make_sessions(&at, &one);
    assert_eq!(served(&at, &one, "max_executions", work), 11);
    daemon.stop_and_check();
}

#[test]
fn a_thousand_clients_never_make_one_more_session_than_the_rate_allows() {
    let (daemon, one, other) = daemon("session_rate = \"5/1d\"");
    let at = daemon.unix();
    let create = |number: usize| ("/v1/sessions".to_owned(), json!({ "id": format!("s{number}") }));
    assert_eq!(served(&at, &one, "session_rate", create), 5);
    let listed = one.ask(&at, "GET", "/v1/sessions", None).expect_success();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 5);
    make_sessions(&at, &other);
    daemon.stop_and_check();
}

#[test]
fn a_thousand_clients_never_wait_one_more_than_allowed() {
    let (daemon, one, _) = daemon("max_queued = 7");
    let at = daemon.unix();
    let work = |number: usize| {
        let path = format!("/v1/sessions/s{}/execute", number % 4);
        (path, json!({"code": "import time; time.sleep(600)", "timeout_ms": 600_000}))
    };
    let refusals = "vivarium_quota_refusals_total{quota=\"max_queued\",tenant=\"one\"}";
    // One runs in each of the four sessions, and seven wait; the second time what waited has come back.
    for round in 1..=2 {
        make_sessions(&at, &one);
        let all = thread::scope(|scope| {
            let all = scope.spawn(|| served(&at, &one, "max_queued", work));
            let refused = round * (CLIENTS - 11) as u64;
            wait::until_true("the refusals", || daemon.metric(refusals) == Some(refused));
            for number in 0..4 {
                let path = format!("/v1/sessions/s{number}");
                assert_eq!(one.ask(&at, "DELETE", &path, None).status, 204);
            }
            all.join().unwrap()
        });
        assert_eq!(all, 11);
    }
    daemon.stop_and_check();
}

#[test]
fn a_thousand_clients_never_write_to_homes_that_have_more_than_allowed() {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(&entry("one", &one, "max_homes_mb = 1"), &entry("other", &other, ""));
    let daemon = Setup::default()
        .config("server", "max_connections = 8000")
        .config("session", "queue_depth = 10000")
        .config("homes", "allowed = [\"session\", \"volumes\"]")
        .config("[tenant]", &tenants)
        .start();
    let at = daemon.unix();
    let home = |id: &str| json!({"id": id, "home": "session"});
    for token in [&one, &other] {
        for id in ["s0", "s1"] {
            assert_eq!(token.ask(&at, "POST", "/v1/sessions", Some(&home(id))).status, 201);
        }
        token.execute(&at, "s0", "open('/home/sandbox/f', 'wb').write(b'x' * (3 << 20))");
    }
    // Work in either session, another session, and a volume.
    let ask = |number: usize| match number % 4 {
        0 => ("/v1/volumes".to_owned(), json!({ "name": format!("v{number}") })),
        1 => ("/v1/sessions".to_owned(), home(&format!("n{number}"))),
        of => (format!("/v1/sessions/s{}/execute", of - 2), json!({"code": "1"})),
    };
    let work = |token: &Token| {
        let (path, body) = ask(2);
        token.ask(&at, "POST", &path, Some(&body))
    };
    wait::until_true("a measurement", || is_over(&work(&one), "max_homes_mb"));
    assert_eq!(served(&at, &one, "max_homes_mb", ask), 0);
    let made = one.ask(&at, "GET", "/v1/volumes", None).expect_success();
    assert_eq!(made["volumes"], json!([]));
    // The same of a tenant without the quota, and of this one once there is room.
    assert_eq!(work(&other).status, 200);
    assert_eq!(one.ask(&at, "DELETE", "/v1/homes/s0/files/f", None).status, 204);
    wait::until_true("room", || work(&one).status == 200);
    daemon.stop_and_check();
}

#[test]
fn a_thousand_clients_never_have_one_more_session_or_volume_than_allowed() {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(&entry("one", &one, "max_sessions = 6"), &entry("other", &other, ""));
    let daemon = Setup::default()
        .config("server", "max_connections = 8000")
        .config("homes", "allowed = [\"volumes\"]\nmax_per_tenant = 9")
        .config("[tenant]", &tenants)
        .start();
    let at = daemon.unix();
    let create = |number: usize| ("/v1/sessions".to_owned(), json!({ "id": format!("s{number}") }));
    assert_eq!(served(&at, &one, "too_many_sessions", create), 6);
    let volume =
        |number: usize| ("/v1/volumes".to_owned(), json!({ "name": format!("v{number}") }));
    assert_eq!(served(&at, &one, "too_many_homes", volume), 9);
    let listed = one.ask(&at, "GET", "/v1/volumes", None).expect_success();
    assert_eq!(listed["volumes"].as_array().unwrap().len(), 9);
    assert_eq!(other.ask(&at, "POST", "/v1/volumes", Some(&json!({"name": "v"}))).status, 201);
    daemon.stop_and_check();
}
