//! What outlives a daemon, and what does not.

use serde_json::json;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::wait;

use crate::{ADMIN, Packages, begin, built};

#[test]
fn killed_build_leaves_nothing_and_what_was_built_stays() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    packages.add("wait");
    let daemon = packages.setup("").start();
    let hash = built(&daemon, "tools", "tiny==1.0");
    let staging = |dir: &std::path::Path| dir.join("state/environments/staging");
    assert_eq!(begin(&daemon, "tools", "wait").status, 202);
    begin(&daemon, "tools", "tiny").expect_problem(409, "build_running");
    let at = staging(daemon.dir());
    wait::until_true("the build to be in its middle", || {
        let builds = std::fs::read_dir(&at).unwrap();
        builds.flatten().any(|build| build.path().join("data/waits").exists())
    });
    let dir = daemon.kill_and_check();
    assert_eq!(std::fs::read_dir(staging(dir.path())).unwrap().count(), 1, "the control");
    let daemon = packages.setup("").in_place_of(dir).start();
    wait::until_true("what was half done to be cleared", || {
        std::fs::read_dir(staging(daemon.dir())).unwrap().count() == 0
    });
    let last = daemon.request("GET", &format!("{ADMIN}/tools/build"), None).expect_success();
    assert_eq!(
        (&last["state"], &last["error"]),
        (&json!("failed"), &json!("the daemon ended during the build"))
    );
    let kept = daemon.request("GET", &format!("{ADMIN}/tools"), None).expect_success();
    assert_eq!(kept["artefact"], hash);
    let session = daemon.session_with(&json!({"environment": "tools"}));
    assert_eq!(session.value("__import__('tiny').VERSION"), "'1.0'");
}

#[test]
fn build_that_takes_too_long_is_ended() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    packages.add("wait");
    let daemon = packages.setup("timeout = \"3s\"").start();
    let error = crate::failed(&daemon, "wait", "wait");
    assert!(error.contains("builds.timeout"), "{error}");
    daemon.stop_and_check();
}
