//! What a session sees of the host's processes and names.

use serde_json::json;
use vivarium_tests::Setup;
use vivarium_tests::probe::{self, Attempt};

use super::contrast;
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

/// The second line, behind the filter: the limits of the session's own user namespace, which the
/// mounts layer can set.
#[test]
fn no_further_namespaces_can_be_made_without_the_filter() {
    let attacks =
        ["call('unshare', NEWUSER)", "clone_with(NEWUSER)", "clone_with(NEWUSER | NEWNS)"];
    contrast(&["seccomp"], &attacks.map(|attack| (attack, "EPERM", "ENOSPC")));
    contrast(&["seccomp", "mounts"], &attacks.map(|attack| (attack, "EPERM", "works")));
    let writes = [
        ("write('/proc/sys/user/max_user_namespaces', '9')", "EACCES"),
        ("read('/proc/sys/user/max_user_namespaces')", "works"),
    ];
    let daemon = setup().without(&["seccomp"]).start();
    probe::check(&daemon.session(), &writes);
}

/// Each process that starts takes a cgroup namespace, and gives it back at its end.
#[test]
fn counted_kernel_objects_are_limited_to_what_process_starts_need() {
    let daemon = setup().start();
    let session = daemon.session_with(&json!({"limits": {"max_procs": 3}}));
    let counts = "
import os
place = '/proc/sys/user'
{name: int(open(f'{place}/{name}').read()) for name in os.listdir(place)}";
    let counts = session.value(counts);
    let cgroups = if session.layer("cgroup")["status"] == "unavailable" { 0 } else { 11 };
    for (name, most) in [
        ("cgroup_namespaces", cgroups),
        ("user_namespaces", 0),
        ("mnt_namespaces", 0),
        ("net_namespaces", 0),
        ("inotify_instances", 6),
        ("inotify_watches", 5120),
    ] {
        assert!(counts.contains(&format!("'max_{name}': {most}")), "{name}: {counts}");
    }
    for _ in 0..12 {
        assert_eq!(session.command(&json!({"argv": ["echo", "born"]})).ok().stdout(), "born\n");
    }
    daemon.stop_and_check();
}

/// The host counts inotify instances for all sessions together, so what one has the others lack.
#[test]
fn no_session_uses_up_the_hosts_inotify() {
    let take = "
import ctypes
held = [ctypes.CDLL(None).inotify_init1(0) for _ in range(8)]
sum(instance >= 0 for instance in held)";
    let taken = |setup: Setup| {
        let daemon = setup.start();
        let attacker = daemon.session();
        let taken: u32 = attacker.value(take).parse().unwrap();
        let other = daemon.session();
        let _first = other.execute("open('first', 'w').close()").ok();
        let outcome = other.execute("open('second', 'w').close()").ok();
        assert_eq!(outcome.0["files_changed"][0]["name"], "second");
        daemon.stop_and_check();
        taken
    };
    assert_eq!(taken(setup()), 0);
    let limited = taken(setup().without(&["seccomp"]));
    assert!((1..=6).contains(&limited), "{limited}");
    assert_eq!(taken(setup().without(&["seccomp", "mounts"])), 8);
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
