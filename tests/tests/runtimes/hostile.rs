//! Hostile code that needs only Python, and code that means well and goes too far: the same becomes of it in both
//! runtimes. Sessions are usable afterwards, and neighbours and the daemon do not notice.
//!
//! Not here, of what `tests/suites` runs in every other way to make a session:
//! - `attacks`: they make system calls by ctypes, sockets, processes and files of the host, of which a guest has
//!   none (`inside.rs` says so of each); `escapes.rs` makes these calls natively, in the engine's place.
//! - `hostile/processes.rs`, and what forks, starts threads or loads C elsewhere: refused, see `inside.rs`.
//! - `hostile/channel.rs`: the control socket is no descriptor of the guest's. Here are attempts at it.
//! - `replaced`, `floors`, `one_python`: templates and interpreters of the host.

use super::*;
use vivarium_tests::outcome::Outcome;

use super::inside::{built, daemon, section};

/// What a case becomes: status, cause, state.
type End = [&'static str; 3];

const RAISED: End = ["error", "", "preserved"];
const FINE: End = ["ok", "", "preserved"];
const GAVE_WAY: End = ["timed_out", "wall_time", "preserved"];
const LOST: End = ["timed_out", "wall_time", "lost"];
const EXITED: End = ["killed", "exited", "lost"];
const SIGNALLED: End = ["killed", "signal", "lost"];

const CASES: &[(&str, End)] = &[
    // Stubborn.
    ("while True: pass", GAVE_WAY),
    ("import time; time.sleep(1000)", GAVE_WAY),
    ("import select; select.select([], [], [], 1000)", GAVE_WAY),
    ("import select; select.select([], [], [])", GAVE_WAY),
    ("import select; select.poll().poll(1000000)", GAVE_WAY),
    ("import select; select.poll().poll()", GAVE_WAY),
    ("import selectors; selectors.DefaultSelector().select(1000)", GAVE_WAY),
    ("import threading; [it.acquire() for it in [threading.Lock()] * 2]", GAVE_WAY),
    ("import asyncio; await asyncio.sleep(1000)", GAVE_WAY),
    ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", LOST),
    ("import signal; signal.signal(signal.SIGINT, lambda *_: 0)\nwhile True: pass", LOST),
    ("import signal; signal.pthread_sigmask(0, range(1, 65))\nwhile True: pass", LOST),
    ("import time\nwhile True:\n try: time.sleep(1000)\n except BaseException: pass", LOST),
    ("7 ** 10 ** 9", GAVE_WAY),
    ("import collections, itertools; collections.deque(itertools.repeat(1), 0)", LOST),
    ("class A:\n def __repr__(self):\n  while True: pass\nA()", GAVE_WAY),
    ("class A:\n def __repr__(self): raise SystemExit\nA()", FINE),
    ("class A(Exception):\n def __str__(self): raise ValueError\nraise A", RAISED),
    // Deaths.
    ("import os; os._exit(3)", EXITED),
    ("import os; os.abort()", SIGNALLED),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", SIGNALLED),
    ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", SIGNALLED),
    ("import signal, time; signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(100)", SIGNALLED),
    ("raise SystemExit(4)", RAISED),
    ("def f(): f()\nf()", RAISED),
    ("kept = []\nwhile True: kept.append(bytearray(8 << 20))", RAISED),
    ("x = []\nfor _ in range(10**6): x = [x]\nrepr(x)", RAISED),
    // Floods.
    ("for _ in range(300): print('x' * 65535)", FINE),
    ("import os\nfor _ in range(300): os.write(1, bytes(65536))", FINE),
    ("while True: print('x' * 1000)", GAVE_WAY),
    ("'x' * (60 << 20)", FINE),
    ("raise Exception('x' * (60 << 20))", RAISED),
    (
        "e = None\nfor n in range(3000):\n f = ValueError(n); f.__cause__ = e; e = f\nraise e",
        RAISED,
    ),
    // Tampering.
    ("import sys; sys.modules.clear()", FINE),
    ("import sys\nfor n in ('os', 'sys', 'io', 'traceback', 'asyncio'): sys.modules[n] = 7", FINE),
    ("import sys; sys.stdout.close()", FINE),
    ("import sys; sys.stdout = sys.stderr = sys.stdin = 7", FINE),
    ("import sys; sys.setrecursionlimit(40)", FINE),
];

#[test]
fn the_same_becomes_of_hostile_code_in_both() {
    let Some(built) = built() else { return };
    let daemon = Setup::default()
        .config("session", "interrupt_grace = \"2s\"")
        .config("environments.light", &section(built))
        .limits(&json!({"max_memory_mb": 256}))
        .start();
    let neighbour = light(&daemon);
    let _set = neighbour.execute("x = 41").ok();
    let before = daemon.process();
    for (code, right) in CASES {
        for session in [light(&daemon), daemon.any_session(&json!({}))] {
            let timeout = match *right {
                LOST => 2000,
                ["timed_out", ..] => 500,
                _ => 60_000,
            };
            let outcome = session.execute_for(timeout, code);
            let ended = [outcome.status(), outcome.cause(), outcome.state()];
            let environment = &session.info()["environment"];
            assert_eq!(ended, *right, "{environment}: {code}: {}", outcome.detail());
            assert_eq!(session.value("1 + 1"), "2", "{environment}: {code}");
            let _reset = session.reset();
            assert_eq!(session.execute("print(5)").ok().stdout(), "5\n", "{environment}: {code}");
            assert_eq!(session.request("DELETE", "", None).status, 204);
        }
        assert_eq!(neighbour.value("x + 1"), "42", "{code}");
    }
    let now = daemon.process();
    assert_eq!((now.pid, now.started), (before.pid, before.started), "another daemon");
}

/// The descriptors of a guest are numbers of WASI's: none is the host's.
#[test]
fn no_descriptor_of_a_guest_is_its_control_socket() {
    let Some(built) = built() else { return };
    let daemon = daemon(built);
    let code = "import os\nfor fd in range(3, 300):\n for call in (lambda: os.write(fd, b'\\x0e\\0\\0\\0' * 99), \
                lambda: os.close(fd), lambda: os.dup2(1, fd)):\n  try: call()\n  except (OSError, AttributeError): pass\n'own'";
    let session = light(&daemon);
    let outcome = session.execute(code).ok();
    assert_eq!(outcome.result(), "'own'", "{outcome}");
    assert_eq!(session.value("1 + 1"), "2");
    let cpython = daemon.any_session(&json!({})).execute(code);
    assert_eq!(cpython.status(), "killed", "control: {cpython}");
}

fn policy_of(session: &Session<'_>, code: &str, policy: &serde_json::Value) -> Outcome {
    let mut request = policy.clone();
    request["code"] = code.into();
    session.execute_with(&request)
}

/// What must not happen does not, whatever the code says of it.
#[test]
fn policies_hold_by_their_effects_in_both() {
    let Some(built) = built() else { return };
    let daemon = daemon(built);
    let write = "open('effect', 'w').write('x')";
    let there = "__import__('os').path.exists('effect')";
    // Each would write a file if what precedes it were let through.
    let held = [
        (format!("import socket\n{write}"), json!({"imports": {"deny": ["socket"]}})),
        (format!("__import__('socket')\n{write}"), json!({"imports": {"deny": ["socket"]}})),
        (format!("from os import path\n{write}"), json!({"imports": {"allow": ["math"]}})),
        (
            format!("import importlib\nimportlib.import_module('csv')\n{write}"),
            json!({"imports": {"allow": ["importlib", "math"]}}),
        ),
        (write.to_owned(), json!({"audit_events": {"deny": ["open"]}})),
        (format!("eval('1')\n{write}"), json!({"audit_events": {"deny": ["compile"]}})),
    ];
    for (code, policy) in &held {
        for session in [light(&daemon), daemon.any_session(&json!({}))] {
            let environment = &session.info()["environment"];
            let outcome = policy_of(&session, code, policy);
            assert_eq!(outcome.status(), "error", "{environment}: {code}: {outcome}");
            assert_eq!(session.value(there), "False", "{environment}: {code}");
            let _free = session.execute(code).ok();
            assert_eq!(session.value(there), "True", "control: {environment}: {code}");
        }
    }
    // Loops that would write at their end, in every form that ticks.
    let session = light(&daemon);
    for code in [
        "for _ in range(10**6): pass",
        "n = 0\nwhile n < 10**6: n += 1",
        "def f(): return 1\n[f() for _ in range(10**6)]",
        "sum(n for n in range(10**6))",
        "try:\n for _ in range(10**6): pass\nexcept BaseException: pass",
        "def f(n): return n and f(n - 1)\nfor _ in range(10**4): f(100)",
    ] {
        let code = format!("{code}\n{write}");
        let outcome = policy_of(&session, &code, &json!({"max_work": 5000}));
        let _over = outcome.ended("timed_out", "work_limit", "preserved");
        assert_eq!(session.value(there), "False", "{code}");
    }
    let _free = session.execute(&format!("for _ in range(10**4): pass\n{write}")).ok();
    assert_eq!(session.value(there), "True", "control");
}

#[test]
fn a_cancelled_execution_has_no_later_effect() {
    let Some(built) = built() else { return };
    let daemon = daemon(built);
    for session in [light(&daemon), daemon.any_session(&json!({}))] {
        let _set = session.execute("kept = 7").ok();
        let code = "import time\nprint('go', flush=True)\nfor _ in range(600): time.sleep(0.1)\n\
                    open('effect', 'w').write('x')";
        let events = session.stream(code);
        session.until_running(1);
        let _sent = session.interrupt();
        wait::until_true("the end of it", || session.info()["state"] == "idle");
        drop(events);
        assert_eq!(session.value("kept, __import__('os').path.exists('effect')"), "(7, False)");
    }
}
