//! What cannot be suspended is refused, says why, and goes on.

use serde_json::json;
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Session, Setup};

use crate::{images, session_named, sleep_once, suspend};

/// What is in the way, what is said of it, and how to end it.
const OBSTACLES: [(&str, &str, &str); 11] = [
    (
        "import threading\nend = threading.Event(); t = threading.Thread(target=end.wait); t.start()",
        "other threads",
        "end.set(); t.join()",
    ),
    (
        "import subprocess\np = subprocess.Popen(['sleep', '1000'])",
        "it has child processes (sleep)",
        "p.kill(); p.wait()",
    ),
    ("import socket\ns = socket.socket(socket.AF_UNIX)", "is a socket", "s.close()"),
    ("import os\nr, w = os.pipe(); os.close(w)", "an end of a pipe", "os.close(r)"),
    (
        "import fcntl\nr, w = os.pipe(); fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 1 << 17); n = os.write(w, bytes(1 << 17))",
        "holds more than an image does",
        "os.close(r); os.close(w)",
    ),
    ("import mmap\nm = mmap.mmap(-1, 8 << 20)", "it shares memory", "m.close()"),
    (
        "import ctypes, _posixshmem\nfd = _posixshmem.shm_open('/s', os.O_CREAT | os.O_RDWR, 0o600); os.ftruncate(fd, 4096)\nlibc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p\nat = libc.mmap(None, ctypes.c_size_t(4096), 3, 1, fd, ctypes.c_long(0))\nos.ftruncate(fd, 0); _posixshmem.shm_unlink('/s'); os.close(fd)",
        "it shares memory",
        "libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(4096))",
    ),
    (
        "m = mmap.mmap(-1, 4096); c = (ctypes.c_char * 4096).from_buffer(m)\nlibc.mremap.restype = ctypes.c_void_p\nat = libc.mremap(ctypes.c_void_p(ctypes.addressof(c)), ctypes.c_size_t(0), ctypes.c_size_t(4096), 1)",
        "it has mapped the same shared memory twice",
        "libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(4096))",
    ),
    (
        "fd = os.open('shared', os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 4096)\nat = libc.mmap(None, ctypes.c_size_t(4096), 3, 1, fd, ctypes.c_long(0)); os.close(fd); os.chmod('shared', 0o444)",
        "could not open again",
        "os.chmod('shared', 0o644)",
    ),
    ("f = open('gone', 'w'); os.remove('gone')", "which has no name any more", "f.close()"),
    (
        "os.mkfifo('/workspace/fifo')",
        "/workspace/fifo is a named pipe",
        "os.remove('/workspace/fifo')",
    ),
];

#[track_caller]
fn refused(session: &Session<'_>, why: &str) {
    let answer = suspend(session);
    let problem = answer.json();
    assert_eq!((answer.status, &problem["code"]), (409, &json!("not_imageable")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
    assert_eq!(session.value("x"), "41");
}

#[test]
fn each_obstacle_is_named_and_its_end_is_enough() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    for (code, why, end) in OBSTACLES {
        let _made = session.execute(code).ok();
        let answer = session.request("GET", "/imageable", None).expect_success();
        let said = answer["reasons"].to_string();
        // Files are looked at when they are written.
        assert!(said.contains(why) || why.contains("named pipe"), "{why}: {answer}");
        refused(&session, why);
        let _ended = session.execute(end).ok();
    }
    sleep_once(&session);
    assert_eq!(session.value("x"), "41");
    daemon.stop_and_check();
}

/// A thread gives its result before it waits for the next work.
#[test]
fn the_threads_of_a_pool_are_given_a_moment_to_become_idle_and_no_more() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let busy = "import concurrent.futures as cf, threading, time\n\
                x, end, pool = 41, threading.Event(), cf.ThreadPoolExecutor(2)\n\
                n = list(pool.map(abs, range(9))); f = pool.submit(end.wait)";
    let _made = session.execute(busy).ok();
    refused(&session, "other threads");
    let soon = "end.set(); n = f.result(); g = pool.submit(time.sleep, 0.05)";
    let _made = session.execute(soon).ok();
    sleep_once(&session);
    assert_eq!(session.value("g.done(), list(pool.map(abs, [-3]))"), "(True, [3])");
    daemon.stop_and_check();
}

#[test]
fn a_kernel_that_was_executed_cannot_be_suspended() {
    let daemon = Setup::with_start_mode(StartMode::Executed)
        .config("environments.default", "images = true")
        .start();
    let session = session_named(&daemon, "a");
    let _made = session.execute("x = 41").ok();
    refused(&session, "not forked from a template");
    daemon.stop_and_check();
}
