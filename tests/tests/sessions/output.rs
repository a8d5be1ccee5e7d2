//! What is printed, by whatever means, is captured at the descriptor.

use serde_json::json;
use vivarium_tests::Daemon;

#[test]
fn output_of_python_c_and_children_comes_in_order() {
    let daemon = crate::DAEMON.hold();
    let session = daemon.session();
    let code = "
import ctypes, os, subprocess, sys
print('python', flush=True)
libc = ctypes.CDLL(None)
libc.puts(b'c'); libc.fflush(None)
subprocess.run(['sh', '-c', 'echo child; echo child to stderr >&2'])
os.system('echo system')
os.write(1, b'descriptor\\n')
sys.stdout.buffer.write(b'buffer\\n'); sys.stdout.flush()
print('to stderr', file=sys.stderr)
sys.stdout.fileno()";
    let outcome = session.execute(code).ok();
    assert_eq!(outcome.stdout(), "python\nc\nchild\nsystem\ndescriptor\nbuffer\n");
    assert_eq!(outcome.stderr(), "child to stderr\nto stderr\n");
    assert_eq!(outcome.result(), "1");
    daemon.release();
}

#[test]
fn output_is_utf8_whatever_was_written() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let outcome = session.execute("print('\\ud800 \u{e9}')").ok();
    assert!(outcome.stdout().ends_with(" \u{e9}\n"), "{outcome}");
    let outcome = session.execute("import os; os.write(1, b'\\xff\\xfe|\\x00|')").ok();
    assert_eq!(outcome.stdout(), "\u{fffd}\u{fffd}|\0|");
    assert_eq!(session.value("'\\ud800'"), "'\\ud800'");
    assert_eq!(session.execute("print('end', end='')").ok().stdout(), "end");
}

#[test]
fn output_is_capped_for_each_stream_and_execution() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&json!({"limits": {"max_output_bytes": 1000}}));
    for _ in 0..2 {
        let outcome = session.execute("import sys; print('x' * 5000); print('y', file=sys.stderr)");
        let outcome = outcome.ok();
        assert_eq!(outcome.stdout().len(), 1000);
        assert_eq!(outcome.stderr(), "y\n");
        assert_eq!(outcome.0["stdout_truncated"], true);
        assert_eq!(outcome.0["stderr_truncated"], false);
    }
    let exact = session.execute("print('x' * 999)").ok();
    assert_eq!(exact.0["stdout_truncated"], false);
}

#[test]
fn a_logging_handler_keeps_its_stream() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let set_up = "import logging; logging.basicConfig(level=logging.INFO); logging.info('one')";
    assert_eq!(session.execute(set_up).ok().stderr(), "INFO:root:one\n");
    assert_eq!(session.execute("logging.info('two')").ok().stderr(), "INFO:root:two\n");
}

#[test]
fn a_thread_that_prints_after_its_call_belongs_to_the_next() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let start = "
import threading
go, gone = threading.Event(), threading.Event()
def late():
    go.wait()
    print('late', flush=True)
    gone.set()
threading.Thread(target=late).start()
print('first')";
    assert_eq!(session.execute(start).ok().stdout(), "first\n");
    let outcome = session.execute("go.set(); gone.wait(); print('second')").ok();
    assert_eq!(outcome.stdout(), "late\nsecond\n");
    assert_eq!(session.value("1 + 1"), "2");
}

#[test]
fn large_values_are_cut_and_said_to_be() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let outcome = session.execute("'x' * (50 << 20)").ok();
    assert!(outcome.result().len() < (33 << 20), "{}", outcome.result().len());
    assert!(outcome.result().contains("truncated"), "it does not say so");
    assert_eq!(session.value("1 + 1"), "2");
}

#[test]
fn reprs_are_written_out_as_far_as_the_request_says() {
    let daemon = Daemon::start();
    let session = daemon.session();
    let asked = |code: &str, repr: serde_json::Value| {
        let outcome = session.execute_with(&json!({"code": code, "repr": repr})).ok();
        outcome.result().to_owned()
    };
    let large = "list(range(100_000))";
    assert!(session.execute(large).ok().result().len() < 6000);
    assert_eq!(asked(large, json!({"max_items": 2})), "[0, 1, ...]");
    assert!(asked(large, json!({"max_items": 1_000_000_000_000_u64})).ends_with(", 99999]"));
    assert_eq!(asked("[[[1]]]", json!({"max_depth": 1})), "[[...]]");
    let short = asked("'x' * (100 << 20)", json!({"max_chars": 100}));
    assert!(short.len() == 100 && short.ends_with("[truncated: 104857602 characters in all]"));
    let shown = session.execute_with(&json!({"code": "display([1, 2])", "repr": {"max_items": 1}}));
    assert_eq!(shown.ok().0["displays"][0]["mime"]["text/plain"], "[1, ...]");
    assert_eq!(session.value("[1, 2]"), "[1, 2]", "it is for one execution");
    for (wrong, field) in [
        (json!({"max_items": 0}), "repr.max_items"),
        (json!({"max_items": -1}), "repr.max_items"),
        (json!({"max_depth": "2"}), "repr.max_depth"),
        (json!({"max_chars": 99}), "repr.max_chars"),
        (json!([1]), "repr"),
    ] {
        let body = json!({"code": "1", "repr": wrong});
        let problem = session.request("POST", "/execute", Some(&body));
        assert_eq!(problem.expect_problem(422, "invalid_field")["field"], field, "{body}");
    }
}
