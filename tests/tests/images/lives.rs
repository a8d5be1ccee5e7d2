//! The life of a session that sleeps: what wakes it, what does not, and its end.

use serde_json::json;

use crate::{images, of_two_tenants, resume, session_named, sleep_once, suspend};

#[test]
fn what_reads_wakes_nothing_and_what_changes_wakes() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41; open('f', 'w').close()").ok();
    let _asleep = suspend(&session).expect_success();
    daemon.until_only(0);
    for path in ["", "/files", "/files/f", "/executions"] {
        let answer = session.request("GET", path, None);
        assert!([200, 409].contains(&answer.status), "{path}: {}", answer.status);
    }
    let listed = daemon.request("GET", "/v1/sessions", None).expect_success();
    assert_eq!(listed["sessions"][0]["state"], "suspended", "{listed}");
    let filtered = daemon.request("GET", "/v1/sessions?state=idle", None).expect_success();
    assert_eq!(filtered["sessions"], json!([]));
    daemon.until_only(0);
    // A second one of its id would be another session.
    let again = daemon.request("POST", "/v1/sessions", Some(&json!({"id": "a"})));
    assert_eq!(again.status, 409);
    assert_eq!(session.value("x"), "41");
    daemon.until_only(1);
    // Awake, it stays as it is.
    assert_eq!(resume(&session).expect_success()["state"], "idle");
    daemon.stop_and_check();
}

#[test]
fn a_session_that_sleeps_is_deleted_with_its_image() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _asleep = suspend(&session).expect_success();
    let image = daemon.dir().join("state/images/default/a");
    assert!(image.join("kernel").exists());
    assert_eq!(session.request("DELETE", "", None).status, 204);
    assert!(!image.exists());
    assert_eq!(session.request("GET", "", None).status, 404);
    assert_eq!(resume(&session).status, 404);
    daemon.stop_and_check();
}

#[test]
fn another_tenant_does_not_see_an_image() {
    let (daemon, ada, bob) = of_two_tenants();
    let at = daemon.unix();
    let _made = ada.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "a"}))).expect_success();
    let _asleep = ada.ask(&at, "POST", "/v1/sessions/a/suspend", None).expect_success();
    for (method, path) in [
        ("GET", ""),
        ("POST", "/resume"),
        ("POST", "/suspend"),
        ("POST", "/branch"),
        ("GET", "/imageable"),
        ("DELETE", ""),
    ] {
        let answer = bob.ask(&at, method, &format!("/v1/sessions/a{path}"), None);
        assert_eq!(answer.status, 404, "{method} {path}");
    }
    let listed = bob.ask(&at, "GET", "/v1/sessions", None).expect_success();
    assert_eq!(listed["sessions"], json!([]));
    // The control: its owner sees it.
    let own = ada.ask(&at, "GET", "/v1/sessions/a", None).expect_success();
    assert_eq!(own["state"], "suspended");
    daemon.stop_and_check();
}

#[test]
fn a_resumed_session_is_as_old_and_has_used_as_much_as_before() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _ran = session.execute("sum(range(10**6))").ok();
    let _ran = session.execute("x = 1").ok();
    let shown = || session.request("GET", "", None).expect_success();
    let before = shown();
    for slept in 1..3 {
        sleep_once(&session);
        let _ran = session.execute("x = 1").ok();
        let after = shown();
        assert_eq!(after["created_at"], before["created_at"]);
        assert_eq!(after["usage"]["executions"], 2 + slept);
        assert!(after["usage"]["cpu_ms"].as_f64() > before["usage"]["cpu_ms"].as_f64());
    }
    // A branch is another session.
    let branches = session.request("POST", "/branch", Some(&json!({"count": 1}))).expect_success();
    let branch = &branches["sessions"][0];
    assert_eq!(branch["usage"]["executions"], 0, "{branch}");
    assert_ne!(branch["created_at"], before["created_at"]);
    daemon.stop_and_check();
}

#[test]
fn a_volume_that_a_suspended_session_has_stays() {
    let daemon = images(&[]).config("homes", "allowed = [\"volumes\", \"tenant\"]").start();
    let volume = json!({"name": "v"});
    let _made = daemon.request("POST", "/v1/volumes", Some(&volume)).expect_success();
    let spec = json!({"id": "a", "home": "tenant", "volumes": [{"name": "v", "path": "/mnt/v"}]});
    let session = daemon.session_with(&spec);
    let _wrote = session.execute("print('kept', file=open('/mnt/v/f', 'w'))").ok();
    let _asleep = suspend(&session).expect_success();
    let delete = |path: &str| daemon.request("DELETE", path, None);
    for (path, code) in [("/v1/volumes/v", "volume_in_use"), ("/v1/homes/@tenant", "home_in_use")] {
        let refused = delete(path);
        assert_eq!((refused.status, &refused.json()["code"]), (409, &json!(code)));
        assert!(refused.json()["detail"].to_string().contains("a suspended session has it"));
    }
    assert_eq!(session.value("open('/mnt/v/f').read()"), "'kept\\n'");
    assert_eq!(session.request("DELETE", "", None).status, 204);
    assert_eq!((delete("/v1/volumes/v").status, delete("/v1/homes/@tenant").status), (204, 204));
    daemon.stop_and_check();
}

#[test]
fn many_that_ask_at_once_wake_it_once() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("import itertools\nnumbers = itertools.count()").ok();
    let _asleep = suspend(&session).expect_success();
    let mut answers: Vec<String> = std::thread::scope(|scope| {
        let ask = || session.execute("next(numbers)").ok().result().to_owned();
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    answers.sort();
    assert_eq!(answers, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    daemon.until_only(1);
    daemon.stop_and_check();
}
