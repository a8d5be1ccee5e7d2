//! A stream that breaks off anywhere is taken up where it broke off.

use serde_json::{Value, json};
use vivarium_tests::events::Event;
use vivarium_tests::{Daemon, Setup};

const CODE: &str = "
import sys
for i in range(5):
    print(i)
    display(i)
    print(i, file=sys.stderr)
'end'";

#[test]
fn every_event_can_be_resumed_after_while_it_runs_and_afterwards() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let waiting =
        format!("{CODE}\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n7");
    let mut live = session.stream(&waiting);
    let mut before: Vec<Event> = Vec::new();
    // All it prints before it waits.
    while !before.iter().any(|event| event.name == "stderr" && event.data["text"] == "4\n") {
        before.push(live.next_event().unwrap());
        let all: String = vivarium_tests::events::text(&before, "stderr");
        if all.ends_with("4\n") {
            break;
        }
    }
    // Every one of these follows it from another event on, all at once.
    let mut followers: Vec<_> =
        (0..=before.len() as u64).map(|after| session.follow("1", Some(after))).collect();
    assert_eq!(session.execution("1"), json!({"state": "running", "outcome": null}));
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    let mut whole = before;
    whole.extend(live.rest());
    for (after, follower) in followers.iter_mut().enumerate() {
        assert_eq!(follower.rest(), whole[after..], "after {after}");
    }
    for after in 0..=whole.len() {
        let rest = session.follow("1", Some(after as u64)).rest();
        assert_eq!(rest, whole[after..], "afterwards, after {after}");
    }
    assert_eq!(session.follow("1", None).rest(), whole);
    daemon.stop_and_check();
}

#[test]
fn events_that_did_not_fit_are_said_to_be_gone() {
    let daemon = Setup::default().config("session", "event_buffer_bytes = 65536").start();
    let session = daemon.session();
    let _printed = session.execute("for i in range(5000): print('x' * 99)").ok();
    let gone = session.follow("1", Some(1));
    let problem = gone.head.expect_problem(410, "events_gone");
    assert!(problem["detail"].as_str().unwrap().contains("the first that is there is"));
    let kept = session.follow("1", None).rest();
    assert_eq!(kept.last().unwrap().name, "done");
    let bytes: usize =
        kept.iter().filter_map(|event| event.data["text"].as_str()).map(str::len).sum();
    assert!((1..=65_536).contains(&bytes), "{bytes}");
}

#[test]
fn what_can_not_be_followed_is_a_problem() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let unknown = session.follow("1", None);
    unknown.head.expect_problem(404, "unknown_execution");
    let info: Value = session.request("GET", "/executions/0", None).json();
    assert_eq!(info["code"], "unknown_execution");
}
