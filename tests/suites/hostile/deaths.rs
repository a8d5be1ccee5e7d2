//! Code that ends its kernel.

use super::Case;
use crate::every_way::{daemon, setup};

#[test]
fn os_exit() {
    let _out = Case::new("import os; os._exit(3)").killed("exited", "code 3").run();
}

#[test]
fn os_exit_without_an_error() {
    let _out = Case::new("import os; os._exit(0)").killed("exited", "code 0").run();
}

#[test]
fn what_was_printed_before_is_kept() {
    let code = "import os\nprint('last words', flush=True)\nos._exit(1)";
    let outcome = Case::new(code).killed("exited", "code 1").run();
    assert_eq!(outcome.stdout(), "last words\n");
}

#[test]
fn exit_from_a_thread() {
    let code = "import os, threading\nt = threading.Thread(target=os._exit, args=(4,))\nt.start(); t.join()";
    let _out = Case::new(code).killed("exited", "code 4").run();
}

#[test]
fn abort() {
    let _out = Case::new("import os; os.abort()").killed("signal", "SIGABRT").run();
}

#[test]
fn segmentation_fault() {
    let _out = Case::new("import ctypes; ctypes.string_at(0)").killed("signal", "SIGSEGV").run();
}

#[test]
fn jump_into_nowhere() {
    let code = "import ctypes; ctypes.CFUNCTYPE(None)(1)()";
    let _out = Case::new(code).killed("signal", "SIGSEGV").run();
}

#[test]
fn illegal_instruction() {
    let code = "
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes([0x0f, 0x0b]) if __import__('platform').machine() == 'x86_64' else bytes(4))
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()";
    let _out = Case::new(code).killed("signal", "SIGILL").run();
}

#[test]
fn division_trap() {
    let code = "import os, signal; os.kill(os.getpid(), signal.SIGFPE)";
    let _out = Case::new(code).killed("signal", "SIGFPE").run();
}

#[test]
fn kill_of_itself() {
    let code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)";
    let _out = Case::new(code).killed("signal", "SIGKILL").run();
}

#[test]
fn termination_of_itself() {
    let code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)";
    let _out = Case::new(code).killed("signal", "SIGTERM").run();
}

#[test]
fn real_time_signal() {
    let _out = Case::new("import os; os.kill(os.getpid(), 40)").killed("signal", "signal 40").run();
}

#[test]
fn alarm() {
    let code = "import signal, time; signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(100)";
    let _out = Case::new(code).killed("signal", "SIGALRM").run();
}

#[test]
fn an_alarm_after_the_end() {
    // Armed by one execution, it goes off while none runs, or in the next.
    let daemon = daemon();
    let session = daemon.session();
    let arm = "import signal; signal.setitimer(signal.ITIMER_REAL, 2) and None";
    let _armed = session.execute(arm).ok();
    vivarium_tests::wait::until_true("the alarm", || {
        session.info()["state"] == "replacing"
            || session.execute("1 + 1").status() != "ok"
            || session.execute("'signal' in globals()").result() == "False"
    });
    assert_eq!(session.value("1 + 1"), "2");
    let raising = "
import signal
def handler(*_): raise RuntimeError('late')
signal.signal(signal.SIGALRM, handler) and None";
    let _set = session.execute(raising).ok();
    for microseconds in (0..60).map(|step| 700 + step * 337) {
        // Armed by code that it may itself interrupt.
        let _armed = session.execute(&format!(
            "signal.setitimer(signal.ITIMER_REAL, {microseconds}e-6, {microseconds}e-6) and None"
        ));
        let next = session.execute("for _ in range(10000): pass\n1 + 1");
        assert_eq!(next.state(), "preserved", "{next}");
        assert!(
            next.0["result"]["repr"] == "2"
                || (next.exception() == "RuntimeError" && next.0["result"].is_null()),
            "{next}"
        );
    }
    daemon.stop_and_check();
}

#[test]
fn stopping_itself() {
    let code = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)";
    let _out = Case::new(code).times_out(2000, "lost").run();
}

#[test]
fn infinite_recursion() {
    let outcome = Case::new("def f(): f()\nf()").raises().run();
    assert_eq!(outcome.exception(), "RecursionError");
}

#[test]
fn infinite_recursion_in_c() {
    let code = "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1) + 1\nf(0)";
    // The stack, or memory: which comes first is Python's affair.
    let daemon = setup().limits(&serde_json::json!({"max_memory_mb": 512})).start();
    let session = daemon.session();
    let outcome = session.execute_for(10_000, code);
    assert!(["killed", "error", "timed_out"].contains(&outcome.status()), "{outcome}");
    assert_eq!(session.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn memory_hog() {
    let code = "kept = []\nwhile True: kept.append(bytearray(8 << 20))";
    let case = Case::new(code).limits(serde_json::json!({"max_memory_mb": 256}));
    // RLIMIT_AS raises; a memory controller kills.
    let daemon = daemon();
    if daemon.layer("cgroup")["status"] == "enforced" {
        let _out = case.killed("memory_limit", "256 MiB").run();
    } else {
        let outcome = case.raises().run();
        assert_eq!(outcome.exception(), "MemoryError");
    }
}

#[test]
fn a_kernel_that_dies_between_executions() {
    let daemon = daemon();
    let session = daemon.session();
    let later = "
import os, threading
go = threading.Event()
def die():
    go.wait()
    import time; time.sleep(2)
    os._exit(9)
threading.Thread(target=die).start()
x = 1
go.set()";
    // Not by executing: that would be an execution that it takes with it.
    let main = || session.request("GET", "/contexts/main", None).expect_success();
    let before = main()["generation"].clone();
    let _started = session.execute(later).ok();
    vivarium_tests::wait::until_true("a fresh kernel", || main()["generation"] != before);
    assert_eq!(session.value("'x' in globals()"), "False");
    assert_eq!(session.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn what_the_dead_have_used_is_told() {
    let code = "import os\nfor _ in range(3 * 10**6): pass\nos._exit(1)";
    let outcome = Case::new(code).killed("exited", "code 1").run();
    assert!(outcome.0["usage"]["cpu_ms"].as_f64().unwrap() > 0.0, "{outcome}");
}
