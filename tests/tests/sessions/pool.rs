//! Sessions from a pool: as any other, only earlier.

use std::collections::BTreeSet;
use std::fs;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use vivarium_tests::{Daemon, Setup, wait};

/// What a session says of itself that a pool must not make another.
const OWN: &str = "
import ctypes, os
status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
told = {key: status[key].strip() for key in
        ('NoNewPrivs', 'Seccomp', 'Seccomp_filters', 'CapEff', 'CapBnd', 'NSpid')}
told['cgroup'] = [line for line in open('/proc/self/cgroup') if line.startswith('0::')]
told['mounts'] = [line.split()[4:6] for line in open('/proc/self/mountinfo')]
told['env'] = sorted(os.environ.items())
told['fds'] = sorted(os.listdir('/proc/self/fd'))
told['cwd'] = os.getcwd(), os.listdir('.'), os.listdir('/tmp')
told";

fn setup(size: usize) -> Setup {
    Setup::default().config("environments.default", &format!("pool_size = {size}"))
}

fn pool(daemon: &Daemon) -> Value {
    let host = daemon.request("GET", "/v1/host", None).expect_success();
    host["environments"][0]["pool"].clone()
}

fn until_ready(daemon: &Daemon, count: u64) {
    wait::until_true("sessions in the pool", || pool(daemon)["ready"] == count);
}

fn metric(daemon: &Daemon, name: &str) -> Option<u64> {
    let text = String::from_utf8(daemon.request("GET", "/metrics", None).body).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

fn hits(daemon: &Daemon) -> u64 {
    let name = r#"vivarium_pool_takes_total{environment="default",outcome="hit"}"#;
    metric(daemon, name).unwrap()
}

#[test]
fn a_session_from_the_pool_is_confined_and_told_of_as_any_other() {
    let daemon = setup(1).start();
    until_ready(&daemon, 1);
    assert_eq!(pool(&daemon), json!({"ready": 1, "low": 1, "high": 1}));
    let listed = daemon.request("GET", "/v1/sessions", None).expect_success();
    assert_eq!(listed["sessions"], json!([]));
    let host = daemon.request("GET", "/v1/host", None).expect_success();
    assert_eq!(host["capacity"]["sessions"], 0);
    let pooled = daemon.session_with(&json!({"id": "pooled", "metadata": {"a": "b"}}));
    assert_eq!(hits(&daemon), 1);
    // With a limit of its own it has to be started.
    let limits = json!({"max_output_bytes": 1_000_000});
    let other = daemon.session_with(&json!({"id": "other", "limits": limits}));
    assert_eq!(hits(&daemon), 1);
    let (info, usual) = (pooled.info(), other.info());
    assert_eq!(info["state"], "idle");
    assert_eq!(info["metadata"], json!({"a": "b"}));
    for key in ["protection", "network", "tenant", "environment"] {
        assert_eq!(info[key], usual[key], "{key}");
    }
    assert_eq!(info["created_at"], info["last_used_at"]);
    assert_eq!(pooled.value(OWN), other.value(OWN));
    let _set = pooled.execute("x = 41").ok();
    assert_eq!(pooled.value("x + 1"), "42");
    pooled.reset();
    let _lost = pooled.execute("x").ended("error", "", "preserved");
    daemon.stop_and_check();
}

#[test]
fn nobody_gets_what_another_has_had() {
    let daemon = setup(4).start();
    until_ready(&daemon, 4);
    let unique =
        "import os, secrets; open('mark', 'x').close(); os.stat('/proc/self/ns/pid').st_ino";
    let seen = thread::scope(|scope| {
        let all: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    let session = daemon.session();
                    // The file is new, so the session is.
                    (session.value(unique), session.id)
                })
            })
            .collect();
        let all: Vec<_> = all.into_iter().map(|one| one.join().unwrap()).collect();
        all.into_iter().collect::<BTreeSet<_>>()
    });
    let namespaces: BTreeSet<_> = seen.iter().map(|(namespace, _)| namespace).collect();
    assert_eq!((seen.len(), namespaces.len()), (12, 12));
    assert!(hits(&daemon) >= 4);
    daemon.stop_and_check();
}

#[test]
fn a_run_and_an_execution_that_makes_its_session_come_from_the_pool() {
    let daemon = setup(2).start();
    until_ready(&daemon, 2);
    assert_eq!(daemon.run(&json!({"code": "print(1)"})).stdout(), "1\n");
    let path = "/v1/sessions/made/execute?create=true";
    let made = daemon.request("POST", path, Some(&json!({"code": "2"})));
    assert_eq!(made.expect_success()["result"]["repr"], "2");
    assert_eq!(hits(&daemon), 2);
    daemon.stop_and_check();
}

#[test]
fn one_that_is_killed_while_it_waits_is_replaced() {
    let daemon = setup(1).start();
    until_ready(&daemon, 1);
    let before = daemon.descendants();
    let kernel = before.iter().find(|process| process.name.starts_with("python")).unwrap();
    kill(Pid::from_raw(kernel.pid), Signal::SIGKILL).unwrap();
    wait::until_true("another session in the pool", || {
        pool(&daemon)["ready"] == 1 && !before.iter().any(|process| process.is_alive())
    });
    assert_eq!(daemon.session().value("1 + 1"), "2");
    daemon.until_logged("pooled sessions ended by themselves");
    daemon.stop_and_check();
}

#[test]
fn a_reload_fills_the_pool_with_what_is_configured_then() {
    let daemon = setup(1).start();
    until_ready(&daemon, 1);
    let before = daemon.descendants();
    let path = daemon.dir().join("vivarium.toml");
    let text = fs::read_to_string(&path).unwrap().replace("pool_size = 1", "pool_size = 2");
    fs::write(&path, format!("{text}\n[sandbox]\nmax_procs = 9\n")).unwrap();
    daemon.signal(Signal::SIGHUP);
    wait::until_true("the new pool", || pool(&daemon) == json!({"ready": 2, "low": 1, "high": 2}));
    wait::until_true("the end of the old one", || !before.iter().any(|one| one.is_alive()));
    assert_eq!(daemon.session().info()["limits"]["max_procs"], 9);
    assert_eq!(hits(&daemon), 1);
    daemon.stop_and_check();
}

#[test]
fn after_sigkill_the_next_start_clears_what_waited() {
    let daemon = setup(2).start();
    until_ready(&daemon, 2);
    let cgroup = daemon.cgroup();
    if let Some(cgroup) = &cgroup {
        assert_eq!(fs::read_dir(cgroup.join("tenants/default")).unwrap().filter(is_dir).count(), 2);
    }
    let dir = daemon.kill_and_check();
    let again = setup(1).in_place_of(dir).start();
    until_ready(&again, 1);
    if let Some(cgroup) = cgroup {
        assert!(!cgroup.exists(), "{} is left", cgroup.display());
    }
    again.stop_and_check();
}

fn is_dir(entry: &std::io::Result<fs::DirEntry>) -> bool {
    entry.as_ref().unwrap().file_type().unwrap().is_dir()
}

#[test]
fn a_pool_that_is_being_filled_does_not_delay_the_end() {
    let daemon = setup(50).start();
    wait::until_true("the first", || pool(&daemon)["ready"].as_u64().unwrap() > 0);
    daemon.stop_and_check();
}
