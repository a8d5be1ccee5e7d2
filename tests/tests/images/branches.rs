//! Sessions that are made from the state of another.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vivarium_tests::http::Response;
use vivarium_tests::{Daemon, Session};

use crate::{images, session_named, suspend};

fn branch(session: &Session<'_>, count: u32) -> Response {
    session.request("POST", "/branch", Some(&json!({"count": count})))
}

#[track_caller]
fn sessions<'d>(daemon: &'d Daemon, answer: &Response) -> Vec<Session<'d>> {
    let made = answer.json();
    let named = |info: &Value| Session::named(daemon, info["id"].as_str().unwrap());
    made["sessions"].as_array().unwrap_or_else(|| panic!("{made}")).iter().map(named).collect()
}

#[test]
fn branches_have_the_state_of_their_parent_and_go_their_own_ways() {
    let daemon = images(&["json"]).start();
    let parent = session_named(&daemon, "a");
    let _made = parent
        .execute("import itertools, random\nnumbers = itertools.count(5); next(numbers)\nopen('f', 'w').write('x')")
        .ok();
    let branches = sessions(&daemon, &branch(&parent, 3));
    assert_eq!(branches.len(), 3);
    daemon.until_only(4);
    let mut randoms = BTreeSet::from([parent.value("random.random()")]);
    for one in &branches {
        assert_eq!(one.value("next(numbers)"), "6");
        assert_eq!(one.value("open('f').read()"), "'x'");
        let _changed = one.execute("open('f', 'w').write('y'); numbers = None").ok();
        randoms.insert(one.value("random.random()"));
    }
    assert_eq!(randoms.len(), 4, "each has random numbers of its own");
    assert_eq!(parent.value("next(numbers), open('f').read()"), "(6, 'x')");
    daemon.stop_and_check();
}

#[test]
fn a_suspended_session_is_branched_and_sleeps_on() {
    let daemon = images(&[]).start();
    let parent = session_named(&daemon, "a");
    let _made = parent.execute("x = 41").ok();
    let _asleep = suspend(&parent).expect_success();
    let branches = sessions(&daemon, &branch(&parent, 2));
    for one in &branches {
        assert_eq!(one.value("x"), "41");
    }
    assert_eq!(parent.request("GET", "", None).expect_success()["state"], "suspended");
    assert_eq!(parent.value("x"), "41");
    daemon.stop_and_check();
}

#[test]
fn all_branches_are_made_or_none() {
    let daemon = images(&[]).config("session", "max_sessions = 3").start();
    let parent = session_named(&daemon, "a");
    let _made = parent.execute("x = 41").ok();
    let refused = branch(&parent, 3);
    assert_eq!(refused.status, 429, "{}", refused.json());
    daemon.until_only(1);
    for wrong in [0, 101] {
        assert_eq!(branch(&parent, wrong).status, 422);
    }
    assert_eq!(Session::named(&daemon, "nobody").request("POST", "/branch", None).status, 404);
    // The control.
    assert_eq!(sessions(&daemon, &branch(&parent, 2)).len(), 2);
    assert_eq!(parent.value("x"), "41");
    daemon.stop_and_check();
}

#[test]
fn a_branch_that_is_deleted_while_it_is_made_holds_nobody_up() {
    let daemon = images(&[]).start();
    let parent = session_named(&daemon, "a");
    let _made = parent.execute("x = 41").ok();
    let delete_branches = || {
        let listed = daemon.request("GET", "/v1/sessions", None).expect_success();
        let ids = listed["sessions"].as_array().unwrap().iter().map(|info| &info["id"]);
        for id in ids.filter(|id| **id != "a") {
            let path = format!("/v1/sessions/{}", id.as_str().unwrap());
            let answer = daemon.request("DELETE", &path, None);
            assert!([204, 404].contains(&answer.status), "{}", answer.status);
        }
    };
    std::thread::scope(|scope| {
        let branching = scope.spawn(|| branch(&parent, 20));
        while !branching.is_finished() {
            delete_branches();
        }
        // Made before they were deleted, or not.
        let answer = branching.join().unwrap();
        let code = answer.json()["code"].clone();
        let is_deleted = code == "unknown_session" || code == "session_not_started";
        assert!(answer.status == 201 || is_deleted, "{}", answer.json());
    });
    delete_branches();
    daemon.until_only(1);
    assert_eq!(parent.value("x"), "41");
    daemon.stop_and_check();
}
