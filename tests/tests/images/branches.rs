//! Sessions that are made from the state of another.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::{Value, json};
use vivarium_tests::http::Response;
use vivarium_tests::{Daemon, Session, wait};

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
    let _shared = parent.execute("import mmap; m = mmap.mmap(-1, 4096); m[0] = 1").ok();
    let branches = sessions(&daemon, &branch(&parent, 3));
    assert_eq!(branches.len(), 3);
    let _changed = parent.execute("m[0] = 2").ok();
    daemon.until_only(4);
    let mut randoms = BTreeSet::from([parent.value("random.random()")]);
    for one in &branches {
        assert_eq!(one.value("next(numbers)"), "6");
        assert_eq!(one.value("open('f').read()"), "'x'");
        // What children would share, no branch does.
        assert_eq!(one.value("m[0], m.write(b'3')"), "(1, 1)");
        let _changed = one.execute("open('f', 'w').write('y'); numbers = None").ok();
        randoms.insert(one.value("random.random()"));
    }
    assert_eq!(randoms.len(), 4, "each has random numbers of its own");
    assert_eq!(parent.value("next(numbers), open('f').read(), m[0]"), "(6, 'x', 2)");
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
fn calls_are_carried_out_while_a_session_is_suspended_and_branched_again_and_again() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 0").ok();
    let (is_over, disturbed) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // A call that runs is in the way: 409.
                let is_suspended = suspend(&session).status == 200;
                disturbed.fetch_add(u32::from(is_suspended), Ordering::Relaxed);
                let branched = branch(&session, 1);
                if branched.status == 201 {
                    disturbed.fetch_add(1, Ordering::Relaxed);
                    let made = sessions(&daemon, &branched);
                    assert_eq!(made[0].request("DELETE", "", None).status, 204);
                }
            }
        });
        for expected in 1..=40 {
            let before = disturbed.load(Ordering::Relaxed);
            assert_eq!(session.value("(x := x + 1)"), expected.to_string());
            wait::until_true("a disturbance", || disturbed.load(Ordering::Relaxed) > before);
        }
        is_over.store(true, Ordering::Relaxed);
    });
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
