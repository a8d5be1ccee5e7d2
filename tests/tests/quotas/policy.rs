//! Policies of tenants: what holds, where it came from, and that no request widens it.

use std::fs;

use serde_json::{Value, json};
use vivarium_tests::Setup;
use vivarium_tests::program::{self, Runner};
use vivarium_tests::tenants::{RELOADED, Token, entry, reload, two};

use super::is_over;

const OWN: &str = "max_sessions = 3\nexecution_rate = \"100/1d\"\n\
                   [tenant.sandbox]\nmax_procs = 20\nmax_memory_mb = 256\nmax_disk_mb = 100\n\
                   [tenant.session]\nexec_timeout = \"5s\"\nmax_exec_timeout = \"10s\"\n";

fn entry_of<'a>(policy: &'a Value, key: &str) -> &'a Value {
    let entries = policy.as_array().unwrap();
    entries.iter().find(|entry| entry["key"] == key).unwrap_or_else(|| panic!("{key}: {policy}"))
}

#[test]
fn each_value_that_holds_is_shown_with_its_source() {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(&entry("one", &one, OWN), &entry("other", &other, ""));
    let daemon = Setup::default()
        .config("sandbox", "max_open_fds = 500")
        .config("[tenant]", &tenants)
        .env("VIVARIUM_SANDBOX_MAX_INODES", "5000")
        .argument("--sb-max-cpu-secs=100")
        .start();
    let at = daemon.unix();
    let spec = json!({"id": "a", "limits": {"max_file_size_mb": 7}});
    let made = one.ask(&at, "POST", "/v1/sessions", Some(&spec)).expect_success();
    assert_eq!(made.get("policy"), None, "only where one session is asked for");
    let shown = one.ask(&at, "GET", "/v1/sessions/a", None).expect_success();
    let policy = &shown["policy"];
    for (key, value, source) in [
        ("sandbox.max_procs", json!(20), "tenant"),
        ("sandbox.max_memory_mb", json!(256), "tenant"),
        ("sandbox.max_open_fds", json!(500), "file"),
        ("sandbox.max_inodes", json!(5000), "environment"),
        ("sandbox.max_cpu_secs", json!(100), "command_line"),
        ("sandbox.max_file_size_mb", json!(7), "request"),
        ("sandbox.cpu_cores", json!(1.0), "default"),
        ("session.exec_timeout", json!("5s"), "tenant"),
        ("session.idle_timeout", json!("1h"), "default"),
        ("tenant.max_sessions", json!(3), "tenant"),
        ("tenant.execution_rate", json!("100/1d"), "tenant"),
        ("tenant.session_rate", json!("unlimited"), "default"),
    ] {
        let expected = json!({"key": key, "value": value, "source": source});
        assert_eq!(entry_of(policy, key), &expected);
    }
    assert!(!policy.to_string().contains("vivarium.toml"), "the operator's paths: {policy}");
    // It is what holds.
    let count = "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)[0]";
    assert_eq!(one.execute(&at, "a", count)["result"]["repr"], "500");
    let shell = |arguments: &[&str]| {
        let dir = program::temp_dir();
        let mut command = program::vivarium(&Runner::Self_, dir.path());
        command.args(arguments).env("VIVARIUM_URL", at.url()).env("VIVARIUM_TOKEN", &one.text);
        program::finish(&mut command, "").expect_code(0).stdout()
    };
    let table = shell(&["sessions", "show", "a", "--policy"]);
    let line = |key: &str| table.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    let words = line("sandbox.max_procs");
    assert_eq!(words.split_whitespace().collect::<Vec<_>>(), ["sandbox.max_procs", "20", "tenant"]);
    assert!(!shell(&["sessions", "show", "a"]).contains("max_procs"), "not without the flag");
    let config = daemon.dir().join("vivarium.toml").display().to_string();
    let own = shell(&["config", "show", "--config", &config, "--tenant", "one"]);
    assert!(own.contains("max_procs = 20") && own.contains("max_open_fds = 500"), "{own}");
    assert!(!own.contains("other"), "{own}");
    daemon.stop_and_check();
}

#[test]
fn no_request_widens_a_tenants_policy_and_timeouts_name_their_maximum() {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(&entry("one", &one, OWN), &entry("other", &other, ""));
    let daemon = Setup::default().config("[tenant]", &tenants).start();
    let at = daemon.unix();
    let made = one.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "a"}))).expect_success();
    let limits = made["limits"].as_object().unwrap();
    assert_eq!(limits.len(), 10);
    for (name, value) in limits {
        let more =
            value.as_u64().map_or_else(|| json!(value.as_f64().unwrap() + 1.0), |it| json!(it + 1));
        for wider in [more, json!("unlimited")] {
            let limits = json!({ name.as_str(): wider });
            for (method, path) in
                [("POST", "/v1/sessions"), ("POST", "/v1/run"), ("PATCH", "/v1/sessions/a")]
            {
                let mut body = json!({"limits": limits});
                if path == "/v1/run" {
                    body["code"] = json!("1");
                }
                let problem =
                    one.ask(&at, method, path, Some(&body)).expect_problem(422, "invalid_field");
                assert_eq!(problem["field"], format!("limits.{name}"), "{path} {problem}");
            }
        }
    }
    // A limit of all that the tenant's is below.
    let for_all = json!({"limits": {"max_procs": 64}});
    one.ask(&at, "POST", "/v1/sessions", Some(&for_all)).expect_problem(422, "invalid_field");
    assert_eq!(other.ask(&at, "POST", "/v1/sessions", Some(&for_all)).status, 201);
    for (path, body) in [
        ("/v1/sessions/a/execute", json!({"code": "1", "timeout_ms": 10_001})),
        ("/v1/sessions/a/commands", json!({"argv": ["true"], "timeout_ms": 10_001})),
        ("/v1/run", json!({"code": "1", "timeout_ms": 10_001})),
    ] {
        let problem = one.ask(&at, "POST", path, Some(&body)).expect_problem(422, "invalid_field");
        assert_eq!(problem["field"], "timeout_ms");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("10000 allowed (session.max_exec_timeout)"), "{detail}");
    }
    let within = json!({"code": "1", "timeout_ms": 10_000});
    let _ran = one.ask(&at, "POST", "/v1/sessions/a/execute", Some(&within)).expect_success();
    daemon.stop_and_check();
}

#[test]
fn a_reload_reaches_tenants_that_run_and_leaves_their_sessions_as_they_are() {
    let (one, other) = (Token::new(), Token::new());
    let tenants = |own: &str| two(&entry("one", &one, own), &entry("other", &other, ""));
    let before = "execution_rate = \"2/1d\"\n[tenant.sandbox]\nmax_procs = 20\n";
    let after = "execution_rate = \"4/1d\"\nmax_executions = 1\n[tenant.sandbox]\nmax_procs = 30\n";
    let daemon = Setup::default().config("[tenant]", &tenants(before)).start();
    let at = daemon.unix();
    let make = |id: &str| one.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": id})));
    assert_eq!(make("a").status, 201);
    let execute = || one.ask(&at, "POST", "/v1/sessions/a/execute", Some(&json!({"code": "1"})));
    for _ in 0..2 {
        assert!(!is_over(&execute(), "execution_rate"));
    }
    assert!(is_over(&execute(), "execution_rate"));
    let config = daemon.dir().join("vivarium.toml");
    let text = fs::read_to_string(config).unwrap();
    assert!(text.contains(&tenants(before)), "{text}");
    reload(&daemon, &text.replace(&tenants(before), &tenants(after)), RELOADED);
    // What was used stays used.
    for _ in 0..2 {
        assert!(!is_over(&execute(), "execution_rate"));
    }
    assert!(is_over(&execute(), "execution_rate"));
    assert_eq!(make("b").status, 201);
    for (id, procs) in [("a", 20), ("b", 30)] {
        let path = format!("/v1/sessions/{id}");
        let info = one.ask(&at, "GET", &path, None).expect_success();
        assert_eq!(info["limits"]["max_procs"], procs);
        let rate = entry_of(&info["policy"], "tenant.execution_rate");
        assert_eq!(rate["value"], "4/1d", "the tenant's, for all its sessions");
        assert_eq!(entry_of(&info["policy"], "sandbox.max_procs")["value"], procs);
    }
    daemon.stop_and_check();
}

#[test]
fn environments_of_others_are_refused_and_not_shown() {
    let (one, other) = (Token::new(), Token::new());
    let own = "allowed_environments = [\"default\"]";
    let tenants = two(&entry("one", &one, own), &entry("other", &other, ""));
    let daemon = Setup::default()
        .config("environments.data", "pool_size = 0")
        .config("[tenant]", &tenants)
        .start();
    let at = daemon.unix();
    let make = |token: &Token| {
        token.ask(&at, "POST", "/v1/sessions", Some(&json!({"environment": "data"})))
    };
    assert_eq!(make(&one).expect_problem(422, "invalid_field")["field"], "environment");
    assert_eq!(make(&other).status, 201);
    for (token, count) in [(&one, 1), (&other, 2)] {
        let host = token.ask(&at, "GET", "/v1/host", None).expect_success();
        assert_eq!(host["environments"].as_array().unwrap().len(), count);
    }
    let _ran = one.ask(&at, "POST", "/v1/run", Some(&json!({"code": "1"}))).expect_success();
    daemon.stop_and_check();
}
