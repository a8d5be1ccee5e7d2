//! Changing sessions, filtering lists of them, and the list of a session's executions.

use serde_json::{Value, json};
use vivarium_tests::Daemon;
use vivarium_tests::http::{Client, Endpoint, Response};

use crate::over_both;

fn ask(at: &Endpoint, method: &str, path: &str, body: Option<&Value>) -> Response {
    Client::connect(at).json(method, path, body)
}

fn made(at: &Endpoint, spec: Value) -> String {
    let session = ask(at, "POST", "/v1/sessions", Some(&spec)).expect_success();
    session["id"].as_str().unwrap().to_owned()
}

fn patch(at: &Endpoint, id: &str, body: &Value) -> Response {
    let headers = [("Content-Type", "application/merge-patch+json")];
    let body = body.to_string();
    let path = format!("/v1/sessions/{id}");
    Client::connect(at).send("PATCH", &path, &headers, Some(body.as_bytes()))
}

#[track_caller]
fn refused(response: &Response, status: u16, code: &str, field: &str) {
    let problem = response.json();
    assert_eq!((response.status, &problem["code"]), (status, &json!(code)), "{problem}");
    assert_eq!(problem["field"], field, "{problem}");
}

#[test]
fn metadata_times_and_limits_are_patched_together_or_not_at_all() {
    over_both(|_, at| {
        let id = made(at, json!({"metadata": {"a": "1", "b": "2"}}));
        let change = json!({"metadata": {"a": null, "ключ": "3"}, "idle_timeout_ms": 60_000,
            "deadline": "2100-01-01T00:00:00Z", "limits": {"max_output_bytes": 10}});
        let info = patch(at, &id, &change).expect_success();
        assert_eq!(info["metadata"], json!({"b": "2", "ключ": "3"}));
        assert_eq!(info["idle_timeout_ms"], 60_000);
        assert_eq!(info["deadline"], "2100-01-01T00:00:00Z");
        assert_eq!(info["limits"]["max_output_bytes"], 10);
        // One bad field, and nothing holds.
        let bad = json!({"metadata": {"b": "9"}, "idle_timeout_ms": 1000, "deadline": null,
            "limits": {"max_output_bytes": 11}});
        refused(&patch(at, &id, &bad), 422, "invalid_field", "limits.max_output_bytes");
        let path = format!("/v1/sessions/{id}");
        let after = ask(at, "GET", &path, None).expect_success();
        for field in ["metadata", "idle_timeout_ms", "deadline", "limits"] {
            assert_eq!(after[field], info[field]);
        }
        let code = json!({"code": "print('x' * 100)"});
        let ran = ask(at, "POST", &format!("{path}/execute"), Some(&code)).expect_success();
        assert_eq!(
            (&ran["stdout"], &ran["stdout_truncated"]),
            (&json!("x".repeat(10)), &json!(true))
        );
        let cleared = patch(at, &id, &json!({"metadata": null, "deadline": null})).expect_success();
        assert_eq!((&cleared["metadata"], &cleared["deadline"]), (&json!({}), &Value::Null));
    });
}

#[test]
fn what_a_session_can_not_become_is_refused_by_field() {
    over_both(|_, at| {
        let id = made(at, json!({}));
        for (change, field) in [
            (json!({"limits": {"max_open_fds": 100}}), "limits.max_open_fds"),
            (json!({"limits": {"max_disk_mb": 1}}), "limits.max_disk_mb"),
            (json!({"limits": {"max_procs": "unlimited"}}), "limits.max_procs"),
            (json!({"limits": {"max_procs": null}}), "limits.max_procs"),
            (json!({"limits": null}), "limits"),
            (json!({"deadline": "2001-01-01T00:00:00Z"}), "deadline"),
            (json!({"deadline": "tomorrow"}), "deadline"),
            (json!({"deadline": 5}), "deadline"),
            (json!({"idle_timeout_ms": 0}), "idle_timeout_ms"),
            (json!({"idle_timeout_ms": 1_u64 << 62}), "idle_timeout_ms"),
            (json!({"metadata": {"a": 5}}), "metadata.a"),
            (json!({"metadata": {"a": "x".repeat(5000)}}), "metadata"),
        ] {
            refused(&patch(at, &id, &change), 422, "invalid_field", field);
        }
        refused(&patch(at, &id, &json!({"metdata": {}})), 422, "unknown_field", "metdata");
        let nobody = patch(at, "nobody", &json!({}));
        assert_eq!((nobody.status, &nobody.json()["code"]), (404, &json!("unknown_session")));
        let text = Client::connect(at).send(
            "PATCH",
            &format!("/v1/sessions/{id}"),
            &[("Content-Type", "text/plain")],
            Some(b"{}"),
        );
        assert_eq!(text.status, 415);
    });
}

/// What the kernel says afterwards is what was asked for.
#[test]
fn limits_are_lowered_in_the_cgroup_of_the_session() {
    let daemon = Daemon::start();
    let at = daemon.unix();
    let id = made(&at, json!({}));
    let path = format!("/v1/sessions/{id}");
    let lower = |limits: Value| patch(&at, &id, &json!({"limits": limits}));
    let missing = |name: &str| {
        let info = ask(&at, "GET", &path, None).expect_success();
        let layers = info["protection"].as_array().unwrap();
        let cgroup = layers.iter().find(|layer| layer["layer"] == "cgroup").unwrap();
        cgroup["status"] == "unavailable" || cgroup["detail"].as_str().unwrap().contains(name)
    };
    let scope = daemon.cgroup().map(|root| root.join("tenants/default").join(&id));
    for (name, file, value, held) in [
        ("max_procs", "kernel/pids.max", json!(20), "20"),
        ("cpu_cores", "cpu.max", json!(0.25), "25000 100000"),
        ("max_memory_mb", "memory.max", json!(1000), "1048576000"),
    ] {
        let answer = lower(json!({name: value}));
        let last = file.rsplit('/').next().unwrap();
        if scope.is_none() || missing(last) {
            refused(&answer, 422, "invalid_field", &format!("limits.{name}"));
            continue;
        }
        assert_eq!(answer.expect_success()["limits"][name], value);
        let found = std::fs::read_to_string(scope.as_ref().unwrap().join(file)).unwrap();
        assert_eq!(found.trim(), held, "{name}");
    }
    if scope.is_some() && !missing("pids.max") {
        let code = json!({"code": "import threading, time\nfor _ in range(9):\n    \
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"});
        let ran = ask(&at, "POST", &format!("{path}/execute"), Some(&code)).expect_success();
        assert_eq!(ran["status"], "ok", "{ran}");
        let both = lower(json!({"max_procs": 5, "max_result_bytes": 1000}));
        refused(&both, 409, "limit_in_use", "limits.max_procs");
        let info = ask(&at, "GET", &path, None).expect_success();
        assert_eq!(info["limits"]["max_procs"], 20);
        assert_ne!(info["limits"]["max_result_bytes"], 1000);
    }
    if scope.is_some() && !missing("memory.max") {
        let code = json!({"code": "held = bytearray(700 << 20)"});
        let ran = ask(&at, "POST", &format!("{path}/execute"), Some(&code)).expect_success();
        assert_eq!(ran["status"], "ok", "{ran}");
        refused(&lower(json!({"max_memory_mb": 600})), 409, "limit_in_use", "limits.max_memory_mb");
        let code = json!({"code": "len(held)"});
        let ran = ask(&at, "POST", &format!("{path}/execute"), Some(&code)).expect_success();
        assert_eq!(ran["result"]["repr"], (700 << 20).to_string());
    }
    daemon.stop_and_check();
}

#[test]
fn a_deadline_ends_what_runs_and_says_so() {
    over_both(|_, at| {
        let id = made(at, json!({}));
        let path = format!("/v1/sessions/{id}");
        let code = json!({"code": "import time; time.sleep(60)"});
        std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                ask(at, "POST", &format!("{path}/execute"), Some(&code)).expect_success()
            });
            vivarium_tests::wait::until("it runs", || {
                let info = ask(at, "GET", &path, None).expect_success();
                let is_running = info["state"] == "running" && info["running"] == json!(["1"]);
                is_running.then_some(info)
            });
            let list = ask(at, "GET", &format!("{path}/executions"), None).expect_success();
            assert_eq!(list["executions"][0]["state"], "running", "{list}");
            assert!(list["executions"][0]["started_at"].is_string(), "{list}");
            let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(4);
            assert_eq!(patch(at, &id, &json!({"deadline": soon.to_string()})).status, 200);
            let outcome = running.join().unwrap();
            assert_eq!(
                (&outcome["status"], &outcome["cause"]),
                (&json!("killed"), &json!("expired"))
            );
            assert!(outcome["detail"].as_str().unwrap().contains("deadline"), "{outcome}");
        });
    });
}

#[test]
fn sessions_are_found_by_metadata_and_state() {
    over_both(|_, at| {
        for (id, metadata) in
            [("a", json!({"for": "x y", "n": "1"})), ("b", json!({"for": "x y"})), ("c", json!({}))]
        {
            made(at, json!({"id": id, "metadata": metadata}));
        }
        let ids = |query: &str| {
            let list = ask(at, "GET", &format!("/v1/sessions?{query}"), None).expect_success();
            let ids = list["sessions"].as_array().unwrap().iter();
            ids.map(|session| session["id"].as_str().unwrap()).collect::<Vec<_>>().join("")
        };
        for (query, found) in [
            ("", "abc"),
            ("metadata[for]=x%20y", "ab"),
            ("metadata%5Bfor%5D=x+y&metadata[n]=1", "a"),
            ("metadata[for]=x", ""),
            ("metadata[]=1", ""),
            ("state=idle", "abc"),
            ("state=running", ""),
            ("state=running&state=idle&limit=1&after=a", "b"),
        ] {
            assert_eq!(ids(query), found, "{query}");
        }
        for query in ["metadata=x", "metadata[a]=1&metadata[a]=2", "state=busy", "sate=idle"] {
            let answer = ask(at, "GET", &format!("/v1/sessions?{query}"), None);
            let problem = answer.json();
            assert_eq!(
                (answer.status, &problem["code"]),
                (400, &json!("invalid_query")),
                "{query}"
            );
        }
        for id in ["a", "b", "c"] {
            assert_eq!(ask(at, "DELETE", &format!("/v1/sessions/{id}"), None).status, 204);
        }
    });
}
