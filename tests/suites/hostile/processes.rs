//! Code that makes processes and threads, and attacks those there are.

use serde_json::json;

use super::Case;
use crate::every_way::{COUNTS_PROCESSES, daemon};

#[test]
fn fork_bomb() {
    // Where nothing bounds a session's processes (docs/threat-model.md), more would only tell how
    // busy the host can get.
    let goes_on = if COUNTS_PROCESSES { "True" } else { "(os.getpid() - first) % 2**22 < 300" };
    // SIGINT alone would end it, here and there.
    let code = format!(
        "
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
first = os.getpid()
while True:
    try: {goes_on} and os.fork()
    except OSError: pass"
    );
    let case = Case::new(&code).times_out(1500, "lost").limits(json!({"max_procs": 24}));
    let _out = case.run();
}

#[test]
fn fork_bomb_that_ends_its_first_process() {
    let code = "
import os
while True:
    try: child = os.fork()
    except OSError: child = 1
    if child: os._exit(0)";
    let case = Case::new(code).killed("exited", "").limits(json!({"max_procs": 24}));
    let _out = case.run();
}

#[test]
fn thread_bomb() {
    let code = "
import threading, time
while True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()";
    let outcome = Case::new(code).raises().limits(json!({"max_procs": 24})).run();
    assert_eq!(outcome.exception(), "RuntimeError");
}

#[test]
fn daemonised_grandchildren() {
    let code = "
import os, signal
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for n in range(1, 65):
                try: signal.signal(n, signal.SIG_IGN)
                except (OSError, ValueError): pass
            os.closerange(0, 1024)
            while True: signal.pause()
        os._exit(0)
while True: pass";
    // They live as long as their kernel, which ends in time.
    let code = format!("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{code}");
    let _out = Case::new(&code).times_out(2000, "lost").run();
}

#[test]
fn grandchildren_of_a_kernel_that_exits() {
    let code = "
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(1000)
    os._exit(0)
os._exit(5)";
    let _out = Case::new(code).killed("exited", "code 5").run();
}

#[test]
fn fork_without_exec() {
    // Both go on; the child must not answer.
    let code = "import os\nchild = os.fork()\n'parent' if child else 'child'";
    let outcome = Case::new(code).run();
    assert_eq!(outcome.result(), "'parent'");
}

#[test]
fn a_fork_whose_child_raises_or_exits() {
    for (code, more) in [
        (
            "import os\nif os.fork() == 0: raise ValueError('of the child')\nos.wait()[1]",
            "of the child",
        ),
        (
            "import os, sys\nif os.fork() == 0: sys.exit(3)\nos.waitstatus_to_exitcode(os.wait()[1])",
            "",
        ),
        ("import os\nif os.fork() == 0: print('child')\nelse: os.wait(); print('parent')", ""),
    ] {
        let outcome = Case::new(code).run();
        assert!(outcome.stderr().contains(more), "{outcome}");
    }
}

#[test]
fn a_forked_child_that_stays() {
    let code = "
import os, time
if os.fork() == 0:
    time.sleep(0.3)
    print('late')
'own'";
    let outcome = Case::new(code).run();
    assert_eq!(outcome.result(), "'own'");
}

#[test]
fn kill_of_everybody() {
    // All but the caller and PID 1: nobody is there.
    let code = "
import os, signal
try: os.kill(-1, signal.SIGKILL)
except OSError as error: print(type(error).__name__)
'alive'";
    let outcome = Case::new(code).run();
    assert_eq!(outcome.result(), "'alive'");
}

#[test]
fn kill_of_pid_1() {
    let code = "
import os, signal
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGSEGV):
    try: os.kill(1, number)
    except PermissionError: pass
'alive'";
    let outcome = Case::new(code).run();
    assert_eq!(outcome.result(), "'alive'");
}

#[test]
fn kill_of_its_process_group() {
    let code = "import os, signal; os.killpg(0, signal.SIGKILL)";
    let _out = Case::new(code).killed("signal", "SIGKILL").run();
}

#[test]
fn many_zombies() {
    let code = "import os\nfor _ in range(40):\n    if os.fork() == 0: os._exit(0)\n'many'";
    let outcome = Case::new(code).run();
    assert_eq!(outcome.result(), "'many'");
}

#[test]
fn children_that_are_left_end_with_the_session() {
    let daemon = daemon();
    let session = daemon.session();
    let code =
        "import subprocess; [subprocess.Popen(['sleep', '1000']) for _ in range(5)] and None";
    let _left = session.execute(code).ok();
    assert_eq!(session.processes(), 6);
    assert_eq!(session.request("DELETE", "", None).status, 204);
    daemon.until_only(0);
    daemon.stop_and_check();
}
