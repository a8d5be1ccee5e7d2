//! Interrupts: what runs stops, what was there stays.

use std::thread;

use vivarium_tests::http::Client;
use vivarium_tests::{Daemon, Outcome, Session};

/// Runs code and interrupts it once it runs.
fn interrupted(session: &Session<'_>, code: &str) -> (Outcome, serde_json::Value) {
    thread::scope(|scope| {
        let running = scope.spawn(|| session.execute(code));
        session.until_state("running");
        // The code says that it is there.
        vivarium_tests::wait::until_true("code that runs", || {
            session.info()["usage"]["processes"] == 2
        });
        let reply = session.interrupt();
        (running.join().unwrap(), reply)
    })
}

/// Has a child, so that the test can see it has begun.
const SLEEP: &str = "
x = 2
import subprocess
print('so far', flush=True)
subprocess.run(['sleep', '1000'])";

#[test]
fn the_state_is_kept() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let _set = session.execute("x = 1").ok();
    let (outcome, reply) = interrupted(&session, SLEEP);
    let outcome = outcome.ended("interrupted", "interrupt", "preserved");
    assert_eq!(outcome.stdout(), "so far\n");
    assert_eq!(outcome.exception(), "KeyboardInterrupt");
    assert!(outcome.traceback().contains("subprocess.run"), "{outcome}");
    assert_eq!(reply["execution_id"], outcome.0["execution_id"]);
    assert_eq!(reply["interrupted"], true);
    assert_eq!(session.value("x"), "2");
    daemon.release();
}

#[test]
fn code_may_handle_it() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = format!(
        "try:\n{}\nexcept KeyboardInterrupt:\n    print('handled')",
        SLEEP.replace('\n', "\n    ")
    );
    let (outcome, _) = interrupted(&session, &code);
    assert_eq!(outcome.ok().stdout(), "so far\nhandled\n");
}

#[test]
fn an_interrupt_of_nothing_hits_nothing() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let reply = session.interrupt();
    assert_eq!(
        (&reply["interrupted"], &reply["execution_id"]),
        (&false.into(), &serde_json::Value::Null)
    );
    let busy = "for _ in range(10**6): pass\n'done'";
    assert_eq!(session.value(busy), "'done'");
}

#[test]
fn no_interrupt_hits_the_next_execution() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            for number in 0..100 {
                // Catches what is meant for it, in its own time.
                let code = "try:\n    for _ in range(2000): pass\nexcept KeyboardInterrupt: pass";
                let first = session.execute(code);
                assert!(["ok", "interrupted"].contains(&first.status()), "{number}: {first}");
                assert_eq!(first.state(), "preserved", "{first}");
            }
        });
        while !running.is_finished() {
            session.interrupt();
        }
        running.join().unwrap();
    });
    assert_eq!(session.value("1 + 1"), "2");
    daemon.release();
}

#[test]
fn what_waits_behind_it_runs() {
    let daemon = Daemon::start();
    let session = daemon.session();
    thread::scope(|scope| {
        let first = scope.spawn(|| session.execute(SLEEP));
        session.until_state("running");
        vivarium_tests::wait::until_true("code that runs", || session.processes() == 2);
        let second = scope.spawn(|| session.execute("x + 1"));
        vivarium_tests::wait::until_true("one that waits", || {
            session.info()["usage"]["queued"] == 1
        });
        session.interrupt();
        assert_eq!(first.join().unwrap().status(), "interrupted");
        assert_eq!(second.join().unwrap().ok().result(), "3");
    });
}

#[test]
fn an_interrupt_at_the_very_beginning_is_not_lost() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let code = "import time\nfor _ in range(5000): time.sleep(0.01)";
    let body = serde_json::json!({"code": code, "timeout_ms": 30_000}).to_string();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        session.path("/execute"),
        body.len()
    );
    let (mut first, mut second) =
        (Client::connect(&daemon.unix()), Client::connect(&daemon.unix()));
    for number in 0..100 {
        first.send_raw(format!("{head}{body}").as_bytes());
        // Until one finds the execution, which may not have been taken in yet.
        let mut interrupt = || {
            let reply = second.json("POST", &session.path("/interrupt"), None).expect_success();
            reply["execution_id"].is_string().then_some(reply)
        };
        let reply = std::iter::repeat_with(&mut interrupt).flatten().next().unwrap();
        let outcome = Outcome(first.receive().unwrap().expect_success());
        let outcome = outcome.ended("interrupted", "interrupt", "preserved");
        assert_eq!(reply["execution_id"], outcome.0["execution_id"], "{number}");
    }
    daemon.release();
}
