//! Policies of the language: what each does to code, what holds together, and what is a wall.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use vivarium_tests::{Daemon, Outcome, Session, Setup, Shared, program};

static DAEMON: Shared = Shared::new(Setup::default);

/// What an execution comes to with these fields besides its code.
fn execute(session: &Session<'_>, code: &str, policies: &Value) -> Outcome {
    let mut request = json!({"code": code});
    request.as_object_mut().unwrap().extend(policies.as_object().unwrap().clone());
    session.execute_with(&request)
}

/// The field that a session's code is refused for, and why.
#[track_caller]
fn refused(daemon: &Daemon, method: &str, path: &str, body: &Value) -> (String, String) {
    let response = daemon.request(method, path, Some(body));
    let problem = response.expect_problem(422, "invalid_field");
    let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    (text("field"), text("detail"))
}

/// A Python that counts work: of those that `tests/pythons` has found, or the host's.
fn counting_python() -> Option<PathBuf> {
    let named = std::env::var_os("VIVARIUM_TEST_PYTHONS").unwrap_or_default();
    let counts = |path: &PathBuf| {
        let code = "import sys; sys.exit(sys.version_info < (3, 12))";
        let status = Command::new(path).args(["-c", code]).status();
        status.is_ok_and(|status| status.success())
    };
    let found = std::env::split_paths(&named).chain(["/usr/bin/python3".into()]).find(counts);
    if found.is_none() {
        std::io::stderr().write_all(b"SKIPPED: no Python 3.12 in VIVARIUM_TEST_PYTHONS\n").unwrap();
    }
    found
}

/// A daemon whose Python counts work.
fn counting(lines: &str) -> Option<Daemon> {
    let interpreter = format!("interpreter = \"{}\"", counting_python()?.display());
    let setup = Setup::default().config("environments.default", &interpreter);
    Some(setup.config("sandbox", lines).start())
}

#[test]
fn imports_are_held_to_lists_and_libraries_are_not() {
    let daemon = DAEMON.hold();
    let session = daemon.session();
    let _control = session.execute("import socket, sqlite3").ok();
    let _reset = session.reset();
    let math = json!({"imports": {"allow": ["math", "json", "os.path"]}});
    assert_eq!(execute(&session, "import math, os.path\nmath.pi > 3", &math).ok().result(), "True");
    // It imports `decoder` and others itself.
    let _json = execute(&session, "import json\njson.dumps([1])", &math).ok();
    for code in ["import socket", "from sqlite3 import connect", "__import__('socket')"] {
        let outcome = execute(&session, code, &math);
        assert_eq!(outcome.status(), "error", "{code}: {outcome}");
        assert!(outcome.exception().contains("ImportNotAllowed"), "{outcome}");
    }
    let near = execute(&session, "import jsonn", &math);
    assert!(near.traceback().contains("the nearest to it is 'json'"), "{near}");
    let _caught = execute(
        &session,
        "try:\n    import socket\nexcept ImportError:\n    refused = True\nassert refused",
        &json!({"imports": {"deny": ["socket"]}}),
    )
    .ok();
    let _later = session.execute("import socket").ok();
    daemon.release();
}

#[test]
fn audit_events_are_counted_and_denied_by_name() {
    let daemon = DAEMON.hold();
    let session = daemon.session();
    let code = "for _ in range(3): open('/dev/null').close()";
    let plain = session.execute(code).ok();
    assert!(plain.0.get("audit_events").is_none(), "{plain}");
    let counted = execute(&session, code, &json!({"audit_events": {}})).ok();
    assert_eq!(counted.0["audit_events"]["open"], 3, "{counted}");
    let system = json!({"audit_events": {"deny": ["os.system", "subprocess.Popen"]}});
    let code = "import os, subprocess\nos.system('touch made')";
    let denied = execute(&session, code, &system);
    assert!(denied.exception().contains("PermissionError"), "{denied}");
    assert_eq!(session.value("__import__('os').path.exists('made')"), "False");
    let _control = session.execute(code).ok();
    assert_eq!(session.value("__import__('os').path.exists('made')"), "True");
    daemon.release();
}

#[test]
fn values_are_echoed_and_prints_are_noted_as_asked() {
    let daemon = DAEMON.hold();
    let session = daemon.session();
    let code = "1 + 1\n'two'\n3";
    let shown = |outcome: &Outcome| {
        let displays = outcome.0["displays"].as_array().unwrap();
        displays.iter().map(|it| it["mime"]["text/plain"].clone()).collect::<Vec<_>>()
    };
    let last = session.execute(code).ok();
    assert_eq!((last.result(), shown(&last).len()), ("3", 0));
    let all = execute(&session, code, &json!({"echo": "all"})).ok();
    assert_eq!((all.result(), shown(&all)), ("3", vec![json!("2"), json!("'two'")]));
    let none = execute(&session, code, &json!({"echo": "none"})).ok();
    assert_eq!((&none.0["result"], shown(&none).len()), (&Value::Null, 0));
    let printed = execute(&session, "print(1, 'a')\nprint()", &json!({"prints": true})).ok();
    assert_eq!(printed.0["prints"], json!([["1", "'a'"], []]), "{printed}");
    assert_eq!(printed.stdout(), "1 a\n\n");
    let silent = execute(&session, "pass", &json!({"prints": true})).ok();
    assert_eq!(silent.0["prints"], json!([]));
    assert!(last.0.get("prints").is_none());
    daemon.release();
}

#[test]
fn modules_and_names_are_of_one_execution() {
    let daemon = DAEMON.hold();
    let session = daemon.session();
    let host = json!({"modules": {"host": {"limit": 7, "rows": [{"id": 1}]}}});
    let code = "from host import limit\nimport host\nlimit, host.rows[0]['id']";
    assert_eq!(execute(&session, code, &host).ok().result(), "(7, 1)");
    let written = execute(&session, "import host\nhost.limit = 8", &host);
    assert_eq!(written.status(), "error", "{written}");
    let gone = session.execute("import host");
    assert!(gone.exception().contains("ModuleNotFoundError"), "{gone}");
    let _kept = session.execute("kept = 1").ok();
    let stateless = json!({"names": {"keep": []}});
    let _lost = execute(&session, "kept = 2\nlost = 3", &stateless).ok();
    assert_eq!(session.value("kept, 'lost' in globals()"), "(1, False)");
    let one = json!({"names": {"keep": ["a"]}});
    let _raised = execute(&session, "a = 1\nb = 2\n1 / 0", &one).raised("ZeroDivisionError");
    assert_eq!(session.value("a, 'b' in globals()"), "(1, False)");
    let _dropped = execute(&session, "c = 1", &json!({"names": {"drop": ["a", "c"]}})).ok();
    assert_eq!(session.value("'a' in globals(), 'c' in globals()"), "(False, False)");
    daemon.release();
}

#[test]
fn a_request_only_tightens_what_stands_above_it() {
    let lines = "imports = { allow = [\"math\", \"json\"] }\necho = \"none\"";
    let daemon = Setup::default().config("sandbox", lines).start();
    let session = daemon.session_with(&json!({"imports": {"deny": ["json"]}}));
    let code = |name: &str| format!("import {name}");
    let _allowed = session.execute(&code("math")).ok();
    for name in ["json", "socket"] {
        let wide = json!({"imports": {"allow": ["math", "json", "socket"]}, "policy": "full"});
        assert_eq!(execute(&session, &code(name), &wide).status(), "error", "{name}");
    }
    assert_eq!(execute(&session, "1", &json!({"echo": "last"})).ok().result(), "1");
    assert_eq!(session.execute("1").ok().0["result"], Value::Null);
    let info = session.info();
    let policy = info["policy"].as_array().unwrap();
    let entry = |key: &str| policy.iter().find(|entry| entry["key"] == key).unwrap();
    let imports = entry("sandbox.imports.allow");
    assert_eq!((&imports["value"], &imports["source"]), (&json!(["math"]), &json!("request")));
    let echo = entry("sandbox.echo");
    assert_eq!((&echo["value"], &echo["source"]), (&json!("none"), &json!("file")));
    assert_eq!(entry("sandbox.max_work")["value"], "unlimited");
    daemon.stop_and_check();
}

#[test]
fn presets_are_shown_expanded_and_hold() {
    let daemon = DAEMON.hold();
    let session = daemon.session_with(&json!({"policy": "compute"}));
    let info = session.info();
    let policy = info["policy"].as_array().unwrap();
    let list = |key: &str| {
        let entry = policy.iter().find(|entry| entry["key"] == key).unwrap();
        entry["value"].as_array().unwrap().clone()
    };
    assert!(list("sandbox.imports.allow").contains(&json!("math")));
    assert!(list("sandbox.audit_events.deny").contains(&json!("socket.connect")));
    let counted = session.execute("import math\nmath.pi").ok();
    assert!(counted.0["audit_events"].is_object(), "{counted}");
    assert!(session.execute("import socket").exception().contains("ImportNotAllowed"));
    let plain = daemon.session();
    let _control = plain.execute("import socket").ok();
    let compute = json!({"policy": "compute"});
    assert_eq!(execute(&plain, "import socket", &compute).status(), "error");
    assert_eq!(execute(&plain, "import os", &json!({"policy": "files"})).status(), "ok");
    assert_eq!(execute(&plain, "import socket", &json!({"policy": "network"})).status(), "ok");
    daemon.release();
}

#[test]
fn what_is_no_policy_is_refused_before_anything_runs() {
    let daemon = DAEMON.hold();
    let session = daemon.session();
    let at = session.path("/execute");
    for (policies, field) in [
        (json!({"imports": {"allow": ["a"], "deny": ["b"]}}), "imports"),
        (json!({"imports": {"allow": ["a b"]}}), "imports"),
        (json!({"audit_events": {"deny": ["*"]}}), "audit_events"),
        (json!({"max_work": 0}), "max_work"),
        (json!({"names": {}}), "names"),
        (json!({"modules": {"sys": {}}}), "modules.sys"),
        (json!({"modules": {"m": {"a": "x".repeat(1 << 20)}}}), "modules"),
    ] {
        let mut body = json!({"code": "ran = True"});
        body.as_object_mut().unwrap().extend(policies.as_object().unwrap().clone());
        assert_eq!(refused(&daemon, "POST", &at, &body).0, field, "{policies}");
    }
    assert_eq!(session.value("'ran' in globals()"), "False");
    let of_command = json!({"argv": ["true"], "max_work": 1});
    assert_eq!(refused(&daemon, "POST", "/v1/run", &of_command).0, "max_work");
    let (status, log) = Setup::default()
        .config("sandbox", "imports = { allow = [\"os\"] }")
        .config("environments.default", "imports = { deny = [\"os.path\"] }")
        .try_start()
        .unwrap_err();
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains("environments.default.imports: \"os.path\" is denied"), "{log}");
    daemon.release();
}

#[test]
fn work_is_limited_exactly_and_state_is_kept() {
    let Some(daemon) = counting("max_work = 1000000") else { return };
    let session = daemon.session();
    let _state = session.execute("x = 1").ok();
    let loops = "for i in range(1000): pass\n";
    let counts = |limit: u64| {
        let outcome = execute(&session, loops, &json!({"max_work": limit})).ok();
        outcome.0["usage"]["work"].as_u64().unwrap()
    };
    let work = counts(5000);
    assert!((1000..=1010).contains(&work), "{work}");
    assert_eq!(counts(5000), work, "the same in another run");
    assert_eq!(counts(work), work, "as much as it needs");
    let over = execute(&session, loops, &json!({"max_work": work - 1}));
    let over = over.ended("timed_out", "work_limit", "preserved");
    assert_eq!(over.0["usage"]["work"], work - 1, "{over}");
    let stubborn =
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass";
    let stubborn = execute(&session, stubborn, &json!({"max_work": 10_000}));
    let _over = stubborn.ended("timed_out", "work_limit", "preserved");
    assert_eq!(session.value("x"), "1");
    let body = json!({"code": "pass", "max_work": 1_000_001});
    let (field, why) = refused(&daemon, "POST", &session.path("/execute"), &body);
    assert_eq!(field, "max_work");
    assert!(why.contains("1000001 is more than the 1000000 that holds"), "{why}");
    let metrics = daemon.request("GET", "/metrics", None);
    let metrics = String::from_utf8(metrics.body).unwrap();
    assert!(metrics.contains("cause=\"work_limit\""), "{metrics}");
    daemon.stop_and_check();
}

#[test]
fn an_older_python_refuses_to_count_work() {
    let daemon = DAEMON.hold();
    let session = daemon.session();
    let version = session.execute("import sys\nprint(*sys.version_info[:2], sep='.')").ok();
    let version = version.stdout().trim().to_owned();
    if version.split('.').nth(1).unwrap().parse::<u32>().unwrap() >= 12 {
        return daemon.release();
    }
    let body = json!({"code": "ran = True", "max_work": 10});
    let (field, why) = refused(&daemon, "POST", &session.path("/execute"), &body);
    assert_eq!(field, "max_work");
    assert!(why.contains("needs Python 3.12") && why.contains(&version), "{why}");
    assert_eq!(session.value("'ran' in globals()"), "False");
    assert_eq!(refused(&daemon, "POST", "/v1/sessions", &json!({"max_work": 10})).0, "max_work");
    daemon.release();
}

/// A virtual environment with two distributions of one package each; both say what they are.
fn with_two_distributions(dir: &Path) -> PathBuf {
    let root = dir.join("venv");
    let made = Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(&root)
        .status()
        .unwrap();
    assert!(made.success());
    let lib = fs::read_dir(root.join("lib")).unwrap().next().unwrap().unwrap().path();
    for name in ["concealed", "shown"] {
        let site = lib.join("site-packages");
        let info = site.join(format!("{name}-1.0.dist-info"));
        fs::create_dir_all(site.join(name)).unwrap();
        fs::create_dir_all(&info).unwrap();
        let text = format!("words = 'the words of {name}'\n");
        fs::write(site.join(name).join("__init__.py"), text).unwrap();
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n");
        fs::write(info.join("METADATA"), metadata).unwrap();
        fs::write(info.join("top_level.txt"), format!("{name}\n")).unwrap();
        let record = format!("{name}/__init__.py,,\n{name}-1.0.dist-info/METADATA,,\n");
        fs::write(info.join("RECORD"), record).unwrap();
    }
    root.join("bin/python3")
}

/// Which distributions' words code can read, however it tries.
const SEARCH: &str = "
import ctypes, importlib, os, subprocess, sys
site = next(path for path in sys.path if path.endswith('site-packages'))
libc = ctypes.CDLL(None)
for name in ('concealed', 'shown'):
    for path in (f'{site}/{name}', f'{site}/{name}/__init__.py'):
        libc.umount2(path.encode(), 2)
found = set()
for name in ('concealed', 'shown'):
    try: found.add(importlib.import_module(name).words.split()[-1])
    except (ImportError, AttributeError): pass
for root in (site, '/proc/self/root' + site, '/proc/1/root' + site):
    for place, _, names in os.walk(root):
        for name in names:
            try: text = open(os.path.join(place, name)).read()
            except (OSError, UnicodeError): continue
            found |= {word for word in ('concealed', 'shown') if f'the words of {word}' in text}
said = subprocess.run(['grep', '-rhoa', 'the words of [a-z]*', site], capture_output=True, text=True)
found |= {line.split()[-1] for line in said.stdout.split('\\n') if line}
print(sorted(found))";

#[test]
fn hidden_distributions_are_not_in_the_session_at_all() {
    let dir = program::temp_dir();
    let interpreter = with_two_distributions(dir.path());
    let lines = format!("interpreter = \"{}\"", interpreter.display());
    let daemon = Setup::default().config("environments.default", &lines).start();
    let control = daemon.session().execute(SEARCH).ok();
    assert_eq!(control.stdout(), "['concealed', 'shown']\n");
    let session = daemon.session_with(&json!({"hidden": ["Concealed"]}));
    assert_eq!(session.execute(SEARCH).ok().stdout(), "['shown']\n");
    let _reset = session.reset();
    assert_eq!(session.execute(SEARCH).ok().stdout(), "['shown']\n", "in its next kernel");
    let info = session.info();
    let policy = info["policy"].as_array().unwrap();
    assert!(policy.iter().any(|it| it["key"] == "sandbox.hidden"), "{info}");
    for bad in ["--version", "no-such-distribution"] {
        let spec = json!({"hidden": [bad]});
        assert_eq!(refused(&daemon, "POST", "/v1/sessions", &spec).0, "hidden", "{bad}");
    }
    daemon.stop_and_check();
    let lines = format!("{lines}\nhidden = [\"concealed\"]");
    let daemon = Setup::default().config("environments.default", &lines).start();
    assert_eq!(daemon.session().execute(SEARCH).ok().stdout(), "['shown']\n");
    daemon.stop_and_check();
}
