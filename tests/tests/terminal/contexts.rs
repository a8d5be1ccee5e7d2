//! `vivarium contexts`, and `exec` and `repl` in a context.

use serde_json::Value;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::program::{self, Finished};
use vivarium_tests::{Daemon, Setup, Terminal};

use super::{url, vivarium};

fn cli(daemon: &Daemon, command: &[&str], rest: &[&str]) -> Finished {
    let url = url(daemon);
    let all = [command, &["--url", &url], rest].concat();
    program::finish(&mut vivarium(daemon.dir(), &all), "")
}

#[test]
fn contexts_are_opened_listed_reset_and_deleted_and_run_code() {
    let daemon = Daemon::start();
    let exec = |rest: &[&str]| cli(&daemon, &["exec"], rest);
    let _main = exec(&["--create", "demo", "-c", "x = 'main'"]).expect_code(0);
    let opened = cli(&daemon, &["contexts", "create"], &["demo", "plots"]).expect_code(0);
    assert_eq!(opened.stdout(), "plots\n");
    let plots = ["--context", "plots", "demo", "-c"];
    let script = "import sys; x = sys.argv[1]";
    let _plots = exec(&[&plots[..], &[script, "argument"]].concat()).expect_code(0);
    assert_eq!(exec(&[&plots[..], &["print(x)"]].concat()).stdout(), "argument\n");
    assert_eq!(exec(&["demo", "-c", "print(x)"]).stdout(), "main\n");
    let list = cli(&daemon, &["contexts", "list"], &["demo"]).expect_code(0).stdout();
    let ids: Vec<_> = list.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(ids, ["ID", "main", "plots"]);
    let json = cli(&daemon, &["contexts", "list", "--json"], &["demo"]).expect_code(0).stdout();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json[1]["id"], &json[1]["state"]), (&"plots".into(), &"idle".into()));
    let one = |action: &str| cli(&daemon, &["contexts", action], &["demo", "plots"]);
    assert_eq!(one("interrupt").expect_code(0).stdout(), "plots: nothing was running\n");
    assert!(one("reset").expect_code(0).stdout().starts_with("plots: reset"));
    let lost = exec(&[&plots[..], &["x"]].concat()).expect_code(1);
    assert!(lost.stderr().contains("NameError"), "{}", lost.stderr());
    assert_eq!(one("delete").expect_code(0).stdout(), "plots: deleted\n");
    let gone = exec(&[&plots[..], &["1"]].concat()).expect_code(1);
    assert!(gone.stderr().contains("unknown_context"), "{}", gone.stderr());
    // Session and context are created together.
    let new = ["--create", "--context", "plots", "new", "-c", "print(6 * 7)"];
    assert_eq!(exec(&new).expect_code(0).stdout(), "42\n");
    let command = exec(&["--context", "plots", "demo", "--shell", "true"]).expect_code(2);
    assert!(command.stderr().contains("cannot be used with"), "{}", command.stderr());
    daemon.stop_and_check();
}

#[test]
fn ctrl_c_interrupts_what_contexts_run_and_a_prompt_is_of_one_context() {
    let daemon = Daemon::start();
    let _made = cli(&daemon, &["sessions", "create"], &["demo"]).expect_code(0);
    let mut command = vivarium(daemon.dir(), &["repl", "--url", &url(&daemon)]);
    let mut prompt =
        Terminal::run(command.args(["--context", "plots", "demo"]).env("NO_COLOR", "1"));
    prompt.wait("a prompt", |screen| screen.contains("In ["));
    prompt.line("only_plots = 41");
    prompt.sees_prompt("In [2]:");
    prompt.keys("only_\t");
    prompt.wait("a completion", |screen| screen.contains("In [2]: only_plots"));
    prompt.line(" + 1");
    prompt.sees("Out[2]: 42");
    let code = "import time; print('be' + 'gun', flush=True); time.sleep(1000)";
    prompt.line(code);
    prompt.sees("begun");
    prompt.keys("\x03");
    prompt.sees("KeyboardInterrupt");
    let url = url(&daemon);
    let exec = ["exec", "--url", &url, "--context", "plots", "demo", "-c", code];
    let mut terminal = Terminal::run(&vivarium(daemon.dir(), &exec));
    terminal.sees("begun");
    terminal.keys("\x03");
    terminal.sees("vivarium: interrupted");
    assert_eq!(terminal.wait_end().code(), Some(130));
    prompt.line("only_plots * 2");
    prompt.sees("82");
    drop(prompt);
    daemon.stop_and_check();
}

#[test]
fn a_command_survives_a_reset_of_contexts_that_cgroups_tell_apart() {
    if !host::has(&[Requirement::Cgroup]) {
        return;
    }
    let daemon = Daemon::start();
    let start = ["--create", "--background", "--survives-reset", "demo", "--argv", "sleep", "1000"];
    let id = cli(&daemon, &["exec"], &start).expect_code(0).stdout();
    let reset = cli(&daemon, &["sessions", "reset"], &["demo"]).expect_code(0);
    assert_eq!(reset.stdout(), "demo: reset\n");
    let _ended = cli(&daemon, &["executions", "signal"], &["demo", id.trim()]).expect_code(0);
    daemon.stop_and_check();
}

#[test]
fn a_reset_of_contexts_without_cgroups_is_told_to_be_of_the_session() {
    let daemon = Setup::default().without(&["cgroup"]).start();
    let _made = cli(&daemon, &["sessions", "create"], &["demo"]).expect_code(0);
    let reset = cli(&daemon, &["contexts", "reset"], &["demo", "main"]).expect_code(0).stdout();
    assert_eq!(reset, "main: reset, and with it every context and process of the session\n");
    daemon.stop_and_check();
}
