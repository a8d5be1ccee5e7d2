//! Checkpoints of sessions, and going back to them.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vivarium_tests::http::Response;
use vivarium_tests::{Daemon, Session};

use crate::{images, session_named, suspend};

pub(crate) fn make(session: &Session<'_>, name: &str) -> Response {
    session.request("POST", "/checkpoints", Some(&json!({"name": name})))
}

pub(crate) fn roll_back(session: &Session<'_>, name: &str) -> Response {
    session.request("POST", "/rollback", Some(&json!({"checkpoint": name})))
}

#[track_caller]
pub(crate) fn names(session: &Session<'_>) -> Vec<String> {
    let listed = session.request("GET", "/checkpoints", None).expect_success();
    let all = listed["checkpoints"].as_array().unwrap();
    all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// Directories of checkpoints on disk.
pub(crate) fn on_disk(daemon: &Daemon) -> usize {
    let root = daemon.dir().join("state/images/.checkpoints/default");
    let sessions = fs::read_dir(root).into_iter().flatten().map(|entry| entry.unwrap());
    let sessions = sessions.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    sessions.map(|session| fs::read_dir(session.path()).unwrap().count()).sum()
}

/// With which checkpoint another was compared, and a sign, name and type of each variable that differs.
#[track_caller]
fn differs(session: &Session<'_>, name: &str, query: &str) -> (Value, String) {
    let path = format!("/checkpoints/{name}/diff{query}");
    let diff = session.request("GET", &path, None).expect_success();
    assert_eq!((&diff["to"], &diff["more"]), (&json!(name), &json!(false)));
    let mut told = Vec::new();
    for (key, sign) in [("added", "+"), ("removed", "-"), ("changed", "~")] {
        for it in diff[key].as_array().unwrap() {
            let (name, kind) = (it["name"].as_str().unwrap(), it["type"].as_str().unwrap());
            told.push(format!("{sign}{name}:{kind}"));
        }
    }
    (diff["from"].clone(), told.join(" "))
}

#[track_caller]
fn number(session: &Session<'_>) -> u64 {
    session.execute("1").ok().text("execution_id").parse().unwrap()
}

const CHANGE: &str = "next(numbers); open('f', 'w').write('two'); open('/tmp/new', 'w').write('')";
const STATE: &str = "import os; next(numbers), open('f').read(), os.path.exists('/tmp/new')";

#[test]
fn memory_and_files_go_back_together_as_often_as_one_likes() {
    let daemon = images(&["json"]).start();
    let session = session_named(&daemon, "a");
    let begin = "import itertools\nnumbers = itertools.count(1)\nopen('f', 'w').write('one')";
    let last = session.execute(begin).ok();
    let made = make(&session, "before").expect_success();
    assert_eq!(made["executions"].to_string(), last.text("execution_id"));
    assert!(made["size_bytes"].as_u64().unwrap() > 0, "{made}");
    for expected in ["(2, 'two', True)", "(3, 'two', True)"] {
        let _changed = session.execute(CHANGE).ok();
        assert_eq!(session.value(STATE), expected);
        assert_eq!(roll_back(&session, "before").expect_success()["state"], "idle");
        assert_eq!(session.value(STATE), "(1, 'one', False)");
    }
    assert_eq!(names(&session), ["before"]);
    daemon.until_only(1);
    daemon.stop_and_check();
}

#[test]
fn executions_are_counted_on_so_that_no_number_is_given_twice() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = make(&session, "start").expect_success();
    let before = number(&session);
    let _back = roll_back(&session, "start").expect_success();
    let after = number(&session);
    assert!(after > before, "{after} {before}");
    daemon.stop_and_check();
}

#[test]
fn a_suspended_session_has_checkpoints_too_and_they_outlive_the_daemon() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 1").ok();
    let _kept = make(&session, "one").expect_success();
    let _changed = session.execute("x = 2").ok();
    let _asleep = suspend(&session).expect_success();
    let _kept = make(&session, "two").expect_success();
    let dir = daemon.stop_and_keep();
    let daemon = images(&[]).in_place_of(dir).start();
    let session = Session::named(&daemon, "a");
    assert_eq!(names(&session), ["one", "two"]);
    assert_eq!(session.info()["state"], "suspended", "a list wakes nothing");
    let _back = roll_back(&session, "one").expect_success();
    assert_eq!(session.value("x"), "1");
    let _back = roll_back(&session, "two").expect_success();
    assert_eq!(session.value("x"), "2");
    daemon.stop_and_check();
}

#[test]
fn checkpoints_tell_which_variables_differ_and_wake_nothing() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = make(&session, "start").expect_success();
    for (code, name) in [
        ("import json; x, s, rows, o, _hidden = 1, 'text', [1], object(), 1", "one"),
        ("x = 1; rows.append(2); s = 'next'; o = object(); f = lambda: 1; del json", "two"),
        ("rows[0] = 9; x = 1.0", "three"),
    ] {
        let _ran = session.execute(code).ok();
        let _made = make(&session, name).expect_success();
    }
    for asleep in [false, true] {
        if asleep {
            let _asleep = suspend(&session).expect_success();
        }
        assert_eq!(differs(&session, "start", ""), (Value::Null, String::new()));
        for (name, query, from, expected) in [
            ("one", "", "start", "+json:module +o:object +rows:list +s:str +x:int"),
            ("two", "", "one", "+f:function -json:module ~o:object ~rows:list ~s:str"),
            ("three", "", "two", "~x:float"),
            (
                "one",
                "?from=three",
                "three",
                "+json:module -f:function ~o:object ~rows:list ~s:str ~x:int",
            ),
            ("three", "?from=three", "three", ""),
        ] {
            let expected = (json!(from), expected.to_owned());
            assert_eq!(differs(&session, name, query), expected, "{name}");
        }
        for path in ["/checkpoints/none/diff", "/checkpoints/one/diff?from=none"] {
            session.request("GET", path, None).expect_problem(404, "unknown_checkpoint");
        }
        let unknown = session.request("GET", "/checkpoints/one/diff?to=two", None);
        unknown.expect_problem(400, "invalid_query");
    }
    assert_eq!(session.info()["state"], "suspended");
    // Its kernel is not there to ask.
    let _made = make(&session, "four").expect_success();
    let diff = session.request("GET", "/checkpoints/four/diff", None).expect_success();
    assert_eq!((&diff["from"], &diff["more"]), (&json!("three"), &json!(true)));
    for key in ["added", "removed", "changed"] {
        assert_eq!(diff[key], json!([]), "{diff}");
    }
    // The same objects are where they were.
    let _back = roll_back(&session, "two").expect_success();
    let _made = make(&session, "again").expect_success();
    assert_eq!(differs(&session, "again", "?from=two").1, "");
    daemon.stop_and_check();
}

#[test]
fn what_tenant_code_calls_things_is_bounded_and_plain() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = make(&session, "start").expect_success();
    let code = "class Odd: __len__ = __repr__ = __hash__ = __eq__ = lambda *_: 1 / 0\n\
                Odd.__qualname__ = '\\x1b[2J\\ud800'\nodd = Odd()\n\
                globals().update({1: 1, 'a b': 1, '\\n': 1, '\\ud800': 1, Odd: 1})";
    let _ran = session.execute(code).ok();
    let _made = make(&session, "odd").expect_success();
    let (_, told) = differs(&session, "odd", "");
    assert_eq!(told, "+Odd:type +odd:object");
    let _ran = session.execute("for at in range(600): globals()[f'n{at}'] = at").ok();
    let _made = make(&session, "many").expect_success();
    let many = session.request("GET", "/checkpoints/many/diff", None).expect_success();
    assert_eq!((many["added"].as_array().unwrap().len(), &many["more"]), (500, &json!(true)));
    let _ran = session.execute("newest = 1; n599 = 0; del n598").ok();
    let _made = make(&session, "more").expect_success();
    let more = session.request("GET", "/checkpoints/more/diff", None).expect_success();
    assert_eq!(more["added"], json!([{"name": "newest", "type": "int"}]));
    assert_eq!((&more["removed"], &more["more"]), (&json!([]), &json!(true)));
    assert_eq!(more["changed"], json!([{"name": "n599", "type": "int"}]));
    daemon.stop_and_check();
}

#[test]
fn what_runs_ends_and_the_session_is_as_it_was() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 1").ok();
    let _kept = make(&session, "one").expect_success();
    let mut running = session.stream("x = 2\nwhile True: pass");
    session.until_running(1);
    let _back = roll_back(&session, "one").expect_success();
    assert_eq!(session.value("x"), "1");
    let last = running.rest().pop().unwrap();
    assert_eq!(last.data["cause"], "suspended", "{last:?}");
    daemon.stop_and_check();
}

#[test]
fn branches_have_the_state_of_a_checkpoint() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 1").ok();
    let _kept = make(&session, "one").expect_success();
    let _changed = session.execute("x = 2").ok();
    let request = json!({"count": 2, "checkpoint": "one"});
    let made = session.request("POST", "/branch", Some(&request)).expect_success();
    for branch in made["sessions"].as_array().unwrap() {
        let branch = Session::named(&daemon, branch["id"].as_str().unwrap());
        assert_eq!(branch.value("x"), "1");
        assert_eq!(names(&branch), Vec::<String>::new());
    }
    assert_eq!(session.value("x"), "2");
    daemon.stop_and_check();
}

#[test]
fn a_name_is_there_once_and_an_unknown_one_changes_nothing() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 1").ok();
    let first = session.request("POST", "/checkpoints", None).expect_success();
    assert_eq!(first["name"], "1");
    make(&session, "1").expect_problem(409, "checkpoint_exists");
    make(&session, "../1").expect_problem(422, "invalid_field");
    roll_back(&session, "2").expect_problem(404, "unknown_checkpoint");
    let branch = session.request("POST", "/branch", Some(&json!({"checkpoint": "2"})));
    branch.expect_problem(404, "unknown_checkpoint");
    let delete = |name: &str| session.request("DELETE", &format!("/checkpoints/{name}"), None);
    assert_eq!((delete("2").status, delete("1").status, delete("1").status), (404, 204, 404));
    assert_eq!((on_disk(&daemon), session.value("x")), (0, "1".to_owned()));
    daemon.stop_and_check();
}

#[test]
fn checkpoints_end_with_their_session_and_another_of_its_id_has_none() {
    let daemon = images(&[]).start();
    for asleep in [false, true] {
        let session = session_named(&daemon, "a");
        assert_eq!(names(&session), Vec::<String>::new());
        let _kept = make(&session, "one").expect_success();
        assert_eq!(on_disk(&daemon), 1);
        if asleep {
            let _asleep = suspend(&session).expect_success();
        }
        assert_eq!(session.request("DELETE", "", None).status, 204);
        assert_eq!(on_disk(&daemon), 0);
    }
    // One that ends by itself.
    let session = session_named(&daemon, "a");
    let _kept = make(&session, "one").expect_success();
    let agent = session.members().into_iter().find(|it| it.name == "viv-agent").unwrap();
    kill(Pid::from_raw(agent.pid), Signal::SIGKILL).unwrap();
    session.until_gone();
    let again = session_named(&daemon, "a");
    assert_eq!((names(&again), on_disk(&daemon)), (Vec::new(), 0));
    daemon.stop_and_check();
}

#[test]
fn checkpoints_count_as_images() {
    let daemon = images(&[]).config("images", "max_per_tenant = 2").start();
    let session = session_named(&daemon, "a");
    let _kept = (make(&session, "one").expect_success(), make(&session, "two").expect_success());
    make(&session, "three").expect_problem(429, "images_full");
    suspend(&session).expect_problem(429, "images_full");
    assert_eq!(session.request("DELETE", "/checkpoints/one", None).status, 204);
    let _asleep = suspend(&session).expect_success();
    // The image's place is not the checkpoint's: going back takes none.
    let info: Value = roll_back(&session, "two").expect_success();
    assert_eq!(info["state"], "idle");
    daemon.stop_and_check();
}

#[test]
fn a_checkpoint_that_cannot_be_put_back_leaves_the_session_as_it_is() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 1").ok();
    let _asleep = suspend(&session).expect_success();
    let _kept = make(&session, "one").expect_success();
    let root = daemon.dir().join("state/images/.checkpoints/default/a");
    let kept = fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    // A file of its own, as the image shares that of the session.
    let mut changed = fs::read(kept.join("kernel")).unwrap();
    *changed.last_mut().unwrap() ^= 1;
    fs::remove_file(kept.join("kernel")).unwrap();
    fs::write(kept.join("kernel"), changed).unwrap();
    roll_back(&session, "one").expect_problem(409, "image_failed");
    assert_eq!(session.info()["state"], "suspended");
    assert_eq!(session.value("x"), "1");
    daemon.stop_and_check();
}
