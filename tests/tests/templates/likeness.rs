//! A kernel that was forked is as one that was executed.

use std::thread;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Session, Setup, wait};

use crate::template;

/// What a process is and has, by Python's own account and by the system's.
const LOOK: &str = "
import gc, json, locale, os, resource, signal, sys, tempfile, threading, time, warnings
def libc():
    # What libc keeps of the thread, which the system knows by its own number.
    import ctypes
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    owner = int.from_bytes(mutex.raw[8:12], 'little')
    raised = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: raised.append(number))
    libc['raise'](signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)
    allowed, cpus = os.sched_getaffinity(0), []
    for cpu in sorted(allowed)[:2] * 2:
        os.sched_setaffinity(0, {cpu})
        cpus.append(libc.sched_getcpu() == cpu)
    os.sched_setaffinity(0, allowed)
    return [owner == os.getpid(), raised == [signal.SIGUSR1], all(cpus)]
status = dict(line.rstrip('\\n').split(':\\t', 1) for line in open('/proc/self/status') if ':\\t' in line)
look = {
    'pid': os.getpid() == int(status['NSpid'].split()[-1]) == threading.get_native_id(),
    'thread': threading.main_thread().native_id == os.getpid() and threading.current_thread() is threading.main_thread(),
    'threads': [thread.name for thread in threading.enumerate()],
    'tasks': len(os.listdir('/proc/self/task')),
    'group': [os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid(), os.getppid()],
    'directory': [os.getcwd(), os.path.expanduser('~'), tempfile.gettempdir()],
    'umask': os.umask(0o22),
    'environ': sorted(os.environ.items()),
    'environment of a child': sorted(os.popen('env').read().splitlines()),
    'handlers': [str(signal.getsignal(number)).split(' at ')[0] for number in range(1, 65) if number not in (32, 33)],
    'signals': [status[name] for name in ('SigBlk', 'SigIgn', 'SigCgt', 'SigPnd', 'ShdPnd')],
    'ids': [status[name] for name in ('Uid', 'Gid', 'Groups', 'NSpid', 'NStgid')],
    'layers': [status[name] for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp')],
    'filters': int(status['Seccomp_filters']),
    'limits': {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith('RLIMIT_')},
    'oom': open('/proc/self/oom_score_adj').read(),
    'cgroup': [line for line in open('/proc/self/cgroup') if line.startswith('0::')],
    'mounts': [line.split()[3:6] for line in open('/proc/self/mountinfo')],
    'descriptors': [(name, os.readlink('/proc/self/fd/' + name).split(':')[0]) for name in '0123'],
    'stdin': open('/proc/self/fd/0', 'rb').read().decode(),
    'dumpable': os.stat('/proc/self/stat').st_uid == os.getuid(),
    'scheduling': [os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0))],
    'argv': sys.argv,
    'path': sys.path,
    'flags': str(sys.flags),
    'encodings': [sys.getfilesystemencoding(), locale.getpreferredencoding(False), locale.setlocale(locale.LC_ALL)],
    'streams': [(one.name, one.encoding, one.errors, one.line_buffering) for one in (sys.stdin, sys.stdout, sys.stderr)],
    'hooks': [sys.excepthook is sys.__excepthook__, len(sys.meta_path), len(sys.path_hooks)],
    'gc': [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
    'sys': [sys.getrecursionlimit(), sys.getswitchinterval(), sys.executable, sys.prefix, sys.dont_write_bytecode],
    'warnings': [str(one) for one in warnings.filters],
    'time': [time.tzname, time.timezone],
    'globals': sorted(name for name in globals() if name.startswith('__')),
    'main': sys.modules['__main__'].__dict__ is globals(),
    'libc': libc(),
    'timers': [signal.getitimer(which) for which in (0, 1, 2)],
}
print(json.dumps(look))";

fn look(setup: Setup) -> Value {
    let daemon = setup.start();
    let session = daemon.session_with(&json!({"env": {"OWN": "given", "TZ": "Asia/Tokyo"}}));
    let mut told = session.execute(LOOK).ok().printed_json();
    told["protection"] = session.info()["protection"].clone();
    daemon.stop_and_check();
    told
}

#[test]
fn it_tells_the_same_of_itself() {
    let executed = look(Setup::with_start_mode(StartMode::Executed));
    let forked = look(template(
        &["tempfile", "locale", "threading"],
        "import tempfile; tempfile.gettempdir()",
    ));
    let mut wrong = Vec::new();
    // One that is executed has its launcher's filter below its own.
    let filters = |kernel: &Value| kernel["filters"].as_u64().unwrap();
    assert_eq!((filters(&executed), filters(&forked)), (2, 1));
    for (name, executed) in executed.as_object().unwrap() {
        let forked = &forked[name];
        if executed != forked && name != "filters" {
            wrong.push(format!("{name}: executed {executed}\n    forked {forked}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(forked["time"], json!([["JST", "JST"], -32400]));
    assert_eq!(forked["libc"], json!([true, true, true]));
    for name in ["pid", "thread", "dumpable", "main"] {
        assert_eq!(forked[name], true, "{name}");
    }
}

/// What people do, each with what it gives.
const WORK: &[(&str, &str)] = &[
    (
        "import threading\nfound = []\nthreads = [threading.Thread(target=found.append, args=(n,)) for n in range(8)]\n[t.start() for t in threads]; [t.join() for t in threads]\nsorted(found)",
        "[0, 1, 2, 3, 4, 5, 6, 7]",
    ),
    (
        "import threading, os\nids = []\nt = threading.Thread(target=lambda: ids.append((threading.get_native_id(), threading.current_thread().native_id)))\nt.start(); t.join()\nids[0][0] == ids[0][1] != os.getpid()",
        "True",
    ),
    (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool: done = sum(pool.map(abs, range(-9, 0)))\ndone",
        "45",
    ),
    (
        "import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool: done = pool.map(abs, [-1, -2, -3])\ndone",
        "[1, 2, 3]",
    ),
    (
        "import multiprocessing\nwith multiprocessing.get_context('spawn').Pool(2) as pool: done = pool.map(abs, [-1, -2, -3])\ndone",
        "[1, 2, 3]",
    ),
    (
        "import multiprocessing\nwith multiprocessing.get_context('forkserver').Pool(2) as pool: done = pool.map(abs, [-1, -2, -3])\ndone",
        "[1, 2, 3]",
    ),
    (
        "import subprocess\nsubprocess.run(['sh', '-c', 'echo $HOME; cat'], input='in', capture_output=True, text=True).stdout",
        "'/workspace\\nin'",
    ),
    (
        "import os\nread, write = os.pipe()\nchild = os.fork()\nif child == 0:\n    os.write(write, b'child'); os._exit(7)\nos.waitpid(child, 0)[1] >> 8, os.read(read, 9)",
        "(7, b'child')",
    ),
    (
        "import asyncio\nasync def one(n):\n    await asyncio.sleep(0.001)\n    return n\nawait asyncio.gather(*map(one, range(3)))",
        "[0, 1, 2]",
    ),
    (
        "import asyncio\nasync def run():\n    child = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n    return (await child.communicate())[0]\nawait run()",
        "b'hi\\n'",
    ),
    (
        "import os, signal\nread, write = os.pipe(); os.close(read)\ntry: os.write(write, b'x')\nexcept BrokenPipeError: told = 'ignored'\ntold",
        "'ignored'",
    ),
    (
        "import signal, time\ngot = []\nold = signal.signal(signal.SIGALRM, lambda *_: got.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.01)\nwhile not got: time.sleep(0.01)\ngot",
        "[1]",
    ),
    (
        "import gc, weakref\nclass Loop: pass\nloop = Loop(); loop.own = loop; seen = weakref.ref(loop); del loop; gc.collect() and None\nseen() is None",
        "True",
    ),
    (
        "import atexit\nran = []\natexit.register(ran.append, 1) and atexit._run_exitfuncs()\nran",
        "[1]",
    ),
    (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import atexit; atexit.register(print, \"end\")'], capture_output=True).stdout",
        "b'end\\n'",
    ),
    ("import os\nos.environ['LATER'] = 'x'; os.popen('echo $LATER').read()", "'x\\n'"),
    (
        "import time, os\nos.environ['TZ'] = 'America/New_York'; time.tzset(); time.tzname[0]",
        "'EST'",
    ),
    ("import sqlite3\nsqlite3.connect('own.db').execute('select 6 * 7').fetchone()", "(42,)"),
];

#[test]
fn what_people_do_works() {
    for (preimport, warmup) in [
        (&[][..], ""),
        (
            &[
                "threading",
                "asyncio",
                "multiprocessing",
                "subprocess",
                "concurrent.futures",
                "sqlite3",
                "ssl",
                "logging",
            ][..],
            "import asyncio; asyncio.run(asyncio.sleep(0))",
        ),
    ] {
        let daemon = template(preimport, warmup).start();
        let session = daemon.session();
        for (code, right) in WORK {
            let outcome = session.execute_for(60_000, code).ok();
            assert_eq!(outcome.result(), *right, "{code}: {outcome}");
        }
        assert_eq!(session.value("6 * 7"), "42");
        daemon.stop_and_check();
    }
}

#[test]
fn numeric_libraries_work() {
    if !host::has(&[Requirement::PythonScience]) {
        return;
    }
    let modules = ["numpy", "numpy.linalg", "pandas", "matplotlib.pyplot"];
    let daemon =
        template(&modules, "import matplotlib.pyplot as p; p.figure(); p.close('all')").start();
    let session = daemon.session();
    for (code, right) in [
        (
            "import sys; [name in sys.modules for name in ('numpy', 'pandas', 'matplotlib.pyplot')]",
            "[True, True, True]",
        ),
        ("import numpy; a = numpy.ones((300, 300)); float((a @ a).sum())", "27000000.0"),
        (
            "b = numpy.random.rand(300, 300) + 300 * numpy.eye(300); bool(numpy.allclose(numpy.linalg.inv(b) @ b, numpy.eye(300)))",
            "True",
        ),
        ("len(numpy.linalg.eigvals(b)), numpy.linalg.svd(b)[1].shape", "(300, (300,))"),
        (
            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool: sums = [float((x @ x).sum()) for x in pool.map(lambda _: a, range(4))]\nsums",
            "[27000000.0, 27000000.0, 27000000.0, 27000000.0]",
        ),
        (
            "import multiprocessing\ndef product(n): return float((numpy.ones((n, n)) @ numpy.ones((n, n))).sum())\nwith multiprocessing.get_context('fork').Pool(2) as pool: done = pool.map(product, [100, 200])\ndone",
            "[1000000.0, 8000000.0]",
        ),
        (
            "import pandas; int(pandas.DataFrame({'a': [1, 1, 2], 'b': [1, 2, 3]}).groupby('a').b.sum()[1])",
            "3",
        ),
        (
            "import matplotlib, os; matplotlib.get_cachedir(), matplotlib.get_configdir()",
            "('/workspace/.config/matplotlib', '/workspace/.config/matplotlib')",
        ),
        (
            "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig('figure.png'); plt.close('all'); os.path.getsize('figure.png') > 1000",
            "True",
        ),
    ] {
        let outcome = session.execute_for(60_000, code).ok();
        assert_eq!(outcome.result(), right, "{code}: {outcome}");
    }
    daemon.stop_and_check();
}

#[test]
fn an_interrupt_reaches_it() {
    let daemon = template(&[], "").start();
    let session = daemon.session();
    for code in [
        "import subprocess; x = 2; subprocess.run(['sleep', '1000'])",
        "import subprocess; child = subprocess.Popen(['sleep', '1000'])\nwhile True: pass",
    ] {
        let outcome = thread::scope(|scope| {
            let running = scope.spawn(|| session.execute(code));
            session.until_running(1);
            // An interrupt that hits Popen itself leaves the child to nobody.
            wait::until_true("code that has a child", || session.processes() >= 2);
            assert_ne!(session.interrupt()["execution_id"], Value::Null);
            running.join().unwrap()
        });
        let outcome = outcome.ended("interrupted", "interrupt", "preserved");
        assert_eq!(outcome.exception(), "KeyboardInterrupt");
        assert_eq!(session.value("x"), "2");
    }
    daemon.stop_and_check();
}

/// Whether the kernel of a session with this variable was forked, and what it has of it.
fn with_variable(session: &Session<'_>, look: &str) -> (bool, String) {
    (session.is_forked(), session.value(look))
}

#[test]
fn variables_that_are_read_at_the_start_lead_to_an_executed_one() {
    let daemon = template(&[], "").start();
    for (name, value, look, right) in [
        ("PYTHONHASHSEED", "0", "__import__('sys').flags.hash_randomization", "0"),
        ("PYTHONUTF8", "1", "__import__('sys').flags.utf8_mode", "1"),
        ("LANG", "C", "__import__('os').environ['LANG']", "'C'"),
    ] {
        let session = daemon.any_session(&json!({"env": {name: value}}));
        assert_eq!(with_variable(&session, look), (false, right.to_owned()), "{name}");
    }
    // The control: of the same daemon, at the same time.
    let session = daemon.any_session(&json!({"env": {"OWN": "given"}}));
    let look = "__import__('os').environ['OWN']";
    assert_eq!(with_variable(&session, look), (true, "'given'".to_owned()));
    daemon.stop_and_check();
}
