//! What a session sees of the host's processes and names.

use serde_json::json;
use vivarium_tests::Setup;
use vivarium_tests::probe::{self, Attempt};

use crate::every_way::{daemon, setup};

#[test]
fn processes_of_the_host_do_not_exist() {
    let attack = |pid: i32| format!("os.kill({pid}, 0)");
    let check = |setup: Setup, word: &str| {
        let daemon = setup.start();
        // The daemon has the session's own user id, so it is the best that there is to hit.
        probe::check(&daemon.session(), &[(&attack(daemon.pid()), word)]);
    };
    check(setup(), "ESRCH");
    // There, and out of reach by Landlock's scope of signals (ABI 6) or by another id.
    check(setup().without(&["namespaces"]), "EPERM|works");
    check(setup().without(&["namespaces", "landlock"]), "works");
}

#[test]
fn the_host_can_not_be_told_by_its_names() {
    let host = nix::sys::utsname::uname().unwrap().nodename().to_string_lossy().into_owned();
    let name = |setup: Setup| {
        let daemon = setup.start();
        let session = daemon.session();
        probe::load(&session);
        Attempt::make(&session, "os.uname().nodename").value()
    };
    assert_eq!(name(setup()), "vivarium");
    assert_eq!(name(setup().without(&["namespaces"])), json!(host));
}

#[test]
fn every_namespace_is_another_than_the_hosts() {
    let daemon = daemon();
    let session = daemon.session();
    probe::load(&session);
    for name in ["user", "pid", "mnt", "net", "ipc", "uts"] {
        let link = format!("os.readlink('/proc/self/ns/{name}')");
        let inside = Attempt::make(&session, &link).value();
        let outside = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        assert_ne!(inside, json!(outside.to_string_lossy()), "{name}");
    }
}

#[test]
fn the_end_of_a_session_is_the_end_of_all_its_processes() {
    let daemon = daemon();
    let session = daemon.session();
    let scatter = "
import os, subprocess
subprocess.Popen(['sleep', '1000'])
subprocess.Popen(['sleep', '1000'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp('sleep', ['sleep', '1000'])
    os._exit(0)";
    let _scattered = session.execute(scatter).ok();
    vivarium_tests::wait::until_true("three sleepers", || {
        daemon.descendants().iter().filter(|process| process.name == "sleep").count() == 3
    });
    let deleted = session.request("DELETE", "", None);
    assert_eq!(deleted.status, 204);
    daemon.until_only(0);
    daemon.stop_and_check();
}
