//! A client that does not read: it is waited for, but not for ever, and costs the daemon no more
//! than the buffer.

use serde_json::json;
use vivarium_tests::events::Events;
use vivarium_tests::{Daemon, Setup};

#[test]
fn a_client_that_does_not_read_holds_nothing_for_ever() {
    let daemon = Setup::default().config("sandbox", "max_output_bytes = \"unlimited\"").start();
    let session = daemon.session();
    let other = daemon.session();
    let _warm = session.execute("print('x' * 100000)").ok();
    let before = daemon.process().status_number("VmHWM").unwrap();
    let code = "import os\nfor i in range(1000): os.write(1, b'x' * 65536)\nprint('the end')";
    let request = json!({"code": code, "timeout_ms": 100_000});
    let mut reader: Events = session.stream_with("/execute", &[], &request);
    // Nothing is read of it until it is over.
    assert_eq!(other.value("1 + 1"), "2");
    let outcome = session.until_done("2").ok();
    assert_eq!(outcome.0["stdout_truncated"], true);
    let grown_kib = daemon.process().status_number("VmHWM").unwrap() - before;
    assert!(grown_kib < 24 << 10, "grown by {grown_kib} KiB");
    let read = reader.rest();
    assert!(
        reader.comments.iter().any(|comment| comment.contains("cut off")),
        "{:?}",
        reader.comments
    );
    let last = read.last().unwrap();
    assert_eq!(last.name, "stdout", "it did not get the end");
    // It may come back, and what it has missed by then is said to be gone.
    session.follow("2", Some(last.id)).head.expect_problem(410, "events_gone");
    let kept = session.follow("2", None).rest();
    assert_eq!(kept.last().unwrap().name, "done");
    daemon.stop_and_check();
}

#[test]
fn a_flood_is_stopped_at_its_time_though_its_client_does_not_read() {
    let daemon = Setup::default().config("sandbox", "max_output_bytes = \"unlimited\"").start();
    let session = daemon.session();
    let _set = session.execute("x = 1").ok();
    let code = "import os\nwhile True: os.write(1, b'x' * 65536)";
    let request = json!({"code": code, "timeout_ms": 500});
    let _unread = session.stream_with("/execute", &[], &request);
    let _outcome = session.until_done("2").ended("timed_out", "wall_time", "preserved");
    let _unread = session.stream_with("/execute", &[], &json!({"code": code}));
    session.until_state("running");
    assert_eq!(session.interrupt()["interrupted"], true);
    let _outcome = session.until_done("3").ended("interrupted", "interrupt", "preserved");
    assert_eq!(session.value("x"), "1");
}

#[test]
fn a_client_that_reads_late_misses_nothing_that_the_buffer_holds() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut events = session.stream("import os\nfor i in range(15): os.write(1, b'x' * 65536)");
    let _outcome = session.until_done("1").ok();
    let read = events.rest();
    assert_eq!(vivarium_tests::events::text(&read, "stdout").len(), 15 * 65536);
    assert_eq!(read.last().unwrap().name, "done");
}
