//! Per-process limits, and that they only ever go down.

use serde_json::json;
use vivarium_tests::probe;

use super::contrast;
use crate::every_way::{control, daemon, setup};

#[test]
fn limits_can_not_be_raised() {
    contrast(
        &["rlimits"],
        &[
            ("raise_limit('RLIMIT_NOFILE', 2048, 2048)", "EPERM", "works"),
            ("raise_limit('RLIMIT_MEMLOCK', 1 << 21, 1 << 21)", "EPERM", "works"),
            ("raise_limit('RLIMIT_NOFILE', 512, 512)", "works", "works"),
        ],
    );
}

/// Queued signals are kernel memory that no other limit counts. A signal that is sent to a thread
/// and blocked stays queued: `__send_signal_locked` in the kernel's kernel/signal.c.
#[test]
fn queued_signals_are_counted() {
    let queued = "queue_signals(2000)";
    contrast(&["rlimits"], &[(queued, "EAGAIN", control("works", "EAGAIN|works"))]);
}

#[test]
fn limits_are_those_of_the_policy() {
    let limits = json!({"max_open_fds": 100, "max_file_size_mb": 3});
    let daemon = setup().limits(&limits).start();
    let session = daemon.session();
    probe::load(&session);
    let limit = |name: &str| probe::Attempt::make(&session, &format!("limit('{name}')")).value();
    assert_eq!(limit("RLIMIT_NOFILE"), json!([100, 100]));
    assert_eq!(limit("RLIMIT_FSIZE"), json!([3 << 20, 3 << 20]));
    assert_eq!(limit("RLIMIT_CORE"), json!([1, 1]));
    assert_eq!(limit("RLIMIT_MSGQUEUE"), json!([0, 0]));
    assert_eq!(limit("RLIMIT_SIGPENDING"), json!([1024, 1024]));
}

/// With 1 the host's kernel aborts the dump, and with 0 it would start what a `|program` pattern
/// names. tests/vm/suite crashes a tenant under such a pattern.
#[test]
fn the_limit_that_aborts_core_dumps_can_not_be_changed() {
    const LOWER: &[(&str, &str, &str)] = &[
        ("raise_limit('RLIMIT_CORE', 0, 1)", "EPERM", "works"),
        ("raise_limit('RLIMIT_CORE', 0, 0)", "EPERM", "works"),
        ("call('setrlimit', 4, bytes(16))", "EPERM", "works"),
        ("call('setrlimit', 4 | 1 << 32, bytes(16))", "EPERM", "works"),
        ("call('prlimit64', 0, 4, bytes(16), 0)", "EPERM", "works"),
        ("call('prlimit64', 0, 4 | 1 << 32, bytes(16), 0)", "EPERM", "works"),
        ("call('prlimit64', os.getpid(), 4, bytes(16), 0)", "EPERM", "works"),
        ("limit('RLIMIT_CORE')", "works", "works"),
    ];
    contrast(&["seccomp"], LOWER);
    // Also without the layer no process of ours or of a tenant's has another limit.
    let daemon = setup().without(&["rlimits"]).start();
    let session = daemon.session();
    probe::load(&session);
    assert_eq!(probe::Attempt::make(&session, "limit('RLIMIT_CORE')").value(), json!([1, 1]));
    let in_command = probe::Attempt::make_in_command(&session, &["limit('RLIMIT_CORE')"]);
    assert_eq!(in_command[0].clone().value(), json!([1, 1]));
    for process in daemon.descendants() {
        let file = format!("/proc/{}/limits", process.pid);
        // One of those that make another session may have ended.
        let Ok(limits) = std::fs::read_to_string(file) else { continue };
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        let words: Vec<_> = core.split_whitespace().collect();
        assert_eq!(words[4..6], ["1", "1"], "{process:?}");
    }
}

/// Runs code in a session with these limits, with the layer and without.
fn limited(limits: &serde_json::Value, code: &str) -> [String; 2] {
    [&[] as &[&str], &["rlimits"]].map(|layers| {
        let daemon = setup().limits(limits).without(layers).start();
        let session = daemon.session();
        let outcome = session.execute(code);
        assert_eq!(session.value("1 + 1"), "2");
        format!("{} {}", outcome.status(), outcome.exception())
    })
}

#[test]
fn files_have_a_largest_size() {
    let write = "open('large', 'wb').write(bytes(2 << 20)) and None";
    assert_eq!(limited(&json!({"max_file_size_mb": 1}), write), ["error OSError", "ok "]);
}

#[test]
fn descriptors_are_counted() {
    let open = "kept = [open('/dev/null') for _ in range(200)]; kept.clear()";
    assert_eq!(limited(&json!({"max_open_fds": 64}), open), ["error OSError", "ok "]);
}

#[test]
fn address_space_stands_in_for_a_memory_controller() {
    let daemon = daemon();
    let cgroup = daemon.layer("cgroup");
    let reserve = "len(bytearray(1 << 30)) and None";
    let [on, off] = limited(&json!({"max_memory_mb": 512}), reserve);
    if cgroup["status"] == "enforced" {
        // Reserved and not touched: the controller has nothing to say.
        assert_eq!([on, off], ["ok ", "ok "]);
    } else {
        assert_eq!([on, off], ["error MemoryError", "ok "]);
    }
}

#[test]
fn cpu_time_is_counted_for_each_execution_anew() {
    let daemon = setup().limits(&json!({"max_cpu_secs": 1})).start();
    let session = daemon.session();
    let half = "
import time
end = time.process_time() + 0.5
while time.process_time() < end: pass";
    for _ in 0..4 {
        let _under = session.execute(half).ok();
    }
    let outcome = session.execute("while True: pass");
    assert_eq!(outcome.cause(), "cpu_limit", "{outcome}");
    assert!(outcome.detail().contains("max_cpu_secs 1"), "{outcome}");
    assert_eq!(session.value("1 + 1"), "2");
    // Spread over children it is counted too.
    let spread = "
import os
for _ in range(2):
    if os.fork() == 0:
        while True: pass
os.wait()";
    let outcome = session.execute(spread);
    assert_eq!(outcome.cause(), "cpu_limit", "{outcome}");
    assert_eq!(session.value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn printing_all_the_time_does_not_hide_cpu_time() {
    let code = "
import os, resource
hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
for n in range(4):
    if os.fork() == 0:
        while True: os.write(1 + n % 2, b'x' * 4096)
while True: pass";
    let daemon = setup().limits(&json!({"max_cpu_secs": 1})).start();
    let session = daemon.session();
    let outcome = session.execute_for(30_000, code);
    assert_eq!(outcome.cause(), "cpu_limit", "{outcome}");
    assert_eq!(session.value("1 + 1"), "2");
}

#[test]
fn without_a_proc_of_its_own_a_session_is_not_charged_for_the_host() {
    // The host's /proc has other processes under the session's pids.
    let daemon = setup().limits(&json!({"max_cpu_secs": 1})).without(&["mounts"]).start();
    let session = daemon.session();
    let outcome = session.execute_for(30_000, "import time; time.sleep(2.5)").ok();
    assert!(outcome.to_string().contains("\"cpu_ms\""), "{outcome}");
}
