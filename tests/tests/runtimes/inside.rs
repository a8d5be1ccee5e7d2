//! The runtime itself: attacks of tenant code in the engine. In the environment of an interpreter the same code
//! works.

use super::*;
use std::fs;

/// The built runtime, where a daemon's user can read it.
pub(super) fn built() -> Option<&'static Path> {
    static COPIED: OnceLock<tempfile::TempDir> = OnceLock::new();
    let source = program::workspace().join("target/wasm");
    let copy = || {
        let dir = program::temp_dir();
        copy(&source, dir.path());
        dir
    };
    host::has(&[Requirement::Wasm]).then(|| COPIED.get_or_init(copy).path())
}

fn copy(from: &Path, to: &Path) {
    for name in ["vivarium-wasm", "vivarium-wasm-compile", "python.wasm", "python.cwasm"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

pub(super) fn section(built: &Path) -> String {
    let program = built.join("vivarium-wasm");
    format!("runtime = \"wasm\"\ninterpreter = \"{}\"", program.display())
}

pub(super) fn daemon(built: &Path) -> Daemon {
    Setup::default().config("environments.light", &section(built)).start()
}

/// Runs code in both runtimes, and returns what each printed.
#[track_caller]
fn in_both(daemon: &Daemon, code: &str) -> [String; 2] {
    let sessions = [light(daemon), daemon.any_session(&json!({}))];
    sessions.map(|session| session.execute(code).ok().stdout().to_owned())
}

#[test]
fn state_results_and_files_are_as_in_an_interpreter() {
    let Some(built) = built() else { return };
    let daemon = daemon(built);
    let session = light(&daemon);
    assert_eq!(session.layer("wasm")["status"], "enforced", "{}", session.layer("wasm"));
    let _set = session.execute("x = 41").ok();
    assert_eq!(session.value("x + 1"), "42");
    let code = "open('a.txt', 'w').write('kept'); print(open('/workspace/a.txt').read())";
    let [wasm, cpython] = in_both(&daemon, code);
    assert_eq!((wasm.as_str(), wasm.as_str()), ("kept\n", cpython.as_str()));
    let raised = session.execute("def f(): return 1 / 0\nf()");
    assert_eq!(raised.0["exception"]["type"], "ZeroDivisionError");
}

/// As a package does it that is upgraded.
#[test]
fn sessions_start_after_the_component_was_replaced() {
    let Some(built) = built() else { return };
    let own = program::temp_dir();
    copy(built, own.path());
    let daemon = daemon(own.path());
    let running = light(&daemon);
    let _set = running.execute("x = 41").ok();
    let (component, new) = (own.path().join("python.cwasm"), own.path().join("new"));
    fs::copy(&component, &new).unwrap();
    fs::rename(&new, &component).unwrap();
    assert_eq!(light(&daemon).value("1 + 1"), "2");
    assert_eq!(running.value("x + 1"), "42");
}

#[test]
fn files_beside_the_preopens_do_not_exist() {
    let Some(built) = built() else { return };
    let daemon = daemon(built);
    let attempt = |path: &str| {
        format!(
            "try: print(len(open({path:?}, 'rb').read(1)))\n\
             except OSError as error: print(type(error).__name__)"
        )
    };
    for path in ["/etc/passwd", "/proc/self/status", "/workspace/../etc/passwd", "/dev/urandom"] {
        let [wasm, cpython] = in_both(&daemon, &attempt(path));
        assert_eq!(cpython, "1\n", "control: {path}");
        assert!(["FileNotFoundError\n", "PermissionError\n"].contains(&&*wasm), "{path}: {wasm}");
    }
}

#[test]
fn processes_threads_and_sockets_are_refused_by_the_runtimes_name() {
    let Some(built) = built() else { return };
    let daemon = daemon(built);
    for code in [
        "import subprocess; subprocess.run(['/bin/true'], check=True)",
        "import os; os.system('true')",
        "import socket; socket.socket()",
        "import threading; t = threading.Thread(target=print); t.start(); t.join()",
    ] {
        let said = format!("try:\n {code}\n print('works')\nexcept Exception as e: print(e)");
        let [wasm, cpython] = in_both(&daemon, &said);
        assert!(cpython.ends_with("works\n"), "control: {code}: {cpython}");
        assert!(wasm.contains("in runtime wasm: use an environment"), "{code}: {wasm}");
    }
}

#[test]
fn memory_and_time_have_limits() {
    let Some(built) = built() else { return };
    let daemon = daemon(built);
    let limits = json!({"environment": "light", "limits": {"max_memory_mb": 128}});
    let session = daemon.any_session(&limits);
    let _set = session.execute("kept = 7").ok();
    let large = session.execute("len(bytearray(512 << 20))");
    assert_eq!(large.0["exception"]["type"], "MemoryError", "{large}");
    assert_eq!(session.value("kept"), "7");
    assert_eq!(light(&daemon).value("len(bytearray(512 << 20))"), "536870912", "control");
    let endless = session.execute_for(500, "while True: pass");
    assert_eq!(endless.0["status"], "timed_out", "{endless}");
    assert_eq!(session.value("1 + 1"), "2");
}

#[test]
fn work_is_limited_exactly_and_is_the_same_in_every_session() {
    let Some(built) = built() else { return };
    let daemon = daemon(built);
    let code = "d = {str(n): [n] for n in range(1000)}\ndef f(n): return n\nfor n in d: f(n)";
    let run = |session: &Session<'_>, most: u64| {
        session.execute_with(&json!({"code": code, "max_work": most}))
    };
    let work = |session: &Session<'_>, most: u64| {
        run(session, most).ok().0["usage"]["work"].as_u64().unwrap()
    };
    let [session, other] = [light(&daemon), light(&daemon)];
    let counted = work(&session, 1_000_000);
    assert!((2000..=4000).contains(&counted), "{counted}");
    assert_eq!(work(&session, counted), counted, "as much as it needs");
    assert_eq!(work(&other, 1_000_000), counted, "in another session");
    let _set = session.execute("kept = 7").ok();
    let over = run(&session, counted - 1).ended("timed_out", "work_limit", "preserved");
    assert_eq!(over.0["usage"]["work"], counted - 1, "{over}");
    assert_eq!(session.value("kept"), "7");
}

#[test]
fn code_that_never_returns_ends_with_its_session() {
    let Some(built) = built() else { return };
    let daemon = daemon(built);
    // Whatever comes from here on is the session's.
    daemon.until_template_of("light");
    let before: Vec<_> = daemon.descendants().iter().map(|one| one.pid).collect();
    let session = light(&daemon);
    let events = session.stream("while True:\n try:\n  while True: pass\n except: pass");
    session.until_running(1);
    let mut own = daemon.descendants();
    own.retain(|one| !before.contains(&one.pid));
    assert!(own.iter().any(|one| one.name == "vivarium-wasm" || one.name == "1000"), "{own:?}");
    assert_eq!(session.request("DELETE", "", None).status, 204);
    session.until_gone();
    assert!(!own.iter().any(Process::is_alive), "{own:?}");
    drop(events);
}

#[test]
fn a_pool_has_sessions_ready() {
    let Some(built) = built() else { return };
    let section = section(built) + "\npool_size = 2\npool_low = 1";
    let daemon = Setup::default().config("environments.light", &section).start();
    let pool = |daemon: &Daemon| {
        let host = daemon.request("GET", "/v1/host", None).expect_success();
        let all = host["environments"].as_array().unwrap().clone();
        all.into_iter().find(|it| it["name"] == "light").unwrap()["pool"].clone()
    };
    wait::until_true("the pool is full", || pool(&daemon)["ready"] == 2);
    let session = light(&daemon);
    assert_eq!(session.value("1 + 1"), "2");
    let metrics = String::from_utf8(daemon.request("GET", "/metrics", None).body).unwrap();
    let hit = "vivarium_pool_takes_total{environment=\"light\",outcome=\"hit\"} 1";
    assert!(metrics.contains(hit), "{metrics}");
    // What a session leaves is in none of the next.
    let _set = session.execute("kept = 7\nopen('left', 'w').write('x')").ok();
    let next = light(&daemon);
    assert_eq!(
        next.value("'kept' in globals(), __import__('os').path.exists('left')"),
        "(False, False)"
    );
}
