//! Code that prints more than anybody wants to hold.

use serde_json::json;
use vivarium_tests::wait;

use super::Case;
use crate::every_way::daemon;

const CAP: usize = 10 << 20;

#[test]
fn a_hundred_megabytes() {
    let code = "import os\nfor _ in range(100): os.write(1, b'x' * (1 << 20 - 1) + b'\\n' * 524288)\nfor _ in range(1600): os.write(1, b'y' * 65536)";
    let outcome = Case::new(code).run();
    assert_eq!(outcome.stdout().len(), CAP);
    assert_eq!(outcome.0["stdout_truncated"], true);
}

#[test]
fn without_end_in_lines() {
    let code = "while True: print('x' * 1000)";
    let outcome = Case::new(code).times_out(1000, "preserved").run();
    assert!(outcome.stdout().starts_with("xxx"));
    assert!(outcome.stdout().len() <= CAP);
}

#[test]
fn without_end_and_without_a_newline() {
    let code = "import os\nwhile True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)";
    let outcome = Case::new(code).times_out(1000, "preserved").run();
    assert!(outcome.stdout().starts_with("xxx") && outcome.stderr().starts_with("yyy"));
    assert!(outcome.stdout().len() <= CAP && outcome.stderr().len() <= CAP);
}

#[test]
fn by_a_child_that_is_left_running() {
    let daemon = daemon();
    let session = daemon.session();
    let start = "import subprocess; child = subprocess.Popen(['yes']); 'left'";
    assert_eq!(session.execute(start).ok().result(), "'left'");
    for _ in 0..5 {
        assert_eq!(session.value("1 + 1"), "2");
    }
    let stopped = session.execute("child.kill(); child.wait()");
    assert_eq!(stopped.status(), "ok", "{stopped}");
    assert!(daemon.process().status_number("VmHWM").unwrap() < super::DAEMON_PEAK_KIB);
    daemon.stop_and_check();
}

#[test]
fn by_a_thread_after_the_end() {
    let daemon = daemon();
    let session = daemon.session();
    let start = "
import os, threading
stop = threading.Event()
def flood():
    while not stop.is_set(): os.write(1, b'x' * 4096)
thread = threading.Thread(target=flood); thread.start()";
    let _started = session.execute(start).ok();
    // It has been flooding nobody for as long as this takes.
    for _ in 0..3 {
        let other = daemon.session();
        assert_eq!(other.value("1 + 1"), "2");
        assert_eq!(other.request("DELETE", "", None).status, 204);
    }
    let outcome = session.execute("stop.set(); thread.join(); 'stopped'");
    assert_eq!(outcome.result(), "'stopped'", "{}", outcome.status());
    assert_eq!(session.value("1 + 1"), "2");
    let peak = daemon.process().status_number("VmHWM").unwrap();
    assert!(peak < super::DAEMON_PEAK_KIB, "{peak} KiB");
    daemon.stop_and_check();
}

#[test]
fn of_nothing_but_what_json_escapes() {
    // Six bytes of JSON for each of it.
    let code = "import os\nfor _ in range(400): os.write(1, bytes(65536))";
    let outcome = Case::new(code).run();
    assert_eq!(outcome.stdout().len(), CAP);
}

#[test]
fn in_one_value() {
    let outcome = Case::new("'x' * (200 << 20)").run();
    assert!(outcome.result().len() < (33 << 20));
}

#[test]
fn in_one_exception() {
    let outcome = Case::new("raise Exception('x' * (100 << 20))").raises().run();
    assert!(outcome.traceback().len() < (2 << 20));
    let deep = "
error = None
for n in range(3000):
    new = ValueError(n); new.__cause__ = error; error = new
raise error";
    let _out = Case::new(deep).raises().run();
}

#[test]
fn of_files_fills_the_sessions_own_space_and_no_more() {
    if !crate::every_way::HAS_OWN_DISK {
        return;
    }
    let code = "
n = 0
while True:
    with open('/tmp/%d' % n, 'wb') as file: file.write(bytes(1 << 20))
    n += 1";
    let case = Case::new(code).raises_at("disk_limit").limits(json!({"max_disk_mb": 16}));
    let outcome = case.run_and(|session, _| {
        let used = session.info()["usage"]["disk_bytes"].as_u64().unwrap();
        assert!(used <= 16 << 20, "{used}");
    });
    assert!(outcome.traceback().contains("No space left"), "{outcome}");
}

#[test]
fn of_output_does_not_keep_others_waiting() {
    let daemon = daemon();
    let (loud, quiet) = (daemon.session(), daemon.session());
    std::thread::scope(|scope| {
        let flood = "import os\nwhile True: os.write(1, b'x' * 65536)";
        let running = scope.spawn(|| loud.execute_for(30_000, flood));
        loud.until_state("running");
        for _ in 0..20 {
            assert_eq!(quiet.value("1 + 1"), "2");
        }
        wait::until_true("an interrupt that hits", || {
            loud.interrupt();
            running.is_finished()
        });
    });
}
