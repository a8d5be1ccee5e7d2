//! Sessions of several contexts: their kernels sleep and wake together.

use serde_json::{Value, json};
use vivarium_tests::events::Events;
use vivarium_tests::outcome::Outcome;
use vivarium_tests::{Daemon, Session};

use crate::checkpoints::{make, names, roll_back};
use crate::portable::{Fleet, exported, import};
use crate::{images, resume, session_named, sleep_once, suspend};

/// Runs code in a context.
#[track_caller]
pub(crate) fn execute(session: &Session<'_>, context: &str, code: &str) -> Outcome {
    session.execute_with(&json!({"code": code, "context": context}))
}

/// The value of an expression there.
#[track_caller]
pub(crate) fn value(session: &Session<'_>, context: &str, code: &str) -> String {
    let outcome = execute(session, context, code).ok();
    outcome.result().to_owned()
}

pub(crate) fn open(session: &Session<'_>, context: &str) {
    let opened = session.request("POST", "/contexts", Some(&json!({"id": context})));
    assert_eq!(opened.status, 201);
}

/// Code that the context b runs, until there is a file `go`.
fn waiting(session: &Session<'_>) -> Events {
    let code = "import os\nprint('begun')\nwhile not os.path.exists('go'): pass";
    let request = json!({"code": code, "context": "b"});
    let mut running = session.stream_with("/execute", &[], &request);
    let _started = running.expect("started");
    let _begun = running.expect("stdout");
    running
}

fn listed(session: &Session<'_>) -> Vec<Value> {
    let contexts = session.request("GET", "/contexts", None).expect_success();
    let contexts = contexts["contexts"].as_array().unwrap();
    contexts.iter().map(|context| context["id"].clone()).collect()
}

/// A session whose three contexts have a generator each, and know what the others wrote.
fn of_three(daemon: &Daemon) -> Session<'_> {
    let session = session_named(daemon, "a");
    open(&session, "b");
    open(&session, "c");
    for context in ["main", "b", "c"] {
        let begin = format!(
            "import itertools\nnumbers = itertools.count(1); name = {context:?}\n\
             open(name, 'w').write(name); log = open(name + '.log', 'w+'); log.write('one')"
        );
        let _made = execute(&session, context, &begin).ok();
    }
    session
}

const STATE: &str = "import os\nlog.flush(); name, next(numbers), log.tell(), \
                     sorted(os.listdir('/workspace'))[1:]";
const FILES: &str = "['b', 'b.log', 'c', 'c.log', 'main', 'main.log']";

#[test]
fn all_contexts_of_a_session_go_on_where_they_were() {
    let daemon = images(&["json"]).start();
    let session = of_three(&daemon);
    for number in 1..4 {
        for context in ["main", "b", "c"] {
            let expected = format!("('{context}', {number}, 3, {FILES})");
            assert_eq!(value(&session, context, STATE), expected);
        }
        sleep_once(&session);
        assert_eq!(listed(&session), ["main", "b", "c"]);
    }
    // Each is a kernel of its own again.
    let pids = ["main", "b", "c"].map(|context| value(&session, context, "os.getpid()"));
    assert!(pids[0] != pids[1] && pids[1] != pids[2], "{pids:?}");
    let _gone = execute(&session, "b", "os._exit(1)");
    assert_eq!(value(&session, "c", "name"), "'c'");
    daemon.stop_and_check();
}

#[test]
fn what_cannot_be_saved_of_a_context_is_named_and_all_go_on() {
    let daemon = images(&[]).start();
    let session = of_three(&daemon);
    let begin = "import threading\nend = threading.Event(); t = threading.Thread(target=end.wait); t.start()";
    let _begun = execute(&session, "c", begin).ok();
    let said = session.request("GET", "/imageable", None).expect_success()["reasons"].to_string();
    assert!(said.contains("its context \\\"c\\\": it has other threads"), "{said}");
    let refused = suspend(&session);
    let problem = refused.json();
    assert_eq!((refused.status, &problem["code"]), (409, &json!("not_imageable")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("its context \"c\""), "{problem}");
    let _ended =
        execute(&session, "c", &format!("end.set(); t.join()\n{}", crate::UNTIL_ALONE)).ok();
    // One that runs code is waited for by the client, as of any session.
    let mut running = waiting(&session);
    let busy = suspend(&session);
    assert_eq!((busy.status, &busy.json()["code"]), (409, &json!("busy")));
    let _go = session.execute("open('go', 'w').close()").ok();
    assert_eq!(running.rest().pop().unwrap().data["status"], "ok");
    sleep_once(&session);
    assert_eq!(value(&session, "c", "name"), "'c'");
    daemon.stop_and_check();
}

#[test]
fn branches_and_exports_have_all_contexts() {
    let fleet = Fleet::new();
    let hosts = [fleet.host().start(), fleet.host().start()];
    let session = of_three(&hosts[0]);
    let made = session.request("POST", "/branch", Some(&json!({"count": 2}))).expect_success();
    for branch in made["sessions"].as_array().unwrap() {
        let branch = Session::named(&hosts[0], branch["id"].as_str().unwrap());
        assert_eq!(listed(&branch), ["main", "b", "c"]);
        for context in ["main", "b", "c"] {
            assert_eq!(value(&branch, context, "name, next(numbers)"), format!("('{context}', 1)"));
        }
    }
    let _asleep = suspend(&session).expect_success();
    let image = exported(&hosts[0], "a");
    let _imported = import(&hosts[1], "", &image).expect_success();
    let moved = Session::named(&hosts[1], "a");
    // Nothing of it is there but after it is awake, which any context's call does.
    assert_eq!(value(&moved, "c", "name, next(numbers)"), "('c', 1)");
    assert_eq!(value(&moved, "main", "name, next(numbers)"), "('main', 1)");
    let [first, second] = hosts;
    first.stop_and_check();
    second.stop_and_check();
}

#[test]
fn a_rollback_brings_back_the_contexts_of_the_checkpoint() {
    let daemon = images(&[]).start();
    let session = of_three(&daemon);
    let _made = make(&session, "three").expect_success();
    assert_eq!(session.request("DELETE", "/contexts/b", None).status, 204);
    open(&session, "d");
    let _changed = execute(&session, "c", "name = 'other'").ok();
    let _back = roll_back(&session, "three").expect_success();
    assert_eq!(listed(&session), ["main", "b", "c"]);
    for context in ["main", "b", "c"] {
        assert_eq!(value(&session, context, "name, next(numbers)"), format!("('{context}', 1)"));
    }
    daemon.stop_and_check();
}

#[test]
fn checkpoints_after_executions_have_all_contexts_and_a_lost_one_takes_no_other_along() {
    let daemon = images(&[]).start();
    let spec = json!({"id": "a", "checkpoint": "each", "auto_rollback": true});
    let session = daemon.session_with(&spec);
    let _one = execute(&session, "main", "x = 1").ok();
    open(&session, "b");
    let two = execute(&session, "b", "x = 2").ok();
    let three = execute(&session, "main", "x = 3").ok();
    let after = |outcome: &Outcome| format!("after-{}", outcome.text("execution_id"));
    assert!(names(&session).ends_with(&[after(&two), after(&three)]), "{:?}", names(&session));
    // Each of them would undo what the other has answered.
    for context in ["b", "main"] {
        let lost = execute(&session, context, "import os; os._exit(1)");
        assert_eq!((lost.state(), &lost.0["rolled_back"]), ("lost", &json!(false)));
    }
    let _back = roll_back(&session, &after(&two)).expect_success();
    assert_eq!(value(&session, "main", "x") + &value(&session, "b", "x"), "12");
    // One that runs code has no checkpoint of what another left.
    let mut running = waiting(&session);
    let before = names(&session);
    let _four = execute(&session, "main", "x = 4").ok();
    assert_eq!(names(&session), before);
    let _go = session.execute("open('go', 'w').close()").ok();
    assert_eq!(running.rest().pop().unwrap().data["status"], "ok");
    // The control: alone it goes back.
    assert_eq!(session.request("DELETE", "/contexts/b", None).status, 204);
    let _five = execute(&session, "main", "x = 5").ok();
    let lost = execute(&session, "main", "import os; os._exit(1)");
    assert_eq!((lost.state(), &lost.0["rolled_back"]), ("preserved", &json!(true)));
    assert_eq!(session.value("x"), "5");
    daemon.stop_and_check();
}

#[test]
fn a_context_is_opened_in_a_session_that_sleeps_and_survives_a_restart() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 1").ok();
    let _asleep = suspend(&session).expect_success();
    open(&session, "b");
    let _made = execute(&session, "b", "x = 2").ok();
    let daemon = images(&[]).in_place_of(daemon.stop_and_keep()).start();
    let session = Session::named(&daemon, "a");
    assert_eq!(session.info()["state"], "suspended");
    let _awake = resume(&session).expect_success();
    assert_eq!((value(&session, "b", "x"), session.value("x")), ("2".into(), "1".into()));
    daemon.stop_and_check();
}
