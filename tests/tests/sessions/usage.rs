//! What sessions and executions have used, and what a host can not tell.

use std::fs;

use serde_json::Value;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::{Daemon, Setup};

/// A child that uses 400 ms of CPU time, and that nobody waits for.
const FORGOTTEN_CHILD: &str = "\
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
reader, writer = os.pipe()
if os.fork() == 0:
    while time.process_time() < 0.4: pass
    os._exit(0)
os.close(writer)
os.read(reader, 1)
";

#[test]
fn children_that_nobody_waited_for_are_counted() {
    if !host::has(&[Requirement::Cgroup]) {
        return;
    }
    let cpu_ms = |setup: Setup| {
        let daemon = setup.start();
        let outcome = daemon.session().execute(FORGOTTEN_CHILD).ok();
        outcome.0["usage"]["cpu_ms"].as_f64().unwrap()
    };
    assert!(cpu_ms(Setup::default()) >= 400.0);
    // Only the scope knows of it.
    assert!(cpu_ms(Setup::default().without(&["cgroup"])) < 400.0);
}

#[test]
fn executions_do_not_pay_for_what_was_used_before_them() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let _first = session.execute(FORGOTTEN_CHILD).ok();
    let second = session.execute("1").ok();
    assert!(second.0["usage"]["cpu_ms"].as_f64().unwrap() < 400.0, "{second}");
}

/// A kernel's files in /proc can be opened only some time after it started: each of many has to be
/// measured from its first execution on.
#[test]
fn every_kernel_is_measured_from_its_first_execution_on() {
    let daemon = Daemon::start();
    for _ in 0..10 {
        let session = daemon.session();
        for _ in 0..2 {
            let outcome = session.execute("data = b'x' * (32 << 20)").ok();
            let peak = outcome.0["usage"]["memory_peak_bytes"].as_u64().unwrap();
            assert!(peak > 32 << 20, "{outcome}");
            let _fresh_kernel = session.reset();
        }
    }
}

#[test]
fn what_no_controller_counts_is_null() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let outcome = session.execute("open('file', 'w').write('text')").ok();
    let info = session.info();
    let controllers = daemon.cgroup().map(|root| {
        fs::read_to_string(root.join("tenants/cgroup.controllers")).unwrap_or_default()
    });
    let has = |wanted: &str| {
        controllers.iter().flat_map(|all| all.split_whitespace()).any(|name| name == wanted)
    };
    for (usage, members) in [
        (&outcome.0["usage"], vec![("io_read_bytes", "io"), ("io_write_bytes", "io")]),
        (
            &info["usage"],
            vec![("io_read_bytes", "io"), ("io_write_bytes", "io"), ("memory_bytes", "memory")],
        ),
    ] {
        for (member, controller) in members {
            let value = usage.get(member).unwrap();
            assert_eq!(value.is_u64(), has(controller), "{member}: {usage}");
            assert_eq!(value.is_null(), !has(controller), "{member}: {usage}");
        }
    }
    // Kernels before 6.1 do not tell it with a controller either.
    let peak: &Value = info["usage"].get("processes_peak").unwrap();
    assert!(peak.is_null() || has("pids"), "{peak}");
}
