//! Code that changes what its kernel is made of: it harms itself alone, and not past a reset.

use super::Case;
use crate::every_way::daemon;

#[test]
fn builtins_patched() {
    let code = "
import builtins
for name in ('len', 'print', 'repr', 'str', 'isinstance', 'getattr', 'compile', 'eval', 'exec',
             'type', 'bytes', 'open', 'range', 'dict', 'Exception', 'BaseException', '__import__'):
    setattr(builtins, name, None)";
    let daemon = daemon();
    let session = daemon.session();
    let _patched = session.execute(code);
    assert_eq!(session.value("1 + 1"), "2");
    let raised = session.execute("1 / 0");
    assert_eq!(raised.exception(), "ZeroDivisionError", "{raised}");
    session.reset();
    assert_eq!(session.value("len('abc')"), "3");
    daemon.stop_and_check();
}

#[test]
fn modules_cleared() {
    let outcome = Case::new("import sys; sys.modules.clear()").run();
    assert_eq!(outcome.exception(), "");
}

#[test]
fn modules_replaced() {
    let code = "
import sys
for name in ('os', 'sys', 'io', 'traceback', 'linecache', 'asyncio', 'posix', 'builtins', '__main__'):
    sys.modules[name] = 7";
    let daemon = daemon();
    let session = daemon.session();
    let _replaced = session.execute(code).ok();
    assert_eq!(session.value("1 + 1"), "2");
    let raised = session.execute("def f(): return 1 / 0\nf()").raised("ZeroDivisionError");
    assert!(raised.traceback().contains("return 1 / 0"), "{raised}");
    daemon.stop_and_check();
}

#[test]
fn modules_of_the_workdir_in_place_of_pythons() {
    let code = "
for name in ('traceback', 'linecache', 'asyncio', 'ast', 'json', 'codecs'):
    open(name + '.py', 'w').write('print(\"SHADOWED\")\\nraise SystemExit')";
    let daemon = daemon();
    let session = daemon.session();
    let _planted = session.execute(code).ok();
    session.reset();
    let raised = session.execute("x = 1\n1 / 0").raised("ZeroDivisionError");
    assert_eq!(raised.stdout(), "");
    assert!(raised.traceback().contains("1 / 0"), "{raised}");
    daemon.stop_and_check();
}

#[test]
fn the_runner_found_and_patched() {
    // Frames, the garbage collector and the function's globals all lead there.
    let code = "
import gc, sys
frame = sys._getframe()
while frame.f_back: frame = frame.f_back
runner = frame.f_globals
found = [name for name in runner if name in ('send', 'execute', 'run')]
for name in found: runner[name] = lambda *a: None
for thing in gc.get_objects():
    if type(thing) is dict and 'receive' in thing and 'execute' in thing:
        for name in list(thing): thing[name] = None
found";
    let daemon = daemon();
    let (session, other) = (daemon.session(), daemon.session());
    let outcome = session.execute_for(2000, code);
    assert!(["ok", "error", "killed", "timed_out"].contains(&outcome.status()), "{outcome}");
    let _any = session.execute_for(2000, "1 + 1");
    session.reset();
    assert_eq!(session.value("1 + 1"), "2");
    assert_eq!(other.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn tracing_and_profiling_left_on() {
    let daemon = daemon();
    let session = daemon.session();
    for code in [
        "import sys\ndef trace(*_): raise SystemExit\nsys.settrace(trace)",
        "import sys\ndef trace(*_): raise KeyboardInterrupt\nsys.setprofile(trace)",
        "import sys\nsys.excepthook = sys.displayhook = sys.unraisablehook = None",
        "import sys\nsys.setrecursionlimit(60)",
        "import gc; gc.disable(); gc.set_threshold(1)",
        "import sys\nsys.addaudithook(lambda *_: None)",
        "import sys; sys.path.clear(); sys.meta_path.clear(); sys.path_hooks.clear()",
        "import os; os.chdir('/'); os.umask(0o777)",
        "import os, shutil; shutil.rmtree('/workspace', ignore_errors=True)",
        "import os; os.environ.clear()",
        "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass",
        "import ctypes; ctypes.pythonapi.PyErr_SetInterrupt()",
        "globals().clear()",
        "__builtins__ = {}",
        "import faulthandler; faulthandler.dump_traceback_later(0.01)",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))",
    ] {
        let outcome = session.execute(code);
        assert!(["ok", "error"].contains(&outcome.status()), "{code}: {outcome}");
        let next = session.execute("1 + 1");
        assert_eq!(next.result(), "2", "after {code}: {next}");
    }
    session.reset();
    assert_eq!(session.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn an_audit_hook_that_refuses_everything() {
    let code = "
import sys
def refuse(*_): raise RuntimeError('refused')
sys.addaudithook(refuse)";
    let daemon = daemon();
    let session = daemon.session();
    let _any = session.execute(code);
    // A hook can not be taken away: the kernel may be of no more use, but it says so.
    let next = session.execute_for(2000, "1 + 1");
    assert!(["ok", "error", "killed", "timed_out"].contains(&next.status()), "{next}");
    session.reset();
    assert_eq!(session.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn limits_lowered_to_nothing() {
    for code in [
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (0, 0))\nwhile True: pass",
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1, 1))\nx = bytearray(1 << 26)",
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nopen('x', 'wb', 0).write(b'x')",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))\nopen('x')",
    ] {
        let daemon = daemon();
        let session = daemon.session();
        let outcome = session.execute_for(5000, code);
        assert_ne!(outcome.status(), "ok", "{code}: {outcome}");
        session.reset();
        assert_eq!(session.value("1 + 1"), "2", "{code}");
        daemon.stop_and_check();
    }
}
