//! The configuration, as the programs take it.

use nix::sys::signal::Signal;
use serde_json::Value;
use vivarium_tests::program::{self, Runner};
use vivarium_tests::{Daemon, Setup, wait};

const WRONG: &str = "
[server]
listn = [\"127.0.0.1:1\"]
[sandbox]
mode = \"perhaps\"
max_procs = 0
network = \"bridge\"
disable_layers = [\"selinux\"]
[session]
exec_timeout = \"soon\"
[environment.default]
interpreter = \"/usr/bin/python3\"
";

#[test]
fn everything_wrong_with_a_file_is_said_at_once() {
    let dir = program::temp_dir();
    let path = dir.path().join("wrong.toml");
    std::fs::write(&path, WRONG).unwrap();
    let path = path.to_str().unwrap();
    for arguments in [vec!["config", "check", path], vec!["serve", "--config", path]] {
        let said = program::run(&arguments).expect_code(2).stderr();
        for part in [
            "listn",
            "listen",
            "mode",
            "perhaps",
            "max_procs",
            "network",
            "bridge",
            "disable_layers",
            "selinux",
            "exec_timeout",
            "soon",
            "environment",
        ] {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
        assert!(!said.contains("panicked"), "{said}");
    }
    std::fs::write(path, "this is [not toml").unwrap();
    assert!(
        program::run(&["config", "check", path]).expect_code(2).stderr().contains("wrong.toml")
    );
    let absent = program::run(&["serve", "--config", "/absent.toml"]).expect_code(2);
    assert!(absent.stderr().contains("/absent.toml"), "{absent:?}");
}

#[test]
fn the_command_line_comes_before_the_environment_before_the_file() {
    let dir = program::temp_dir();
    let config = program::config(
        dir.path(),
        "[sandbox]\nmax_procs = 10\nmax_open_fds = 100\nmax_inodes = 100\n",
    );
    let mut command = program::vivarium(&Runner::Self_, dir.path());
    command.args(["config", "show", "--json", "--config", &config, "--sb-max-procs", "30"]);
    command.env("VIVARIUM_SANDBOX_MAX_PROCS", "20").env("VIVARIUM_SANDBOX_MAX_OPEN_FDS", "200");
    command.env("VIVARIUM_SANDBOX", "on");
    let shown: Value =
        serde_json::from_str(&program::finish(&mut command, "").expect_code(0).stdout()).unwrap();
    let text = shown.to_string();
    for (key, value) in
        [("max_procs", 30), ("max_open_fds", 200), ("max_inodes", 100), ("max_file_size_mb", 256)]
    {
        let key = format!("sandbox.{key}");
        assert_eq!(find(&shown, &key), Some(value), "{key} in {text}");
    }
    assert!(text.contains("\"on\""), "{text}");
    let mut command = program::vivarium(&Runner::Self_, dir.path());
    command.args(["config", "show"]).env("VIVARIUM_SANDBOX_MAX_PROX", "1");
    let said = program::finish(&mut command, "").expect_code(0).stderr();
    assert!(said.contains("warning: VIVARIUM_SANDBOX_MAX_PROX: no such variable"), "{said}");
}

/// The value of a key, wherever it is shown.
fn find(shown: &Value, key: &str) -> Option<i64> {
    match shown {
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            if name == key || name.ends_with(&format!(".{key}")) {
                return value.as_i64().or_else(|| value.get("value")?.as_i64());
            }
            find(value, key)
        }),
        Value::Array(items) => items.iter().find_map(|item| {
            let is_it = item["key"].as_str().is_some_and(|name| name.ends_with(key));
            if is_it { item["value"].as_i64() } else { find(item, key) }
        }),
        _ => None,
    }
}

#[test]
fn sighup_reloads_what_can_be_and_says_what_can_not() {
    let mut daemon = Setup::default().config("session", "queue_depth = 3").start();
    let config = daemon.dir().join("vivarium.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let depth = |daemon: &Daemon| {
        daemon.request("GET", "/v1/host", None).expect_success()["capacity"]["queue_depth"].clone()
    };
    assert_eq!(depth(&daemon), 3);
    let changed = text.replace("queue_depth = 3", "queue_depth = 5")
        + "[sandbox]\nworkdir = \"/elsewhere\"\n";
    std::fs::write(&config, changed).unwrap();
    daemon.signal(Signal::SIGHUP);
    wait::until_true("the reload", || daemon.log().contains("configuration reloaded"));
    assert_eq!(depth(&daemon), 5);
    wait::until_true("its word", || daemon.told_manager().contains("RELOADING=1"));
    daemon.until_logged("sandbox.workdir");
    assert_eq!(daemon.session().value("import os; os.getcwd()"), "'/workspace'");
    // A file with an error in it changes nothing.
    std::fs::write(&config, text.replace("queue_depth = 3", "queue_depth = \"x\"")).unwrap();
    daemon.signal(Signal::SIGHUP);
    wait::until_true("a complaint", || daemon.log().contains("not reloaded"));
    assert_eq!(depth(&daemon), 5);
    daemon.stop_and_check();
}

#[test]
fn a_configured_path_is_there_or_refused_and_never_just_missing() {
    let dir = program::temp_dir();
    // Everything else of the host's /tmp is hidden by the session's own.
    std::fs::write(dir.path().join("data"), "42").unwrap();
    let read_paths = format!("read_paths = ['{}']", dir.path().display());
    match Setup::default().config("environments.default", &read_paths).try_start() {
        Ok(daemon) => {
            let read = format!("open('{}/data').read()", dir.path().display());
            assert_eq!(daemon.session().value(&read), "'42'");
            daemon.stop_and_check();
        }
        Err((_, log)) => assert!(log.contains("read_paths"), "{log}"),
    }
}
