//! Somebody changes the log: the verifier, the next start and the journal's heads find it.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::json;
use vivarium_tests::{Daemon, program};

use super::{lines, place, setup, verify};

fn file(at: &Path) -> PathBuf {
    at.join("audit-000001.jsonl")
}

/// Makes a log with some executions; returns the last head in the daemon's own log.
fn made(at: &Path) -> String {
    let daemon = setup(at, "").start();
    let session = daemon.session_with(&json!({"id": "s"}));
    for _ in 0..5 {
        drop(session.execute("1 + 1"));
    }
    let log = stop(daemon);
    let head = log.split("head=").last().unwrap();
    head.trim_start_matches('"').chars().take_while(char::is_ascii_hexdigit).collect()
}

/// Stops a daemon, and returns its log.
fn stop(mut daemon: Daemon) -> String {
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait().success());
    daemon.log()
}

#[test]
fn each_way_of_changing_the_log_is_found() {
    let place = place();
    let at = place.path().join("audit");
    let head = made(&at);
    assert!(verify(&at, &["--head", &head]).0, "the control, {head}");
    let text = fs::read_to_string(file(&at)).unwrap();
    let all: Vec<_> = text.split_inclusive('\n').collect();
    let mut swapped = all.clone();
    swapped.swap(3, 4);
    let changes = [
        ("edited", text.replacen("execution_ended", "execution_endet", 1)),
        ("deleted", [&all[..4], &all[5..]].concat().concat()),
        ("reordered", swapped.concat()),
        ("headless", all[1..].concat()),
        ("doubled", [&all[..5], &all[4..]].concat().concat()),
    ];
    for (what, changed) in changes {
        fs::write(file(&at), changed).unwrap();
        let (intact, report) = verify(&at, &[]);
        assert!(!intact && !report["breaks"].as_array().unwrap().is_empty(), "{what}: {report}");
    }
    // What is cut at the end of a line, or wholly made up, shows by the head in the journal.
    fs::write(file(&at), all[..all.len() - 3].concat()).unwrap();
    assert!(verify(&at, &[]).0, "the control");
    assert!(!verify(&at, &["--head", &head]).0);
    fs::remove_file(file(&at)).unwrap();
    let other = made(&at);
    assert!(verify(&at, &["--head", &other]).0, "the control");
    assert!(!verify(&at, &["--head", &head]).0);
}

#[test]
fn a_daemon_that_finds_a_break_says_so_and_records_it() {
    let place = place();
    let at = place.path().join("audit");
    drop(made(&at));
    let text = fs::read_to_string(file(&at)).unwrap();
    fs::write(file(&at), text.replacen("\"s\"", "\"t\"", 1)).unwrap();
    let daemon = setup(&at, "").config("sandbox", "mode = \"auto\"").start();
    assert!(daemon.log().contains("the chain of the audit log is broken"), "{}", daemon.log());
    let metrics = String::from_utf8(daemon.request("GET", "/metrics", None).body).unwrap();
    assert!(metrics.contains("\nvivarium_audit_breaks_total 1\n"), "{metrics}");
    drop(stop(daemon));
    let (intact, report) = verify(&at, &[]);
    assert!(!intact && report["breaks"][0]["is_recorded"] == true, "{report}");
    let opened = lines(&at).into_iter().rfind(|line| line["event"] == "file_opened").unwrap();
    assert_eq!(opened["broken"][0]["file"], "audit-000001.jsonl", "{opened}");
}

#[test]
fn mode_on_does_not_start_on_a_broken_chain() {
    let place = place();
    let at = place.path().join("audit");
    drop(made(&at));
    let text = fs::read_to_string(file(&at)).unwrap();
    fs::write(file(&at), text.replacen("\"s\"", "\"t\"", 1)).unwrap();
    let strict = setup(&at, "").config("sandbox", "mode = \"on\"").try_start();
    let (status, log) = strict.unwrap_err();
    assert!(!status.success());
    assert!(log.contains("the chain of the audit log") && log.contains("line 3"), "{log}");
    assert_eq!(fs::read_dir(&at).unwrap().count(), 1, "nothing was written");
}

#[test]
fn a_directory_without_a_log_is_not_intact() {
    let temp = place();
    let at = temp.path().join("audit");
    fs::create_dir(&at).unwrap();
    let run = program::run(&["audit", "verify", "--dir", at.to_str().unwrap()]);
    assert_eq!(run.code(), 1, "{run:?}");
    assert!(run.stderr().contains("there is no audit log here"), "{run:?}");
    fs::remove_dir(&at).unwrap();
    drop(made(&at));
    assert!(verify(&at, &[]).0);
}
