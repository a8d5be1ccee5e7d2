//! How many images there are, how large, and for how long.

use serde_json::{Value, json};
use vivarium_tests::{Session, wait};

use crate::{images, resume, session_named, suspend};

#[test]
fn a_tenant_has_no_more_images_than_it_may() {
    let daemon = images(&[]).config("images", "max_per_tenant = 1").start();
    let (first, second) = (session_named(&daemon, "a"), session_named(&daemon, "b"));
    let _made = second.execute("x = 41").ok();
    let _asleep = suspend(&first).expect_success();
    let refused = suspend(&second);
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("images_full")));
    assert!(refused.json()["detail"].to_string().contains("images.max_per_tenant = 1"));
    assert_eq!(second.value("x"), "41");
    assert_eq!(first.request("DELETE", "", None).status, 204);
    let _asleep = suspend(&second).expect_success();
    daemon.stop_and_check();
}

#[test]
fn an_image_has_no_more_bytes_than_are_left() {
    let daemon = images(&[]).config("images", "max_mb = 1").start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("import os\nx = os.urandom(2 << 20); y = hash(x)").ok();
    let refused = suspend(&session);
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("images_full")));
    assert!(refused.json()["detail"].to_string().contains("images.max_mb = 1"));
    assert_eq!(session.value("hash(x) == y"), "True");
    let left = std::fs::read_dir(daemon.dir().join("state/images/default")).unwrap().count();
    assert_eq!(left, 0, "what was begun is removed");
    let _smaller = session.execute("x = None").ok();
    let _asleep = suspend(&session).expect_success();
    daemon.stop_and_check();
}

#[test]
fn an_unused_session_is_suspended_by_itself_and_expires() {
    let daemon = images(&[])
        .config("session", "reap_interval = \"50ms\"")
        .config("images", "suspend_after = \"200ms\"\nexpire_after = \"5s\"")
        .start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    let state = || session.request("GET", "", None);
    wait::until("its suspension", || (state().json()["state"] == "suspended").then_some(()));
    assert!(state().json()["image"]["expires_at"].is_string());
    assert_eq!(session.value("x"), "41");
    wait::until("its end", || (state().status == 404).then_some(()));
    daemon.stop_and_check();
}

/// Each attempt asks its kernel, which is no use of the session.
#[test]
fn an_unused_session_that_cannot_be_suspended_is_tried_once_and_ends_at_its_idle_timeout() {
    let daemon = images(&[])
        .config("session", "reap_interval = \"50ms\"")
        .config("images", "suspend_after = \"2s\"")
        .start();
    let session = daemon.session_with(&json!({"id": "a", "idle_timeout_ms": 6000}));
    let _made = session.execute("import socket; one = socket.socket(socket.AF_UNIX)").ok();
    let state = || session.request("GET", "", None);
    let used = state().json()["last_used_at"].clone();
    daemon.until_logged("unused, and not suspended");
    assert_eq!(state().json()["last_used_at"], used);
    wait::until("its end", || (state().status == 404).then_some(()));
    assert_eq!(daemon.log().matches("unused, and not suspended").count(), 1);
    daemon.stop_and_check();
}

#[test]
fn a_suspended_session_ends_at_its_deadline_and_says_so() {
    let daemon = images(&[])
        .config("session", "reap_interval = \"50ms\"\nmax_lifetime = \"8s\"")
        .config("images", "expire_after = \"1h\"")
        .start();
    let session = session_named(&daemon, "a");
    let asleep = suspend(&session).expect_success();
    assert_eq!(asleep["image"]["expires_at"], asleep["deadline"]);
    assert!(asleep["deadline"].is_string(), "{asleep}");
    wait::until("its end", || (session.request("GET", "", None).status == 404).then_some(()));
    daemon.stop_and_check();
}

#[test]
fn an_expired_session_is_suspended_where_that_is_wanted_and_ends_where_it_is_not() {
    for suspended in [true, false] {
        let daemon = images(&[])
            .config("session", "reap_interval = \"50ms\"")
            .config("images", &format!("suspend_expired = {suspended}"))
            .start();
        let with = |id: &str, more: &Value| {
            let mut spec = json!({"id": id, "idle_timeout_ms": 3000});
            spec.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
            daemon.session_with(&spec)
        };
        let session = with("a", &json!({}));
        let _made = session.execute("x = 41").ok();
        let state = || session.request("GET", "", None);
        if suspended {
            wait::until("its suspension", || {
                (state().json()["state"] == "suspended").then_some(())
            });
            assert_eq!(session.value("x"), "41");
            // What can not be suspended ends.
            let other = with("b", &json!({}));
            let _kept = other.execute("import socket; one = socket.socket(socket.AF_UNIX)").ok();
            wait::until("its end", || (other.request("GET", "", None).status == 404).then_some(()));
        } else {
            wait::until("its end", || (state().status == 404).then_some(()));
        }
        daemon.stop_and_check();
    }
}

#[test]
fn a_session_that_is_not_to_resume_by_itself_waits_for_the_request() {
    let daemon = images(&[]).start();
    let spec = json!({"id": "a", "auto_resume": false});
    let session = daemon.session_with(&spec);
    let _made = session.execute("x = 41").ok();
    let asleep = suspend(&session).expect_success();
    assert_eq!(asleep["image"]["auto_resume"], false);
    let code = json!({"code": "x"});
    for (path, body) in
        [("/execute", Some(&code)), ("/interrupt", None), ("/complete", Some(&code))]
    {
        session.request("POST", path, body).expect_problem(409, "suspended");
    }
    session.request("GET", "/files", None).expect_problem(409, "suspended");
    let _awake = resume(&session).expect_success();
    assert_eq!(session.value("x"), "41");
    // It is so again the next time.
    let _asleep = suspend(&session).expect_success();
    session.request("POST", "/execute", Some(&code)).expect_problem(409, "suspended");
    daemon.stop_and_check();
}

/// No host has the memory that is to be left here, so that a session is refused in the end.
#[test]
fn sessions_are_suspended_before_another_is_refused_the_one_used_least_recently_first() {
    let (usual, all) = ("memory_reserve_mb = 1", "memory_reserve_mb = 1000000000");
    let (never, soon) = ("suspend_for_room = \"unlimited\"", "suspend_for_room = \"1ms\"");
    let daemon = images(&[]).config("session", usual).config("images", never).start();
    let [first, second, busy] = ["first", "second", "busy"].map(|id| session_named(&daemon, id));
    let running = busy.stream("import time; time.sleep(60)");
    busy.until_running(1);
    let _used = (second.execute("x = 2").ok(), first.execute("x = 1").ok());
    let refused = || {
        daemon.request("POST", "/v1/sessions", None).expect_problem(503, "no_capacity");
    };
    // The control: nobody is suspended where that is not wanted.
    daemon.reload_with(usual, all);
    refused();
    assert!([&first, &second].iter().all(|session| session.info()["state"] == "idle"));
    daemon.reload_with(never, soon);
    refused();
    let suspended_at = |session: &Session<'_>| {
        session.info()["image"]["suspended_at"].as_str().unwrap().to_owned()
    };
    assert!(suspended_at(&second) < suspended_at(&first));
    assert_eq!(busy.info()["state"], "running");
    daemon.reload_with(all, usual);
    assert_eq!((first.value("x"), second.value("x")), ("1".to_owned(), "2".to_owned()));
    drop(running);
    daemon.stop_and_check();
}

#[test]
fn a_session_says_whether_it_can_be_suspended() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let answer = session.request("GET", "/imageable", None).expect_success();
    assert_eq!(answer, json!({"imageable": true, "reasons": []}));
    let _made = session.execute("import socket\ns = socket.socket(socket.AF_UNIX)").ok();
    let answer = session.request("GET", "/imageable", None).expect_success();
    assert_eq!(answer["imageable"], false);
    assert!(answer["reasons"][0].as_str().unwrap().contains("is a socket"), "{answer}");
    daemon.stop_and_check();
}
