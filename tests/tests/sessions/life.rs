//! Beginning and end of sessions.

use std::thread;

use serde_json::{Value, json};
use vivarium_tests::{Daemon, Outcome, Session, Setup, wait};

#[test]
fn a_session_is_described_as_it_was_asked_for() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&json!({
        "id": "My-session_1", "metadata": {"owner": "me"}, "network": "none",
        "limits": {"max_procs": 7, "cpu_cores": 0.5}, "env": {"GREETING": "hi"},
        "idle_timeout_ms": 60000,
    }));
    assert_eq!(session.id, "My-session_1");
    let info = session.info();
    assert_eq!(info["tenant"], "default");
    assert_eq!(info["environment"], "default");
    assert_eq!(info["state"], "idle");
    assert_eq!(info["network"], "none");
    assert_eq!(info["metadata"], json!({"owner": "me"}));
    assert_eq!(info["limits"]["max_procs"], 7);
    assert_eq!(info["limits"]["cpu_cores"], 0.5);
    assert_eq!(info["limits"]["max_memory_mb"], 2048);
    assert_eq!(info["usage"]["processes"], 1);
    assert_eq!(session.value("import os; os.environ['GREETING']"), "'hi'");
    assert_eq!(session.info()["usage"]["executions"], 1);
    let again = daemon.request("POST", "/v1/sessions", Some(&json!({"id": "My-session_1"})));
    again.expect_problem(409, "session_exists");
    let absent = Session::named(&daemon, "absent").request("GET", "", None);
    absent.expect_problem(404, "unknown_session");
    daemon.stop_and_check();
}

#[test]
fn an_execution_makes_its_session_if_it_asks_for_it() {
    let daemon = crate::DAEMON.hold();
    let execute = |query: &str, code: &str| {
        let path = format!("/v1/sessions/lazy/execute{query}");
        daemon.request("POST", &path, Some(&json!({"code": code})))
    };
    execute("", "1").expect_problem(404, "unknown_session");
    execute("?create=false", "1").expect_problem(404, "unknown_session");
    assert_eq!(execute("?create=true", "x = 1; x").expect_success()["result"]["repr"], "1");
    assert_eq!(execute("?create=true", "x + 1").expect_success()["result"]["repr"], "2");
    // Many at once make one.
    let code = json!({"code": "n = globals().get('n', 0) + 1"});
    thread::scope(|scope| {
        let path = "/v1/sessions/raced/execute?create=true";
        let all: Vec<_> =
            (0..8).map(|_| scope.spawn(|| daemon.request("POST", path, Some(&code)))).collect();
        for one in all {
            assert_eq!(one.join().unwrap().expect_success()["status"], "ok");
        }
    });
    assert_eq!(Session::named(&daemon, "raced").value("n"), "8");
    daemon.release();
}

#[test]
fn limits_are_tightened_and_never_widened() {
    let daemon = Daemon::start();
    for (limits, field) in [
        (json!({"max_procs": 65}), "limits.max_procs"),
        (json!({"max_memory_mb": "unlimited"}), "limits.max_memory_mb"),
        (json!({"max_cpu_secs": 0}), "limits.max_cpu_secs"),
        (json!({"cpu_cores": 1.5}), "limits.cpu_cores"),
    ] {
        let answer = daemon.request("POST", "/v1/sessions", Some(&json!({ "limits": limits })));
        let problem = answer.expect_problem(422, "invalid_field");
        assert_eq!(problem["field"], field);
    }
    let too_long = json!({"code": "1", "timeout_ms": 3_600_001});
    let answer = daemon.session().request("POST", "/execute", Some(&too_long));
    assert_eq!(answer.expect_problem(422, "invalid_field")["field"], "timeout_ms");
}

#[test]
fn ids_are_plain_names() {
    let daemon = Daemon::start();
    for id in ["", ".", "..", "../escaped", "a/b", "a b", "a\0b", "\u{e9}", "-/..", &"x".repeat(65)]
    {
        let answer = daemon.request("POST", "/v1/sessions", Some(&json!({ "id": id })));
        assert_eq!(answer.expect_problem(422, "invalid_field")["field"], "id", "{id:?}");
    }
    for id in ["%2e%2e", "..%2f..%2fetc", "a%00b", "%ff", "a%20b", &"x".repeat(5000)] {
        let path = format!("/v1/sessions/{id}/execute?create=true");
        let answer = daemon.request("POST", &path, Some(&json!({"code": "1"})));
        assert!([404, 422].contains(&answer.status), "{id}: {answer:?}");
    }
    for id in ["a", "A-Z_0-9", "--", &"x".repeat(64)] {
        assert_eq!(daemon.session_with(&json!({ "id": id })).value("1 + 1"), "2");
    }
    daemon.stop_and_check();
}

#[test]
fn deleting_ends_what_runs_and_what_waits() {
    let daemon = Daemon::start();
    let session = daemon.session();
    thread::scope(|scope| {
        let running = scope.spawn(|| session.execute("while True: pass"));
        session.until_state("running");
        let waiting = scope.spawn(|| session.execute("1 + 1"));
        wait::until_true("one that waits", || session.info()["usage"]["queued"] == 1);
        assert_eq!(session.request("DELETE", "", None).status, 204);
        let _killed = running.join().unwrap().ended("killed", "deleted", "lost");
        let _rejected = waiting.join().unwrap().ended("rejected", "deleted", "lost");
    });
    session.request("GET", "", None).expect_problem(404, "unknown_session");
    session.request("DELETE", "", None).expect_problem(404, "unknown_session");
    assert_eq!(daemon.descendants(), [], "no process is left");
    // Its name is free, and nothing of it comes back.
    let again = daemon.session_with(&json!({ "id": session.id }));
    assert_eq!(again.value("import os; os.listdir('.')"), "['.tmp']");
    daemon.stop_and_check();
}

#[test]
fn idle_sessions_are_reaped_and_busy_ones_are_not() {
    let times = "idle_timeout = \"3s\"\nreap_interval = \"100ms\"";
    let daemon = Setup::default().config("session", times).start();
    let (idle, busy) = (daemon.session(), Session::named(&daemon, "busy"));
    // Made with its execution: on a busy machine it could be reaped in between.
    let code = json!({"code": "import time\nwhile True: time.sleep(0.01)"});
    thread::scope(|scope| {
        let request = || busy.request("POST", "/execute?create=true", Some(&code));
        let running = scope.spawn(request);
        wait::until_true("a busy session", || {
            let info = busy.request("GET", "", None);
            info.status == 200 && info.json()["state"] == "running"
        });
        idle.until_gone();
        assert_eq!(busy.info()["state"], "running");
        wait::until_true("an interrupt that hits", || {
            busy.interrupt();
            running.is_finished()
        });
    });
    busy.until_gone();
    wait::until_true("the end of all processes", || daemon.descendants().is_empty());
    daemon.stop_and_check();
}

#[test]
fn a_keepalive_puts_off_the_end() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&json!({"idle_timeout_ms": 60000}));
    let expires = |info: &Value| info["expires_at"].as_str().unwrap().to_owned();
    let first = expires(&session.info());
    let reply = session.request("POST", "/keepalive", None).expect_success();
    assert!(expires(&reply) > first, "{reply}");
    assert_eq!(reply["session_id"], session.id.as_str());
    let absent = Session::named(&daemon, "absent").request("POST", "/keepalive", None);
    absent.expect_problem(404, "unknown_session");
}

#[test]
fn a_lifetime_ends_sessions_whatever_they_do() {
    let times = "max_lifetime = \"5s\"\nreap_interval = \"100ms\"";
    let daemon = Setup::default().config("session", times).start();
    let session = Session::named(&daemon, "short");
    let endless = json!({"code": "while True: pass"});
    let reply = session.request("POST", "/execute?create=true", Some(&endless));
    let outcome = Outcome(reply.expect_success());
    assert_eq!((outcome.status(), outcome.cause()), ("killed", "expired"), "{outcome}");
    session.until_gone();
    daemon.stop_and_check();
}

#[test]
fn there_are_as_many_sessions_as_there_may_be() {
    let daemon = Setup::default().config("session", "max_sessions = 2").start();
    let (first, _second) = (daemon.session(), daemon.session());
    let third = daemon.request("POST", "/v1/sessions", None);
    third.expect_problem(429, "too_many_sessions");
    assert!(third.header("retry-after").is_some());
    assert_eq!(first.request("DELETE", "", None).status, 204);
    let _third = daemon.session();
}

#[test]
fn the_list_is_paged_by_id() {
    let daemon = Daemon::start();
    for id in ["c", "a", "e", "b", "d"] {
        let _made = daemon.session_with(&json!({ "id": id }));
    }
    let page = |query: &str| {
        let page = daemon.request("GET", &format!("/v1/sessions{query}"), None).expect_success();
        let sessions = page["sessions"].as_array().unwrap();
        let ids: Vec<_> = sessions.iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect();
        (ids.concat(), page["next"].as_str().map(str::to_owned))
    };
    assert_eq!(page(""), ("abcde".to_owned(), None));
    let (first, next) = page("?limit=2");
    assert_eq!(first, "ab");
    let (second, next) = page(&format!("?limit=2&after={}", next.unwrap()));
    assert_eq!(second, "cd");
    assert_eq!(page(&format!("?limit=2&after={}", next.unwrap())), ("e".to_owned(), None));
    for bad in ["?limit=0", "?limit=x", "?limit=100000", "?pages=2"] {
        let answer = daemon.request("GET", &format!("/v1/sessions{bad}"), None);
        assert!([400, 422].contains(&answer.status), "{bad}: {answer:?}");
    }
}

#[test]
fn a_run_has_a_session_of_its_own_and_leaves_none() {
    let daemon = Daemon::start();
    let run = |request: Value| daemon.run(&request);
    let outcome = run(json!({"code": "x = 6\nprint(x * 7)\nx"})).ok();
    assert_eq!((outcome.stdout(), outcome.result()), ("42\n", "6"));
    let other = run(json!({"code": "x"}));
    assert_eq!((other.status(), other.exception()), ("error", "NameError"));
    let timed = run(json!({"code": "while True: pass", "timeout_ms": 200}));
    assert_eq!(timed.status(), "timed_out");
    let limited =
        json!({"code": "open('/tmp/x', 'wb').write(bytes(2 << 20))", "limits": {"max_disk_mb": 1}});
    assert_eq!(run(limited).exception(), "OSError");
    assert_eq!(run(json!({"code": "import os; os._exit(3)"})).cause(), "exited");
    let list = daemon.request("GET", "/v1/sessions", None).expect_success();
    assert_eq!(list["sessions"], json!([]));
    wait::until_true("the end of all processes", || daemon.descendants().is_empty());
    daemon.stop_and_check();
}
