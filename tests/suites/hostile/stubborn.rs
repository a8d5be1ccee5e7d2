//! Code that does not want to end.

use super::Case;
use crate::every_way::daemon;

#[test]
fn sigint_ignored() {
    let code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let _out = Case::new(code).times_out(2000, "lost").run();
}

#[test]
fn sigint_handled_and_dropped() {
    let code = "import signal; signal.signal(signal.SIGINT, lambda *_: None)\nwhile True: pass";
    let _out = Case::new(code).times_out(2000, "lost").run();
}

#[test]
fn sigint_blocked() {
    let code =
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass";
    let _out = Case::new(code).times_out(2000, "lost").run();
}

#[test]
fn every_exception_caught() {
    let code =
        "import time\nwhile True:\n    try: time.sleep(1000)\n    except BaseException: pass";
    let _out = Case::new(code).times_out(2000, "lost").run();
}

#[test]
fn a_repr_that_hangs() {
    let code = "class Evil:\n    def __repr__(self):\n        while True: pass\nEvil()";
    let _out = Case::new(code).times_out(300, "preserved").run();
}

#[test]
fn a_repr_that_hangs_and_catches_everything() {
    let code = "
import time
class Evil:
    def __repr__(self):
        while True:
            try: time.sleep(1000)
            except BaseException: pass
Evil()";
    let _out = Case::new(code).times_out(2000, "lost").run();
}

#[test]
fn a_repr_that_raises() {
    let code = "class Evil:\n    def __repr__(self): raise ValueError('no')\nEvil()";
    let outcome = Case::new(code).run();
    assert!(outcome.result().contains("ValueError"), "{outcome}");
}

#[test]
fn a_repr_that_exits_or_is_no_string() {
    for body in ["raise SystemExit", "raise BaseException", "return 7", "return None"] {
        let code = format!("class Evil:\n    def __repr__(self): {body}\nEvil()");
        let _out = Case::new(&code).run();
    }
}

#[test]
fn an_exception_whose_str_raises() {
    let code = "class Evil(Exception):\n    def __str__(self): raise ValueError('no')\nraise Evil";
    let outcome = Case::new(code).raises().run();
    assert_eq!(outcome.exception(), "Evil");
}

#[test]
fn an_exception_whose_str_hangs() {
    let code =
        "class Evil(Exception):\n    def __str__(self):\n        while True: pass\nraise Evil";
    let _out = Case::new(code).times_out(300, "preserved").run();
}

#[test]
fn an_exception_that_is_made_to_confuse() {
    for code in [
        "class Meta(type):\n    __name__ = property(lambda s: 1/0)\n    __qualname__ = property(lambda s: 1/0)\nclass Evil(Exception, metaclass=Meta): pass\nraise Evil",
        "class Evil(Exception):\n    __module__ = 7\n    __class__ = int\nraise Evil",
        "class Evil(Exception):\n    def __getattribute__(self, name): raise SystemExit\nraise Evil",
        "class Str(str):\n    def encode(self, *a): return 7\nclass Evil(Exception):\n    def __str__(self): return Str('x')\nraise Evil",
        "e = ValueError('x'); e.__cause__ = e.__context__ = e; raise e",
        "raise ExceptionGroup('g', [ValueError(1), ExceptionGroup('h', [KeyError(2)])])",
    ] {
        let outcome = Case::new(code).raises().run();
        assert!(!outcome.exception().is_empty(), "{outcome}");
    }
}

#[test]
fn a_finalizer_that_hangs() {
    let code = "class Evil:\n    def __del__(self):\n        while True: pass\nx = Evil(); del x";
    let outcome = {
        let daemon = daemon();
        let session = daemon.session();
        let outcome = session.execute_for(300, code);
        assert_eq!(outcome.status(), "timed_out", "{outcome}");
        assert_eq!(session.value("1 + 1"), "2");
        outcome
    };
    assert_eq!(outcome.cause(), "wall_time");
}

#[test]
fn exit_handlers_and_finalizers_at_the_end_do_not_hold_it_up() {
    let daemon = daemon();
    let session = daemon.session();
    let code = "
import atexit, time, signal, threading
atexit.register(time.sleep, 1000)
class Evil:
    def __del__(self): time.sleep(1000)
keep = Evil()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Thread(target=time.sleep, args=(1000,)).start()";
    let _set = session.execute(code).ok();
    session.reset();
    assert_eq!(session.value("'keep' in globals()"), "False");
    let _set = session.execute(code).ok();
    assert_eq!(session.request("DELETE", "", None).status, 204);
    daemon.stop_and_check();
}

#[test]
fn code_that_does_not_compile_in_any_good_time() {
    let daemon = daemon();
    let session = daemon.session();
    for code in [
        "(".repeat(100_000),
        format!("x = {}1{}", "(".repeat(5000), ")".repeat(5000)),
        format!("x = {}", "-".repeat(200_000)),
        "a\0b".to_owned(),
        "\u{feff}1 + 1".to_owned(),
        format!("# -*- coding: utf-16 -*-\n{}", "1 + 1"),
    ] {
        let outcome = session.execute_for(10_000, &code);
        assert!(["error", "ok", "killed", "timed_out"].contains(&outcome.status()), "{outcome}");
        assert_eq!(session.value("1 + 1"), "2");
    }
    daemon.stop_and_check();
}
