//! `vivarium top`.

use serde_json::Value;
use vivarium_tests::{Daemon, Setup, Terminal, program};

use super::{url, vivarium};

fn top(daemon: &Daemon, arguments: &[&str]) -> Terminal {
    let mut command = vivarium(daemon.dir(), &["top", "--url", &url(daemon)]);
    Terminal::run(command.args(arguments))
}

#[test]
fn sessions_tenants_and_layers_are_seen_and_q_ends() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&serde_json::json!({"id": "demo"}));
    let _other = daemon.session_with(&serde_json::json!({"id": "other"}));
    let mut terminal = top(&daemon, &["--interval", "100ms"]);
    terminal.sees("demo");
    terminal.sees("2 of 256 sessions");
    // What changes is seen.
    let _ran = session.execute("1").ok();
    let shows = |screen: &str| {
        let line = screen.lines().find(|line| line.starts_with("demo")).unwrap_or_default();
        // The unit of its memory is a word of its own.
        [5, 6].iter().any(|word| line.split_whitespace().nth(*word) == Some("1"))
    };
    terminal.wait("one execution of demo", shows);
    terminal.keys("/oth\r");
    terminal.wait("only the other one", |screen| {
        screen.contains("only oth") && !screen.contains("\ndemo")
    });
    terminal.keys("\x1b");
    terminal.sees("\ndemo");
    terminal.keys("2");
    terminal.wait("the tenants", |screen| {
        screen.contains("PROCESSES") && screen.lines().any(|line| line.starts_with("default "))
    });
    terminal.keys("3");
    terminal.sees("seccomp");
    terminal.keys("q");
    assert_eq!(terminal.wait_end().code(), Some(0));
    // The terminal is as it was: the other screen, and the cursor.
    let raw = terminal.raw();
    assert!(raw.contains("\x1b[?1049l") && raw.ends_with("\x1b[?25h"), "{raw:?}");
    daemon.stop_and_check();
}

#[test]
fn a_daemon_that_goes_away_is_waited_for() {
    let daemon = Daemon::start();
    let _session = daemon.session_with(&serde_json::json!({"id": "before"}));
    let mut terminal = top(&daemon, &["--interval", "100ms"]);
    terminal.sees("before");
    let dir = daemon.kill_and_check();
    terminal.sees("is not reachable, trying again");
    let daemon = Setup::default().in_place_of(dir).start();
    let _session = daemon.session_with(&serde_json::json!({"id": "after"}));
    terminal.sees("after");
    terminal.wait("no complaint", |screen| !screen.contains("not reachable"));
    terminal.keys("\x03");
    assert_eq!(terminal.wait_end().code(), Some(0));
    daemon.stop_and_check();
}

#[test]
fn once_is_for_pipes() {
    let daemon = Daemon::start();
    let _session = daemon.session_with(&serde_json::json!({"id": "demo"}));
    let url = url(&daemon);
    let once = |argument| {
        let mut command = vivarium(daemon.dir(), &["top", "--url", &url, argument]);
        program::finish(&mut command, "").expect_code(0).stdout()
    };
    let text = once("--once");
    for part in ["1 of 256 sessions", "demo", "idle", "SESSIONS", "seccomp"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: Value = serde_json::from_str(&once("--json")).unwrap();
    assert_eq!(json["sessions"][0]["id"], "demo");
    assert_eq!(json["tenants"][0]["name"], "default");
    assert!(json["host"]["layers"].as_array().unwrap().len() >= 9);
    let live = program::finish(&mut vivarium(daemon.dir(), &["top", "--url", &url]), "");
    assert!(live.expect_code(2).stderr().contains("--once"));
    daemon.stop_and_check();
    let nobody = ["top", "--once", "--url", "http://127.0.0.1:1"];
    let dir = program::temp_dir();
    let gone = program::finish(&mut vivarium(dir.path(), &nobody), "").expect_code(3);
    assert!(gone.stderr().contains("cannot connect"), "{}", gone.stderr());
}
