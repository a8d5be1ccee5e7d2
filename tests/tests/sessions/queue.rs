//! Executions of a session run one at a time, in the order they came, and wait within bounds.

use std::thread;

use serde_json::json;
use vivarium_tests::http::Client;
use vivarium_tests::{Daemon, Setup, wait};

#[test]
fn executions_run_in_order_one_at_a_time() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let _set = session.execute("import os\nseen, inside = [], 0").ok();
    thread::scope(|scope| {
        // Holds the queue until all wait.
        let gate = scope.spawn(|| {
            session.execute("import time\nwhile not os.path.exists('go'): time.sleep(0.01)")
        });
        session.until_state("running");
        let mut waiting = Vec::new();
        for number in 0..10 {
            let code =
                format!("inside += 1; assert inside == 1; seen.append({number}); inside -= 1");
            let session = &session;
            waiting.push(scope.spawn(move || session.execute(&code)));
            let queued = number + 1;
            wait::until_true("its turn to wait", || session.info()["usage"]["queued"] == queued);
        }
        let reply = session.interrupt();
        assert_eq!(reply["interrupted"], true, "{reply}");
        let _gate = gate.join().unwrap().ended("interrupted", "interrupt", "preserved");
        for one in waiting {
            let _ran = one.join().unwrap().ok();
        }
    });
    assert_eq!(session.value("seen"), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]");
    daemon.release();
}

#[test]
fn code_that_waits_takes_bounded_room() {
    let daemon = Setup::default().config("server", "max_tenant_buffered_mb = 160").start();
    let session = daemon.session();
    let large = json!({"code": format!("#{}\n1", "x".repeat(30 << 20))});
    std::thread::scope(|scope| {
        let running = scope.spawn(|| session.execute_for(600_000, "import time; time.sleep(600)"));
        session.until_state("running");
        let waiting: Vec<_> = (1..=4)
            .map(|number| {
                let sent = scope.spawn(|| session.request("POST", "/execute", Some(&large)));
                wait::until_true("its turn to wait", || {
                    session.info()["usage"]["queued"] == number
                });
                sent
            })
            .collect();
        session.request("POST", "/execute", Some(&large)).expect_problem(429, "no_room");
        session.interrupt();
        for sent in waiting {
            let _answer = sent.join().unwrap().expect_success();
        }
        let _interrupted = running.join().unwrap();
    });
    // The room is there again.
    let _answer = session.request("POST", "/execute", Some(&large)).expect_success();
}

#[test]
fn a_full_queue_is_refused() {
    let daemon = Setup::default().config("session", "queue_depth = 2").start();
    let session = daemon.session();
    thread::scope(|scope| {
        let first = scope.spawn(|| session.execute("import time; time.sleep(1000)"));
        session.until_state("running");
        let waiting: Vec<_> = (1..=2)
            .map(|queued| {
                let one = scope.spawn(|| session.execute("1 + 1"));
                wait::until_true("its turn to wait", || {
                    session.info()["usage"]["queued"] == queued
                });
                one
            })
            .collect();
        let body = serde_json::json!({"code": "3"});
        let refused = session.request("POST", "/execute", Some(&body));
        refused.expect_problem(429, "queue_full");
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        // Answered when what it hit has ended: another would hit what waits.
        wait::until_true("an interrupt that hits", || session.interrupt()["interrupted"] == true);
        assert_eq!(first.join().unwrap().status(), "interrupted");
        for one in waiting {
            assert_eq!(one.join().unwrap().ok().result(), "2");
        }
    });
}

#[test]
fn sessions_do_not_wait_for_each_other() {
    let daemon = Daemon::start();
    let (busy, free) = (daemon.session(), daemon.session());
    thread::scope(|scope| {
        let running = scope.spawn(|| busy.execute("while True: pass"));
        busy.until_state("running");
        assert_eq!(free.value("1 + 1"), "2");
        wait::until_true("an interrupt that hits", || {
            busy.interrupt();
            running.is_finished()
        });
    });
}

#[test]
fn many_sessions_have_nothing_in_common() {
    let daemon = crate::DAEMON.hold();
    let sessions: Vec<_> = (0..12).map(|_| daemon.session()).collect();
    thread::scope(|scope| {
        for (number, session) in sessions.iter().enumerate() {
            scope.spawn(move || {
                let code = format!("x = {number}\nopen('/tmp/x', 'w').write(str(x)) and None");
                let _set = session.execute(&code).ok();
            });
        }
    });
    for (number, session) in sessions.iter().enumerate() {
        let expected = format!("({number}, '{number}', 1)");
        let code = "import os; (x, open('/tmp/x').read(), len([p for p in os.listdir('/proc') if p.isdigit()]))";
        assert_eq!(session.value(code), expected);
    }
    daemon.release();
}

#[test]
fn a_client_that_goes_away_does_not_take_the_session_with_it() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let body = json!({"code": "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"});
    let body = body.to_string();
    let mut client = Client::connect(&daemon.unix());
    let path = session.path("/execute");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send_raw(format!("{head}{body}").as_bytes());
    session.until_state("running");
    drop(client);
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    assert_eq!(session.value("1 + 1"), "2");
    daemon.release();
}
