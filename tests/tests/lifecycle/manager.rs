//! The daemon as its service manager sees it.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::program::{self, Runner};
use vivarium_tests::{Setup, wait};

#[test]
fn the_watchdog_is_fed() {
    let mut daemon = Setup::default().env("WATCHDOG_USEC", "100000").start();
    wait::until_true("two meals", || daemon.told_manager().matches("WATCHDOG=1").count() >= 2);
    daemon.stop_and_check();
}

/// Sessions that are suspended may take longer than the unit's TimeoutStopSec=.
#[test]
fn a_daemon_that_stops_asks_for_the_time_it_takes() {
    let mut daemon = Setup::default().start();
    let mut client = Client::connect(&daemon.unix());
    let session = daemon.session();
    let body = br#"{"code": "while True: pass", "timeout_ms": 5000}"#;
    client.ask("POST", &session.path("/execute"), &[], Some(body));
    session.until_state("running");
    assert!(!daemon.told_manager().contains("EXTEND_TIMEOUT_USEC"));
    daemon.signal(Signal::SIGTERM);
    wait::until_true("its question", || {
        daemon.told_manager().contains("EXTEND_TIMEOUT_USEC=15000000")
    });
    assert!(daemon.wait().success());
}

#[test]
fn sockets_of_a_socket_unit_are_used() {
    let dir = program::temp_dir();
    let config = program::config(dir.path(), "");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // sd_listen_fds(3): descriptors from 3 on, for the process of this pid.
    let vivarium = program::vivarium(&Runner::Self_, dir.path());
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    let mut child = Command::new("/bin/sh")
        .args(["-c", script])
        .arg(vivarium.get_program())
        .args(["serve", "--config", &config])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The listener is there all the time: who connects early waits in its backlog.
    let mut client = Client::connect(&Endpoint::Tcp(port));
    assert_eq!(client.json("GET", "/healthz", None).status, 200);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    drop(client);
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let started = Setup::default().config("server", &format!("listen = [{address:?}]")).try_start();
    let (status, log) = started.err().unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(log.contains(&address), "{log}");
}

#[test]
fn logs_can_be_json() {
    let daemon = Setup::default().config("server", "log_format = \"json\"").start();
    let log = daemon.log();
    assert!(!log.is_empty());
    for line in log.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(entry["level"].is_string() && entry["timestamp"].is_string(), "{line}");
    }
    daemon.stop_and_check();
}

#[test]
fn what_tenants_run_and_print_is_not_logged() {
    let daemon = Setup::default().env("VIVARIUM_LOG", "debug").start();
    let session = daemon.session();
    let _secret = session.execute("tenant_secret = 'sesame'; print(tenant_secret); 1 / 0");
    let _killed =
        session.execute("print('sesame'); import os; os.write(2, b'sesame'); os._exit(1)");
    // Lines come in order.
    daemon.signal(Signal::SIGHUP);
    daemon.until_logged("configuration reloaded");
    let log = daemon.log();
    assert!(!log.contains("sesame") && !log.contains("tenant_secret"), "{log}");
    daemon.stop_and_check();
}
