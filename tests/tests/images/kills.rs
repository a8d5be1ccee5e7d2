//! Daemons, agents and kernels that are killed while something is done with an image.
//!
//! `VIVARIUM_TEST_KILLS` is how often, 24 unless said otherwise.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vivarium_tests::http::Client;
use vivarium_tests::{Daemon, Session};

use crate::{images, session_named, suspend};

/// What is killed. A session that was awake ends with its daemon.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Suspend,
    Resume,
    Delete,
    Checkpoint,
    RollBack,
    Import,
}

const STEPS: [Step; 6] =
    [Step::Suspend, Step::Resume, Step::Delete, Step::Checkpoint, Step::RollBack, Step::Import];

/// The kill comes at one of so many times, each so much later than the one before.
const TIMES: u32 = 9;
const LATER: Duration = Duration::from_millis(7);

impl Step {
    /// Makes a session of this id with `x == 1`, and what else there has to be.
    fn prepare(self, daemon: &Daemon, id: &str) -> Vec<u8> {
        let session = session_named(daemon, id);
        let _made = session.execute("x = 1").ok();
        if self == Self::RollBack {
            let name = json!({"name": "one"});
            let _kept = session.request("POST", "/checkpoints", Some(&name)).expect_success();
            let _changed = session.execute("x = 2").ok();
        }
        if self != Self::Suspend {
            let _asleep = suspend(&session).expect_success();
        }
        if self != Self::Import {
            return Vec::new();
        }
        let path = format!("/v1/images/{id}/export");
        let exported = Client::connect(&daemon.unix()).send("GET", &path, &[], None);
        assert_eq!(exported.status, 200);
        assert_eq!(session.request("DELETE", "", None).status, 204);
        exported.body
    }

    /// Asks for it, and reads nothing.
    fn ask(self, daemon: &Daemon, id: &str, image: &[u8]) -> Client {
        let (method, path, body) = match self {
            Self::Suspend => ("POST", format!("sessions/{id}/suspend"), None),
            Self::Resume => ("POST", format!("sessions/{id}/resume"), None),
            Self::Delete => ("DELETE", format!("sessions/{id}"), None),
            Self::Checkpoint => {
                ("POST", format!("sessions/{id}/checkpoints"), Some(json!({"name": "new"})))
            }
            Self::RollBack => {
                ("POST", format!("sessions/{id}/rollback"), Some(json!({"checkpoint": "one"})))
            }
            Self::Import => ("POST", "images".to_owned(), None),
        };
        let mut client = Client::connect(&daemon.unix());
        let (text, path) = (body.as_ref().map(Value::to_string), format!("/v1/{path}"));
        let content = text.as_deref().map(str::as_bytes);
        match self {
            Self::Import => {
                let tar = [("content-type", "application/x-tar")];
                client.ask(method, &path, &tar, Some(image));
            }
            _ => client.ask(method, &path, &[], content),
        }
        client
    }

    /// Whether the session may be there, suspended, after the kill, and whether it may be gone.
    const fn ends(self, is_done: bool) -> (bool, bool) {
        match self {
            // It is awake until it is suspended, and then no more.
            Self::Suspend | Self::Import => (true, !is_done),
            Self::Resume | Self::RollBack | Self::Delete => (!is_done, true),
            Self::Checkpoint => (true, false),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "when the kill comes is what is tried")]
fn pause(duration: Duration) {
    thread::sleep(duration);
}

fn rounds() -> u32 {
    std::env::var("VIVARIUM_TEST_KILLS").map_or(24, |it| it.parse().unwrap())
}

/// Names of what is below the images, but for what belongs to no session.
fn places(dir: &Path) -> Vec<String> {
    let at = dir.join("state/images/default");
    let Ok(found) = fs::read_dir(at) else { return Vec::new() };
    found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_suspended_session_is_whole_or_gone_whenever_its_daemon_is_killed() {
    let mut daemon = images(&[]).start();
    let (mut there, mut gone) = (0, 0);
    for (round, step) in (0..rounds()).zip(STEPS.into_iter().cycle()) {
        let id = format!("s{round}");
        let image = step.prepare(&daemon, &id);
        let mut client = step.ask(&daemon, &id, &image);
        pause(LATER * (round / 6 % TIMES));
        let dir = daemon.kill_and_check();
        let is_done = client.receive().is_some_and(|answer| answer.status < 300);
        daemon = images(&[]).in_place_of(dir).start();
        let about = format!("{step:?} {round}, done: {is_done}");
        assert!(!daemon.log().contains("can not be read"), "{about}: {}", daemon.log());
        let begun: Vec<_> =
            places(daemon.dir()).into_iter().filter(|name| name.starts_with('.')).collect();
        assert_eq!(begun, [""; 0], "{about}");
        let session = Session::named(&daemon, &id);
        let shown = session.request("GET", "", None);
        let (may_be_there, may_be_gone) = step.ends(is_done);
        match shown.status {
            200 => {
                assert!(may_be_there, "{about}");
                let found: i32 = session.value("x").parse().unwrap();
                let asleep = if step == Step::RollBack { 2 } else { 1 };
                assert_eq!(found, asleep, "{about}");
                if step == Step::Checkpoint && is_done {
                    let to = json!({"checkpoint": "new"});
                    let _back = session.request("POST", "/rollback", Some(&to)).expect_success();
                }
                assert_eq!(session.request("DELETE", "", None).status, 204, "{about}");
                there += 1;
            }
            404 => {
                assert!(may_be_gone, "{about}");
                gone += 1;
            }
            status => panic!("{about}: {status}"),
        }
    }
    // The control: the kills come before the end, and after it.
    assert!(there > 0 && gone > 0, "{there} {gone}");
    daemon.stop_and_check();
}

/// The processes of the only session by whose names the victims are.
const AGENT: &str = "viv-agent";
const KERNEL: &str = "python";

/// Kills the agent of the only session, or its kernel or what that has forked to write it; whether there was one.
fn kill_of_session(daemon: &Daemon, name: &str) -> bool {
    let templates = daemon.templates();
    let found = daemon.descendants().into_iter().find(|process| {
        process.name.starts_with(name) && !templates.iter().any(|it| it.pid == process.pid)
    });
    found.is_some_and(|it| kill(Pid::from_raw(it.pid), Signal::SIGKILL).is_ok())
}

#[test]
fn a_session_is_what_it_was_before_or_after_whenever_its_agent_or_kernel_is_killed() {
    let daemon = images(&[]).start();
    let steps = [Step::Suspend, Step::Resume, Step::Checkpoint, Step::RollBack];
    let (mut kills, mut wholes) = (0, 0);
    for (round, step) in (0..rounds()).zip(steps.into_iter().cycle()) {
        let name = if round / 4 % 2 == 0 { AGENT } else { KERNEL };
        let id = format!("s{round}");
        let _image = step.prepare(&daemon, &id);
        let session = Session::named(&daemon, &id);
        let is_awake = step == Step::Suspend || (step != Step::Resume && round % 16 < 8);
        if is_awake {
            let _awake = session.execute("x").ok();
        }
        let mut client = step.ask(&daemon, &id, &[]);
        pause(LATER * (round * 5 % TIMES));
        let is_killed = kill_of_session(&daemon, name);
        kills += u32::from(is_killed);
        let is_done = client.receive().unwrap().status < 300;
        let about = format!("{step:?} {round}, {name}, done: {is_done}");
        // The kill may cost a session that is awake its state, and never one that is asleep.
        let was_awake = if step == Step::Suspend { !is_done } else { is_awake || is_done };
        let may_be_lost = is_killed && was_awake;
        let answer = session.request("POST", "/execute", Some(&json!({"code": "x"})));
        let outcome = answer.json();
        match (answer.status, outcome["status"].as_str()) {
            (404, _) => assert!(may_be_lost && name == AGENT, "{about}"),
            (200, Some("ok")) => {
                let may_be_before = step == Step::RollBack && !is_done;
                let x = outcome["result"]["repr"].as_str().unwrap();
                assert!(x == "1" || (x == "2" && may_be_before), "{about}: {x}");
                wholes += 1;
            }
            (200, _) => assert!(may_be_lost, "{about}: {outcome}"),
            (status, _) => panic!("{about}: {status} {outcome}"),
        }
        let there = session.request("GET", "", None).status == 200;
        if there && step == Step::Checkpoint && is_done {
            let to = json!({"checkpoint": "new"});
            let _back = session.request("POST", "/rollback", Some(&to)).expect_success();
            assert_eq!(session.value("x"), "1", "{about}");
        }
        let _ended = session.request("DELETE", "", None);
        daemon.until_only(0);
    }
    // The control: there was something to kill, and not all of it took the state along.
    assert!(kills > 0 && wholes > 0, "{kills} {wholes}");
    daemon.stop_and_check();
}
