//! Checkpoints after executions, and sessions that roll back by themselves.

use std::fs;

use serde_json::{Value, json};
use vivarium_tests::http::Client;
use vivarium_tests::outcome::Outcome;
use vivarium_tests::{Daemon, Session, Setup};

use crate::checkpoints::{make, names, on_disk, roll_back};
use crate::portable::import;
use crate::{images, sleep_once, suspend};

fn each(daemon: &Daemon) -> Session<'_> {
    daemon.session_with(&json!({"id": "a", "checkpoint": "each"}))
}

fn undoing(daemon: &Daemon) -> Session<'_> {
    daemon.session_with(&json!({"id": "a", "checkpoint": "each", "auto_rollback": true}))
}

/// The name of the checkpoint after an execution.
fn after(outcome: &Outcome) -> String {
    format!("after-{}", outcome.text("execution_id"))
}

#[test]
fn every_execution_can_be_gone_back_to() {
    let daemon = images(&["json"]).start();
    let session = each(&daemon);
    let made: Vec<_> = ["x = 1", "x = 2; open('f', 'w').close()", "1 / 0; x = 3"]
        .map(|code| after(&session.execute(code)))
        .into();
    let command = session.command(&json!({"argv": ["touch", "g"]}));
    let made = [made, vec![after(&command)]].concat();
    assert_eq!(names(&session), made);
    for (name, expected) in
        made.iter().zip(["(1, [])", "(2, ['f'])", "(2, ['f'])", "(2, ['f', 'g'])"])
    {
        let _back = roll_back(&session, name).expect_success();
        assert_eq!(session.value("import glob; x, sorted(glob.glob('*'))"), expected, "{name}");
    }
    daemon.stop_and_check();
}

#[test]
fn a_checkpoint_is_of_its_execution_however_fast_the_next_follows() {
    let daemon = images(&[]).start();
    let session = each(&daemon);
    let first = session.execute("x = [0]").ok();
    let mut running: Vec<_> = (0..8).map(|_| session.stream("x.append(len(x))")).collect();
    for events in &mut running {
        assert_eq!(events.rest().pop().unwrap().data["status"], "ok");
    }
    let all = names(&session);
    assert_eq!((all.len(), &all[0]), (9, &after(&first)));
    for (number, name) in all.iter().enumerate() {
        let _back = roll_back(&session, name).expect_success();
        let expected: Vec<_> = (0..=number).collect();
        assert_eq!(session.value("x"), format!("{expected:?}"), "{name}");
    }
    daemon.stop_and_check();
}

#[test]
fn only_the_last_ones_are_kept_and_none_that_was_asked_for_goes() {
    let daemon = images(&[]).config("images", "checkpoints_kept = 2\nmax_per_tenant = 4").start();
    let session = each(&daemon);
    let _kept = make(&session, "mine").expect_success();
    let made: Vec<_> =
        (0..4).map(|number| after(&session.execute(&format!("x = {number}")))).collect();
    assert_eq!(names(&session), ["mine", &made[2], &made[3]]);
    // Where the tenant may have no more, the oldest goes for the next.
    let other = daemon.session_with(&json!({"id": "b", "checkpoint": "named"}));
    let _kept = make(&other, "one").expect_success();
    let last = after(&session.execute("x = 5"));
    assert_eq!(names(&session), ["mine", &made[3], &last]);
    assert_eq!((names(&other), session.value("x")), (vec!["one".to_owned()], "5".to_owned()));
    daemon.stop_and_check();
}

#[test]
fn the_last_one_can_be_the_only_one() {
    let daemon = images(&[]).config("images", "checkpoints_kept = 1").start();
    let session = each(&daemon);
    for number in 0..4 {
        let made = after(&session.execute(&format!("x = {number}")));
        assert_eq!(names(&session), std::slice::from_ref(&made));
        let _back = roll_back(&session, &made).expect_success();
        assert_eq!(session.value("x"), number.to_string());
    }
    daemon.stop_and_check();
}

#[test]
fn what_cannot_be_saved_runs_on_without_a_checkpoint() {
    let daemon = images(&[]).start();
    let session = each(&daemon);
    let begin =
        "import threading\nend = threading.Event()\nthread = threading.Thread(target=end.wait)\n";
    let _running = session.execute(&format!("{begin}thread.start()")).ok();
    assert_eq!(session.value("1 + 1"), "2");
    assert_eq!(names(&session), Vec::<String>::new());
    assert_eq!(daemon.metric("vivarium_suspend_refusals_total{reason=\"threads\"}"), Some(2));
    let ended = session.execute(&format!("end.set(); thread.join()\n{}", crate::UNTIL_ALONE)).ok();
    assert_eq!(names(&session), [after(&ended)]);
    daemon.stop_and_check();
}

#[test]
fn checkpoints_after_executions_go_on_after_a_resume_and_in_branches() {
    let daemon = images(&[]).start();
    let session = each(&daemon);
    let one = after(&session.execute("x = 1").ok());
    sleep_once(&session);
    let two = after(&session.execute("x = 2").ok());
    assert_eq!(names(&session), [one.clone(), two]);
    let request = json!({"checkpoint": one});
    let made = session.request("POST", "/branch", Some(&request)).expect_success();
    let branch = Session::named(&daemon, made["sessions"][0]["id"].as_str().unwrap());
    let of_branch = branch.execute("x += 10").ok();
    assert_eq!((names(&branch), branch.value("x")), (vec![after(&of_branch)], "11".to_owned()));
    let _asleep = suspend(&session).expect_success();
    let dir = daemon.stop_and_keep();
    let daemon = images(&[]).in_place_of(dir).start();
    let session = Session::named(&daemon, "a");
    let _back = roll_back(&session, &one).expect_success();
    assert_eq!(session.value("x"), "1");
    daemon.stop_and_check();
}

/// A session with a megabyte that does not compress, in its first checkpoint, and some that have little more.
fn with_much_in_common(daemon: &Daemon) -> (Session<'_>, String) {
    let session = each(daemon);
    let begin = "import hashlib, os\ndata = os.urandom(1 << 20)";
    let _made = session.execute(begin).ok();
    let digest = session.value("hashlib.sha256(data).hexdigest()");
    for number in 0..4 {
        let _changed = session.execute(&format!("n = {number}")).ok();
    }
    (session, digest)
}

fn sizes(session: &Session<'_>) -> Vec<u64> {
    let listed = session.request("GET", "/checkpoints", None).expect_success();
    let all = listed["checkpoints"].as_array().unwrap();
    all.iter().map(|one| one["size_bytes"].as_u64().unwrap()).collect()
}

const WHAT: &str = "n, hashlib.sha256(data).hexdigest()";

#[test]
fn what_checkpoints_have_in_common_is_there_once_and_as_long_as_one_needs_it() {
    let daemon = images(&["json"]).config("images", "checkpoints_kept = 3").start();
    let (session, digest) = with_much_in_common(&daemon);
    let made = names(&session);
    assert_eq!(made, ["after-4", "after-5", "after-6"]);
    assert!(sizes(&session).iter().all(|bytes| *bytes < 200_000), "{:?}", sizes(&session));
    // What they have from the first counts, though that is not one of them any more.
    let bytes = || daemon.metric("vivarium_images_bytes{tenant=\"default\"}").unwrap();
    assert!((1 << 20..3 << 20).contains(&bytes()), "{}", bytes());
    let delete =
        |name: &str| session.request("DELETE", &format!("/checkpoints/{name}"), None).status;
    assert_eq!((delete(&made[0]), delete(&made[2])), (204, 204));
    let _asleep = suspend(&session).expect_success();
    let dir = daemon.stop_and_keep();
    let daemon = images(&["json"]).in_place_of(dir).start();
    let session = Session::named(&daemon, "a");
    assert_eq!(names(&session), [made[1].clone()]);
    let _back = roll_back(&session, &made[1]).expect_success();
    assert_eq!(session.value(WHAT), format!("(2, {digest})"));
    for name in names(&session) {
        assert_eq!(session.request("DELETE", &format!("/checkpoints/{name}"), None).status, 204);
    }
    assert_eq!(on_disk(&daemon), 0);
    daemon.stop_and_check();
}

#[test]
fn parts_are_shared_within_a_session_and_never_with_another() {
    let daemon = images(&["random"]).start();
    // The same bytes in both, which do not compress.
    let code = "data = random.Random(1).randbytes(1 << 20)";
    for id in ["a", "b"] {
        let session = daemon.session_with(&json!({"id": id, "checkpoint": "each"}));
        let _made = session.execute(&format!("import random\n{code}")).ok();
        // The control: in the same session the same bytes again take no more room.
        let _same = session.execute("x = 1").ok();
        let [first, second] = sizes(&session)[..] else { panic!("{:?}", sizes(&session)) };
        assert!(first > 1 << 20 && second < 1 << 18, "{id}: {first} {second}");
    }
    daemon.stop_and_check();
}

#[test]
fn a_checkpoint_of_parts_can_leave_its_host_and_branch() {
    let daemon = images(&["json"]).start();
    let (session, digest) = with_much_in_common(&daemon);
    let path = "/v1/images/a/export?checkpoint=after-5";
    let exported = daemon.request("GET", path, None);
    assert_eq!(exported.status, 200);
    let _imported = import(&daemon, "?id=b", &exported.body).expect_success();
    let imported = Session::named(&daemon, "b");
    assert_eq!(imported.value(WHAT), format!("(2, {digest})"));
    let request = json!({"checkpoint": "after-4", "count": 2});
    let made = session.request("POST", "/branch", Some(&request)).expect_success();
    for branch in made["sessions"].as_array().unwrap() {
        let branch = Session::named(&daemon, branch["id"].as_str().unwrap());
        assert_eq!(branch.value(WHAT), format!("(1, {digest})"));
    }
    daemon.stop_and_check();
}

#[test]
fn a_part_that_was_changed_is_found_and_the_session_stays_as_it_is() {
    let daemon = images(&["json"]).start();
    let (session, _) = with_much_in_common(&daemon);
    let root = daemon.dir().join("state/images/.checkpoints/default/a");
    let dirs = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path().join("kernel"));
    let first = dirs.max_by_key(|kernel| fs::metadata(kernel).unwrap().len()).unwrap();
    let mut changed = fs::read(&first).unwrap();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    fs::write(&first, changed).unwrap();
    roll_back(&session, "after-6").expect_problem(409, "image_failed");
    assert_eq!(session.value("n"), "3");
    fs::remove_file(&first).unwrap();
    roll_back(&session, "after-6").expect_problem(409, "image_failed");
    assert_eq!(session.value("n"), "3");
    daemon.stop_and_check();
}

/// What loses a kernel, and the cause that is told.
const LOSSES: [(&str, &str); 4] = [
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal"),
    ("import os; os._exit(3)", "exited"),
    ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", "wall_time"),
    ("x = bytearray(1 << 40)", ""),
];

#[test]
fn code_that_loses_its_kernel_leaves_the_session_as_it_was() {
    let daemon = images(&[]).start();
    let session = undoing(&daemon);
    let _made = session.execute("x = 1; open('f', 'w').close()").ok();
    for (code, cause) in LOSSES {
        let code = format!("import os; os.unlink('f'); y = x + 1\n{code}");
        let lost = session.execute_for(2500, &code);
        if cause.is_empty() {
            // The positive control: an error that loses nothing undoes nothing.
            assert_eq!((lost.status(), &lost.0["rolled_back"]), ("error", &json!(false)));
            assert_eq!(session.value("y, os.path.exists('f')"), "(2, False)");
            continue;
        }
        assert_eq!((lost.cause(), lost.state()), (cause, "preserved"), "{lost:?}");
        assert_eq!(lost.0["rolled_back"], true, "{lost:?}");
        assert!(lost.detail().contains("rolled back to \"after-"), "{lost:?}");
        assert_eq!(
            session.value("import os; x, 'y' in dir(), os.path.exists('f')"),
            "(1, False, True)"
        );
    }
    daemon.until_only(1);
    daemon.stop_and_check();
}

#[test]
fn a_session_goes_back_to_what_it_was_and_says_so_where_it_can_not() {
    let daemon = images(&[]).start();
    let session = undoing(&daemon);
    let one = after(&session.execute("x = 1").ok());
    let _changed = session.execute("x = 2").ok();
    // Not to the last one that there is.
    let _back = roll_back(&session, &one).expect_success();
    let lost = session.execute("import os; os._exit(1)");
    assert_eq!((lost.state(), &lost.0["rolled_back"]), ("preserved", &json!(true)));
    assert_eq!(session.value("x"), "1");
    // Nor is it said that what was answered is there, where that has no checkpoint.
    let thread =
        "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()\nx = 3";
    let _running = session.execute(thread).ok();
    let lost = session.execute("import os; os._exit(1)");
    assert_eq!((lost.state(), &lost.0["rolled_back"]), ("lost", &json!(true)), "{lost:?}");
    assert!(lost.detail().contains("what came after is lost"), "{lost:?}");
    assert_eq!(session.value("x"), "1");
    // A session that was asleep is at the checkpoint that it was at.
    sleep_once(&session);
    let lost = session.execute("import os; x = 4; os._exit(1)");
    assert_eq!((lost.state(), &lost.0["rolled_back"]), ("preserved", &json!(true)), "{lost:?}");
    assert_eq!(session.value("x"), "1");
    daemon.stop_and_check();
}

#[test]
fn nobody_waits_for_a_client_that_reads_slowly() {
    let daemon = images(&[]).start();
    let session = each(&daemon);
    let made = after(&session.execute("open('f', 'wb').write(bytes(64 << 20)); x = 1").ok());
    let mut reader = Client::connect(&daemon.unix());
    reader.ask("GET", &session.path("/files/f"), &[], None);
    // Until it has begun, and the sockets are full.
    assert_eq!(reader.receive_head().unwrap().status, 200);
    assert!(reader.exactly(1000).is_some());
    assert_eq!((session.value("x"), session.value("x + 1")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(names(&session), [made]);
    drop(reader);
    daemon.stop_and_check();
}

#[test]
fn a_stream_tells_of_a_rollback_and_the_audit_log_of_state_that_is_there() {
    let audit = tempfile::tempdir().unwrap();
    let line = format!("dir = {:?}", audit.path().join("audit"));
    let daemon =
        images(&[]).config("audit", &line).config("images", "checkpoint = \"each\"").start();
    // Nobody can go back in what ends by itself.
    let _ran = daemon.request("POST", "/v1/run", Some(&json!({"code": "1"}))).expect_success();
    let session = daemon.session_with(&json!({"auto_rollback": true}));
    let _made = session.execute("x = 1").ok();
    let last = session.stream("import os; os._exit(1)").rest().pop().unwrap();
    assert_eq!(
        (&last.data["rolled_back"], &last.data["state"]),
        (&json!(true), &json!("preserved"))
    );
    assert_eq!(session.value("x"), "1");
    daemon.stop_and_check();
    let files = fs::read_dir(audit.path().join("audit")).unwrap();
    let text: String =
        files.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok()).collect();
    let changes: Vec<_> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|event| Some(event["change"].as_str()?.to_owned()))
        .collect();
    assert_eq!(changes, ["checkpointed", "rolled_back", "checkpointed", "suspended"], "{text}");
}

#[test]
fn without_a_checkpoint_or_the_wish_what_is_lost_stays_lost() {
    let daemon = images(&[]).start();
    let session = undoing(&daemon);
    let lost = session.execute("import os; os._exit(1)");
    assert_eq!((lost.state(), &lost.0["rolled_back"]), ("lost", &json!(false)));
    assert!(lost.detail().contains("no checkpoint to go back to"), "{lost:?}");
    assert_eq!(session.value("1 + 1"), "2");
    let other = daemon.session_with(&json!({"checkpoint": "each"}));
    let _made = other.execute("x = 1").ok();
    assert_eq!(other.execute("import os; os._exit(1)").state(), "lost");
    assert_eq!(other.value("'x' in dir()"), "False");
    // What somebody wants to lose is lost.
    let _made = session.execute("x = 1").ok();
    let _reset = session.reset();
    assert_eq!(session.value("'x' in dir()"), "False");
    daemon.stop_and_check();
}

#[test]
fn checkpoints_can_be_off_and_are_not_promised_where_there_are_none() {
    let daemon = images(&[]).config("images", "checkpoint = \"off\"").start();
    let session = daemon.session_with(&json!({"id": "a"}));
    make(&session, "one").expect_problem(409, "checkpoints_off");
    let _asleep = suspend(&session).expect_success();
    make(&session, "one").expect_problem(409, "checkpoints_off");
    let named = daemon.session_with(&json!({"id": "b", "checkpoint": "named"}));
    let _kept = make(&named, "one").expect_success();
    make(&named, "after-7").expect_problem(422, "invalid_field");
    daemon.stop_and_check();
    let daemon = Setup::default().start();
    for asked in [json!({"checkpoint": "each"}), json!({"auto_rollback": true})] {
        daemon.request("POST", "/v1/sessions", Some(&asked)).expect_problem(422, "invalid_field");
    }
    daemon.stop_and_check();
}
