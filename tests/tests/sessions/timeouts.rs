//! Time that is up: SIGINT, grace, and the truth about what is left.

use vivarium_tests::{Daemon, Setup};

/// One that kills what does not give way this long after it is asked to.
fn with_grace(grace: &str) -> Daemon {
    Setup::default().config("session", &format!("interrupt_grace = \"{grace}\"")).start()
}

/// One for code that gives way, when a busy machine lets it.
fn patient() -> Daemon {
    with_grace("1m")
}

/// One for code that does not.
fn impatient() -> Daemon {
    with_grace("300ms")
}

#[test]
fn code_that_gives_way_keeps_its_state_and_its_output() {
    let daemon = patient();
    let session = daemon.session();
    let _set = session.execute("x = 1").ok();
    let code = "import time\nprint('so far')\nx = 2\ntime.sleep(1000)\nx = 3";
    let outcome = session.execute_for(2500, code).ended("timed_out", "wall_time", "preserved");
    assert_eq!(outcome.stdout(), "so far\n");
    assert!(outcome.traceback().contains("time.sleep(1000)"), "{outcome}");
    assert!(outcome.detail().contains("2.5 s"), "{outcome}");
    assert_eq!(session.value("x"), "2");
    daemon.stop_and_check();
}

#[test]
fn a_busy_loop_gives_way() {
    let daemon = patient();
    let session = daemon.session();
    let _out =
        session.execute_for(200, "while True: pass").ended("timed_out", "wall_time", "preserved");
    let awaiting = "import asyncio\nawait asyncio.sleep(1000)";
    let _out = session.execute_for(200, awaiting).ended("timed_out", "wall_time", "preserved");
    let child = "import subprocess\nsubprocess.run(['sleep', '1000'])";
    let _out = session.execute_for(200, child).ended("timed_out", "wall_time", "preserved");
    assert_eq!(session.value("1 + 1"), "2");
}

#[test]
fn code_that_ignores_sigint_is_killed_and_its_output_kept() {
    let daemon = impatient();
    let session = daemon.session();
    for code in [
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        // The endless loop is in a call: 3.11 leaves the end of a `while True: pass` itself
        // out of the block that is tried.
        "import time\nwhile True:\n    try: time.sleep(1000)\n    except BaseException: pass",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {2})\nwhile True: pass",
    ] {
        let code = format!("x = 1\nprint('so far', flush=True)\n{code}");
        let outcome = session.execute_for(2000, &code).ended("timed_out", "wall_time", "lost");
        assert_eq!(outcome.stdout(), "so far\n");
        assert!(outcome.detail().contains("did not give way"), "{outcome}");
        let next = session.execute("x");
        assert_eq!((next.status(), next.exception()), ("error", "NameError"), "{next}");
        assert_eq!(session.processes(), 1);
    }
    daemon.stop_and_check();
}

#[test]
fn code_blocked_in_c_is_killed() {
    let daemon = impatient();
    let session = daemon.session();
    for code in [
        "pow(10**7, 10**7) and None",
        "import re; re.match('(a+)+$', 'a' * 40 + 'b')",
        "import itertools; max(itertools.repeat(1, 10**12)) and None",
    ] {
        let outcome = session.execute_for(300, code);
        // Python looks for signals now and then even in some of these.
        assert_eq!((outcome.status(), outcome.cause()), ("timed_out", "wall_time"), "{outcome}");
        assert_eq!(session.value("1 + 1"), "2");
    }
    let endless = "import collections, itertools\ncollections.deque(itertools.repeat(1), maxlen=0)";
    let outcome = session.execute_for(2000, endless).ended("timed_out", "wall_time", "lost");
    assert!(outcome.detail().contains("did not give way"), "{outcome}");
    assert_eq!(session.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn a_timeout_does_not_begin_before_the_code_does() {
    let daemon = patient();
    // Far less than an interpreter takes to start.
    for number in 0..5 {
        let path = format!("/v1/sessions/fresh-{number}/execute?create=true");
        let body = serde_json::json!({"code": "1 + 1", "timeout_ms": 1000});
        let outcome = daemon.request("POST", &path, Some(&body)).expect_success();
        assert_eq!(outcome["status"], "ok", "{outcome}");
    }
}

#[test]
fn no_timeout_outlives_its_execution() {
    let daemon = patient();
    let session = daemon.session();
    for _ in 0..50 {
        // Ends at about the time the timeout does, on one side or the other.
        let code = "import time\ntry:\n    time.sleep(0.02)\nexcept KeyboardInterrupt:\n    pass";
        let outcome = session.execute_for(20, code);
        assert!(["ok", "timed_out"].contains(&outcome.status()), "{outcome}");
        let next = session.execute("for _ in range(20000): pass\n'next'");
        assert_eq!((next.status(), next.result()), ("ok", "'next'"), "{next}");
    }
    daemon.stop_and_check();
}
