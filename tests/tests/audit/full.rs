//! A full disk, under both policies: a tmpfs of 256 KiB.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use vivarium_tests::host::{Requirement, has};
use vivarium_tests::wait;

use super::{lines, of_event, place, setup, verify};

/// A small file system, unmounted on drop.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        if !has(&[Requirement::Root]) {
            return None;
        }
        let place = place();
        let options = ["-t", "tmpfs", "-o", "size=256k,mode=777", "none"];
        let mounted = Command::new("mount").args(options).arg(place.path()).status().unwrap();
        assert!(mounted.success());
        Some(Self(place))
    }

    fn fill(&self) {
        let block = vec![0; 1 << 20];
        let full = std::fs::write(self.0.path().join("filling"), block);
        assert!(full.is_err());
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.path().join("filling")).unwrap();
    }

    fn log(&self) -> std::path::PathBuf {
        self.0.path().join("audit")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

fn gaps(at: &Path) -> Vec<u64> {
    let all = lines(at);
    of_event(&all, "gap").iter().map(|line| line["lost"].as_u64().unwrap()).collect()
}

#[test]
fn with_stop_nothing_new_runs_and_nothing_is_lost() {
    let Some(small) = Small::mount() else { return };
    let at = small.log();
    let daemon = setup(&at, "on_full = \"stop\"\ncapture_code = true")
        .config("homes", "allowed = [\"volumes\"]")
        .start();
    let session = daemon.session_with(&json!({"id": "s"}));
    drop(session.execute("1"));
    let make = |name: &str| daemon.request("POST", "/v1/volumes", Some(&json!({ "name": name })));
    assert_eq!(make("v").status, 201);
    small.fill();
    let filling = format!("# {}", "x".repeat(8_000));
    // The disk is found to be full by the first that is to be written.
    let mut ran = 1;
    let refused = wait::until("a refusal", || {
        let answer = session.request("POST", "/execute", Some(&json!({"code": filling})));
        if answer.status == 200 {
            ran += 1;
            return None;
        }
        Some(answer)
    });
    drop(refused.expect_problem(503, "audit_unavailable"));
    assert!(refused.header("retry-after").is_some());
    // Nor is a volume made, which would be a line for each; what is there can go.
    make("w").expect_problem(503, "audit_unavailable");
    assert_eq!(daemon.request("DELETE", "/v1/volumes/v", None).status, 204);
    let metrics = String::from_utf8(daemon.request("GET", "/metrics", None).body).unwrap();
    assert!(metrics.contains("\nvivarium_audit_refusing 1\n"), "{metrics}");
    small.empty();
    wait::until_true("room", || {
        session.request("POST", "/execute", Some(&json!({"code": "2"}))).status == 200
    });
    daemon.stop_and_check();
    let (intact, report) = verify(&at, &[]);
    assert!(intact && report["lost"] == 0, "{report}");
    assert_eq!(of_event(&lines(&at), "execution_ended").len(), ran + 1);
    assert_eq!(of_event(&lines(&at), "volume").len(), 2);
    assert_eq!(gaps(&at), [0], "it is told, and nothing is missing");
}

#[test]
fn with_go_on_everything_runs_and_what_is_lost_is_counted() {
    let Some(small) = Small::mount() else { return };
    let at = small.log();
    let daemon = setup(&at, "on_full = \"go_on\"\ncapture_code = true").start();
    let session = daemon.session_with(&json!({"id": "s"}));
    wait::until_true("the session in the log", || {
        !of_event(&lines(&at), "session_created").is_empty()
    });
    small.fill();
    let filling = format!("# {}", "x".repeat(8_000));
    for _ in 0..20 {
        drop(session.execute(&filling));
    }
    small.empty();
    wait::until_true("the log to be written again", || {
        daemon.log().contains("the audit log is written again")
    });
    drop(session.execute("1"));
    daemon.stop_and_check();
    let (intact, report) = verify(&at, &[]);
    assert!(intact, "{report}");
    let lost: u64 = gaps(&at).iter().sum();
    assert_eq!(report["lost"], lost);
    let all = lines(&at);
    let there = of_event(&all, "execution_started").len() + of_event(&all, "execution_ended").len();
    assert!(lost > 0 && there as u64 + lost == 42, "{there} {lost}");
}
