//! Events come while the code runs, in the order in which it did things.

use serde_json::json;
use vivarium_tests::events::{names, text};
use vivarium_tests::{Daemon, Setup};

/// Each line is printed when the one before it has been read: by Python, C and a child, to
/// stdout and stderr by turns.
const TURNS: &str = "
import ctypes, os, subprocess, sys, time
libc = ctypes.CDLL(None)
def turn(number):
    while not os.path.exists(f'go{number}'):
        time.sleep(0.002)
print('python')
turn(1)
print('python', file=sys.stderr)
turn(2)
libc.printf(b'c\\n'); libc.fflush(None)
turn(3)
subprocess.run(['sh', '-c', 'echo child >&2'])
turn(4)
subprocess.run(['sh', '-c', 'echo child'])
turn(5)
written = os.write(1, b'tail')";

#[test]
fn each_line_can_be_read_before_the_next_is_printed() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let mut events = session.stream(TURNS);
    let started = events.expect("started");
    assert_eq!(started.data, json!({"execution_id": "1", "session_id": session.id}));
    for (number, (stream, expected)) in [
        ("stdout", "python\n"),
        ("stderr", "python\n"),
        ("stdout", "c\n"),
        ("stderr", "child\n"),
        ("stdout", "child\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut read = String::new();
        while read != expected {
            let event = events.expect(stream);
            read.push_str(event.data["text"].as_str().unwrap());
            assert!(expected.starts_with(&read), "{read:?}");
        }
        let go = session.request("PUT", &format!("/files/go{}", number + 1), Some(&json!("")));
        assert_eq!(go.status, 201);
    }
    let rest = events.rest();
    assert_eq!(names(&rest), ["stdout", "done"]);
    assert_eq!(text(&rest, "stdout"), "tail");
    assert_eq!(rest[1].data["status"], "ok");
    daemon.stop_and_check();
}

#[test]
fn each_stream_is_in_order_whoever_writes_to_it() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let code = "
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None)
for i in range(50):
    print('p', i, end=' ', flush=True)
    libc.printf(b'c %d ', i); libc.fflush(None)
    subprocess.run(['sh', '-c', f'printf \"s {i} \"; printf \"e {i} \" >&2'])
    print('q', i, end=' ', file=sys.stderr, flush=True)
    written = os.write(1, b'w %d ' % i)";
    let events = session.stream(code).rest();
    let stdout: String = (0..50).map(|i| format!("p {i} c {i} s {i} w {i} ")).collect();
    let stderr: String = (0..50).map(|i| format!("e {i} q {i} ")).collect();
    assert_eq!(text(&events, "stdout"), stdout);
    assert_eq!(text(&events, "stderr"), stderr);
    let numbers: Vec<_> = events.iter().map(|event| event.id).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
}

#[test]
fn what_is_shown_comes_between_what_is_printed() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let events = session.stream("print('a')\ndisplay('b')\nprint('c')\n1 / 0").rest();
    let what: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    let position = |name| what.iter().position(|found| *found == name).unwrap();
    assert!(position("stdout") < position("display"), "{what:?}");
    assert_eq!(text(&events, "stdout"), "a\nc\n");
    let display = &events[position("display")].data;
    assert_eq!(
        (&display["kind"], &display["mime"]["text/plain"]),
        (&json!("display"), &json!("'b'"))
    );
    let error = &events[position("error")].data;
    assert_eq!(error["type"], "ZeroDivisionError");
    assert_eq!(what.last(), Some(&"done"));
    assert_eq!(events.last().unwrap().data["status"], "error");
}

#[test]
fn much_output_arrives_whole_and_the_daemon_stays_small() {
    let daemon = Setup::default()
        .config("sandbox", "max_output_bytes = \"unlimited\"")
        .config("session", "event_buffer_bytes = 262144")
        .start();
    let session = daemon.session();
    let _warm = session.execute("print('x' * 100000)").ok();
    let before = daemon.process().status_number("VmHWM").unwrap();
    let mut events = session.stream(
        "import os\nblock = b''.join(b'%07d\\n' % i for i in range(8192))\n\
         for i in range(500): written = os.write(1, block)",
    );
    let block: String = (0..8192).map(|i| format!("{i:07}\n")).collect();
    let (mut blocks, mut text) = (0, String::new());
    let mut last = events.expect("started");
    while last.name != "done" {
        last = events.next_event().expect("it is not cut off");
        text.push_str(last.data["text"].as_str().unwrap_or_default());
        while let Some(rest) = text.strip_prefix(&block) {
            text = rest.to_owned();
            blocks += 1;
        }
    }
    assert_eq!((blocks, text.as_str()), (500, ""));
    assert_eq!(last.data["stdout_truncated"], false);
    let grown_kib = daemon.process().status_number("VmHWM").unwrap() - before;
    assert!(grown_kib < 16 << 10, "grown by {grown_kib} KiB");
    // Of what was streamed only the beginning is kept.
    let info = session.execution("2");
    assert_eq!(info["outcome"]["stdout"].as_str().unwrap().len(), 256 << 10);
    assert_eq!(info["outcome"]["stdout_truncated"], true);
}
