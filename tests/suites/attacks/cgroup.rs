//! The session's scope.

use std::fs;
use std::path::Path;

use vivarium_tests::Setup;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::probe::{self, Attempt};

use crate::every_way::{daemon, setup};

/// The path of a process's cgroup in the v2 hierarchy: cgroups(7). Those of v1 are shown by the same namespace, and whoever
/// manages them may move a process after its birth, which then has a path below the namespace's root.
fn path(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("0::")).unwrap()
}

#[test]
fn paths_of_the_hosts_tree_are_not_visible() {
    if !host::has(&[Requirement::Cgroup]) {
        return;
    }
    let read = |setup: Setup| {
        let daemon = setup.start();
        let session = daemon.session();
        probe::load(&session);
        Attempt::make(&session, "read('/proc/self/cgroup')").value().as_str().unwrap().to_owned()
    };
    let inside = read(setup());
    assert_eq!(path(&inside), "/", "{inside}");
    // Without a cgroup namespace it says what it says of this process.
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    assert_eq!(path(&read(setup().without(&["cgroup"]))), path(&own));
}

#[test]
fn every_process_of_a_session_starts_in_its_scope() {
    if !host::has(&[Requirement::Cgroup]) {
        return;
    }
    let daemon = daemon();
    let session = daemon.session();
    let _children = session.execute("import subprocess; subprocess.Popen(['sleep', '1000'])").ok();
    let scope = session.scope();
    let count =
        |cgroup: &Path| fs::read_to_string(cgroup.join("cgroup.procs")).unwrap().lines().count();
    assert_eq!((count(&scope.join("agent")), count(&session.leaf())), (1, 2));
    assert_eq!((count(&scope), count(&scope.join("kernel"))), (0, 0));
    assert_eq!(session.request("DELETE", "", None).status, 204);
    assert!(!scope.exists(), "{} is left", scope.display());
    daemon.stop_and_check();
}

#[test]
fn what_controllers_are_missing_is_said() {
    if !host::has(&[Requirement::Cgroup]) {
        return;
    }
    let daemon = daemon();
    let layer = daemon.layer("cgroup");
    let root = daemon.cgroup().unwrap();
    let controllers = fs::read_to_string(root.join("tenants/cgroup.controllers")).unwrap();
    for controller in ["memory", "pids", "cpu"] {
        let is_there = controllers.split_whitespace().any(|name| name == controller);
        if !is_there {
            assert_eq!(layer["status"], "partial", "{layer}");
            assert!(layer["detail"].as_str().unwrap().contains(controller), "{layer}");
            assert!(!layer["fix"].as_str().unwrap().is_empty(), "{layer}");
        }
    }
}

#[test]
fn tenant_code_is_killed_first_where_memory_runs_out() {
    if !host::has(&[Requirement::Cgroup]) {
        return;
    }
    // Without the layer nobody is preferred. A process of the tenant can not take it back: what
    // refuses is Landlock, which is off in both rows of the control.
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    for (layers, score, lowered) in
        [(&[] as &[&str], "1000\n", "EACCES"), (&["cgroup", "landlock"], own.as_str(), "works")]
    {
        let daemon = setup().without(layers).start();
        let session = daemon.session();
        let read = "read('/proc/self/oom_score_adj')";
        let lower = "open('/proc/self/oom_score_adj', 'w').write('900') and None";
        probe::check(&session, &[(lower, lowered)]);
        let mut found = Attempt::make_in_command(&session, &[read]);
        found.push(Attempt::make(&session, read));
        for attempt in found {
            assert_eq!(attempt.value(), score, "without {layers:?}");
        }
        daemon.stop_and_check();
    }
}
