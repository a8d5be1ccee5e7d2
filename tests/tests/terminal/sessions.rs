//! `vivarium sessions create`, and the options of a new session on `run` and `exec`.

use serde_json::Value;
use vivarium_tests::Daemon;
use vivarium_tests::program::{self, Finished};

use super::{url, vivarium};

fn cli(daemon: &Daemon, command: &[&str], rest: &[&str]) -> Finished {
    let url = url(daemon);
    let all = [command, &["--url", &url], rest].concat();
    program::finish(&mut vivarium(daemon.dir(), &all), "")
}

const OPTIONS: [&str; 10] = [
    "--network",
    "none",
    "--env",
    "GREETING=hello=there",
    "--environment",
    "default",
    "--max-procs",
    "21",
    "--cpu-cores",
    "0.5",
];

/// What a session with those options prints.
const PROBE: &str = "import os; print(os.environ['GREETING'])";

#[test]
fn a_session_is_created_with_its_options_and_its_id_is_printed() {
    let daemon = Daemon::start();
    let create = ["sessions", "create"];
    let random = cli(&daemon, &create, &[]).expect_code(0).stdout();
    let show = cli(&daemon, &["sessions", "show"], &[random.trim()]).expect_code(0);
    assert!(show.stdout().contains(random.trim()), "{}", show.stdout());
    let more = ["demo", "--json", "--metadata", "for=a test", "--idle-timeout", "1m"];
    let json = cli(&daemon, &create, &[&OPTIONS as &[_], &more].concat()).expect_code(0);
    let json: Value = serde_json::from_str(&json.stdout()).unwrap();
    assert_eq!(json["id"], "demo");
    assert_eq!((&json["network"], &json["metadata"]["for"]), (&"none".into(), &"a test".into()));
    assert_eq!(
        (&json["limits"]["max_procs"], &json["limits"]["cpu_cores"]),
        (&21.into(), &0.5.into())
    );
    let greeting = cli(&daemon, &["exec"], &["demo", "-c", PROBE]).expect_code(0);
    assert_eq!(greeting.stdout(), "hello=there\n");
    let twice = cli(&daemon, &create, &["demo"]).expect_code(1);
    assert!(twice.stderr().contains("there already is a session"), "{}", twice.stderr());
    daemon.stop_and_check();
}

#[test]
fn sessions_are_changed_and_found_by_state_and_metadata() {
    let daemon = Daemon::start();
    for id in ["one", "two"] {
        let create = [id, "--metadata", "user=ada", "--deadline", "2h", "--max-procs", "30"];
        let _made = cli(&daemon, &["sessions", "create"], &create).expect_code(0);
    }
    let update = ["one", "--metadata", "ticket=42", "--remove-metadata", "user"];
    let more = ["--idle-timeout", "5m", "--deadline", "default", "--max-output-bytes", "65536"];
    let update = cli(&daemon, &["sessions", "update", "--json"], &[&update[..], &more].concat());
    let session: Value = serde_json::from_str(&update.expect_code(0).stdout()).unwrap();
    assert_eq!(session["metadata"], serde_json::json!({"ticket": "42"}));
    assert_eq!(session["limits"]["max_output_bytes"], 65536);
    assert_eq!(
        (&session["idle_timeout_ms"], &session["deadline"]),
        (&300_000.into(), &Value::Null)
    );
    let show = cli(&daemon, &["sessions", "show"], &["two"]).expect_code(0).stdout();
    assert!(show.contains("user=ada") && show.contains("(in 1 h)"), "{show}");
    let found = |filters: &[&str]| -> Vec<String> {
        let list = cli(&daemon, &["sessions", "list"], filters).expect_code(0).stdout();
        list.lines().skip(1).map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(found(&[]).len(), 2);
    assert_eq!(found(&["--metadata", "user=ada"]), ["two"]);
    assert_eq!(found(&["--metadata", "ticket=42", "--state", "idle"]), ["one"]);
    assert!(found(&["--state", "running"]).is_empty());
    let nothing = cli(&daemon, &["sessions", "update"], &["one"]).expect_code(2);
    assert!(nothing.stderr().contains("what is to be changed"), "{}", nothing.stderr());
    daemon.stop_and_check();
}

#[test]
fn what_a_daemon_or_the_command_line_refuses_is_named() {
    let daemon = Daemon::start();
    for (arguments, reason) in [
        (["--max-procs", "0"], "0 is not a limit"),
        (["--cpu-cores", "some"], "neither a number of cores"),
        (["--network", "some"], "[possible values: none, loopback, trusted, full]"),
        (["--env", "NAME"], "--env NAME: give NAME=VALUE"),
        (["--metadata", "x"], "--metadata x: give NAME=VALUE"),
        (["--idle-timeout", "9000d"], "idle_timeout_ms"),
        (["--idle-timeout", "5"], "give numbers with units"),
        (["--max-memory-mb", "unlimited"], "limits.max_memory_mb"),
    ] {
        let refused = cli(&daemon, &["sessions", "create"], &arguments).expect_code(2);
        assert!(refused.stderr().contains(reason), "{}", refused.stderr());
    }
    daemon.stop_and_check();
}

#[test]
fn run_and_exec_take_the_options_of_a_new_session() {
    let daemon = Daemon::start();
    let run = [&OPTIONS as &[_], &["--quiet", "-c", PROBE]].concat();
    let ran = cli(&daemon, &["run"], &run).expect_code(0);
    assert_eq!(ran.stdout(), "hello=there\n");
    let exec = [&["demo"], &run[..]].concat();
    let refused = cli(&daemon, &["exec"], &exec).expect_code(2);
    assert!(refused.stderr().contains("add --create"), "{}", refused.stderr());
    let json = cli(&daemon, &["exec", "--create", "--json"], &exec).expect_code(0);
    let json: Value = serde_json::from_str(&json.stdout()).unwrap();
    assert_eq!(
        (&json["session_created"], &json["stdout"]),
        (&true.into(), &"hello=there\n".into())
    );
    let again = cli(&daemon, &["exec", "--create"], &exec).expect_code(0);
    assert!(again.stderr().contains("stays as it is"), "{}", again.stderr());
    let flag = cli(&daemon, &["run"], &["--sb-max-procs", "9", "-c", "1"]).expect_code(2);
    assert!(flag.stderr().contains("--max-memory-mb"), "{}", flag.stderr());
    daemon.stop_and_check();
}

#[test]
fn an_embedded_sandbox_may_have_more_than_is_configured() {
    let dir = program::temp_dir();
    let ask = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])";
    let arguments = ["--max-open-fds", "3000", "-c", ask];
    let ran = program::embedded(&program::Runner::Self_, dir.path(), &arguments, "");
    assert_eq!(ran.expect_code(0).stdout(), "3000\n");
    let low = program::embedded(
        &program::Runner::Self_,
        dir.path(),
        &["--max-memory-mb", "1", "-c", "1"],
        "",
    );
    assert!(low.expect_code(2).stderr().contains("limits.max_memory_mb: 1 is too low"));
}
