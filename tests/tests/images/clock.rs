//! The host's clock jumps. Images say when they were made by it, and by nothing else.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use vivarium_tests::Session;

use crate::checkpoints::{names, roll_back};
use crate::seal::change_record;
use crate::{images, session_named, suspend};

/// This many hours from now, as records have times.
fn from_now(hours: i64) -> Value {
    let then = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours);
    json!(then.to_string())
}

#[test]
fn a_session_sleeps_as_long_as_the_clock_says_wherever_that_jumps() {
    let setup = || images(&[]).config("images", "expire_after = \"7d\"");
    let daemon = setup().start();
    let asleep = ["ahead", "shortly", "long"];
    for id in asleep {
        let session = session_named(&daemon, id);
        let _made = session.execute("x = 41").ok();
        let _asleep = suspend(&session).expect_success();
    }
    let kept = daemon.stop_and_keep();
    let state = kept.path().join("state");
    // The clock was two days ahead as the first fell asleep, and the second did so six days ago, or the clock jumps
    // by that; the third eight.
    for (id, hours) in asleep.into_iter().zip([48, -6 * 24, -8 * 24]) {
        let (dir, what) = (state.join("images/default").join(id), format!("record\0default\0{id}"));
        change_record(&state, &dir, &what, |record| record["suspended_at"] = from_now(hours));
    }
    let daemon = setup().in_place_of(kept).start();
    for id in &asleep[..2] {
        assert_eq!(Session::named(&daemon, id).value("x"), "41", "{id}");
    }
    assert_eq!(Session::named(&daemon, "long").request("GET", "", None).status, 404);
    daemon.stop_and_check();
}

/// The record of a checkpoint of the session `a`, by its name.
fn change_checkpoints(state: &Path, change: impl Fn(&mut Value)) {
    let all = fs::read_dir(state.join("images/.checkpoints/default/a")).unwrap();
    for checkpoint in all.map(|entry| entry.unwrap().path()) {
        change_record(state, &checkpoint, "checkpoint\0default\0a", &change);
    }
}

#[test]
fn the_last_checkpoint_is_that_of_the_last_execution_whatever_the_clock_said() {
    let setup = || images(&[]).config("images", "checkpoints_kept = 3");
    let daemon = setup().start();
    let spec = json!({"id": "a", "checkpoint": "each", "auto_rollback": true});
    let session = daemon.session_with(&spec);
    for number in 1..=3 {
        let _made = session.execute(&format!("x = {number}")).ok();
    }
    let made = ["after-1", "after-2", "after-3"];
    assert_eq!(names(&session), made);
    let _asleep = suspend(&session).expect_success();
    let kept = daemon.stop_and_keep();
    change_checkpoints(&kept.path().join("state"), |record| {
        let after = record["executions"].as_i64().unwrap();
        record["suspended_at"] = from_now(-after);
    });
    let daemon = setup().in_place_of(kept).start();
    let session = Session::named(&daemon, "a");
    assert_eq!(names(&session), made);
    let _made = session.execute("x = 4").ok();
    assert_eq!(names(&session), ["after-2", "after-3", "after-4"]);
    let lost = session.execute("import os; os._exit(1)");
    assert_eq!((lost.state(), session.value("x")), ("preserved", "4".to_owned()));
    let _back = roll_back(&session, "after-3").expect_success();
    assert_eq!(session.value("x"), "3");
    daemon.stop_and_check();
}
