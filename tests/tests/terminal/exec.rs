//! `vivarium run` and `exec`: what code prints is seen while it runs, and what it makes is kept.

use std::fs;

use vivarium_tests::{Daemon, Terminal, program};

use super::{PICTURE, url, vivarium};

/// Waits for a file, which a test can put there.
const WAIT: &str = "
import os, time
def wait(name):
    while not os.path.exists(name): time.sleep(0.01)
";

#[test]
fn a_progress_bar_moves_while_code_runs() {
    let daemon = Daemon::start();
    let code = format!(
        "{WAIT}\nimport sys\nsys.stderr.write('\\r 50%'); sys.stderr.flush()\nwait('go')\n\
         sys.stderr.write('\\r100%\\ndone\\n')"
    );
    let url = url(&daemon);
    let arguments = ["exec", "--url", &url, "--create", "demo", "-c", &code];
    let mut terminal = Terminal::run(&vivarium(daemon.dir(), &arguments));
    terminal.sees(" 50%");
    let put = ["files", "put", "--url", &url, "demo", "-", "go"];
    let _put = program::finish(&mut vivarium(daemon.dir(), &put), "now").expect_code(0);
    assert_eq!(terminal.wait_end().code(), Some(0));
    terminal.sees("100%\ndone");
    // In the place of what was there before.
    assert!(!terminal.screen().contains(" 50%"), "{}", terminal.screen());
    daemon.stop_and_check();
}

#[test]
fn images_displays_and_files_go_to_a_folder_and_replace_nothing() {
    let dir = program::temp_dir();
    let out = dir.path().join("out");
    let config = program::config(dir.path(), "");
    let code = format!(
        "{PICTURE}\nimport os\nos.mkdir('sub'); open('sub/r.txt', 'w').write('text')\n\
         open('b.bin', 'wb').write(bytes([255, 0]))\n\
         class Table:\n    def __repr__(self): return 'a table'\n    \
         def _repr_html_(self): return '<b>table</b>'\n\
         display(Picture()); display(Table()); print('printed')"
    );
    let arguments = [
        "run",
        "--config",
        &config,
        "--outputs",
        "sub/r.txt,b.bin,none",
        "--output-dir",
        out.to_str().unwrap(),
        "-c",
        &code,
    ];
    let run = || program::finish(&mut vivarium(dir.path(), &arguments), "").expect_code(1);
    let first = run();
    assert_eq!(first.stdout(), "a picture\na table\nprinted\n");
    assert!(first.stderr().contains("vivarium: wrote "), "{}", first.stderr());
    assert!(first.stderr().contains("vivarium: none: "), "{}", first.stderr());
    let read = |name: &str| fs::read(out.join(name)).unwrap();
    assert!(read("display-1.png").starts_with(b"\x89PNG"));
    assert_eq!(read("display-2.html"), b"<b>table</b>");
    assert_eq!(read("sub/r.txt"), b"text");
    assert_eq!(read("b.bin"), [255, 0]);
    let _second = run();
    assert_eq!(read("sub/r-2.txt"), b"text");
    assert_eq!(read("display-4.html"), b"<b>table</b>");
    let count = fs::read_dir(&out).unwrap().count();
    assert_eq!(count, 7, "each file twice, and the directory");
    // The same as JSON.
    let json = program::finish(vivarium(dir.path(), &arguments).arg("--json"), "").expect_code(1);
    assert!(json.stderr().is_empty() || json.stderr().contains("none"), "{}", json.stderr());
}

#[test]
fn outputs_need_somewhere_to_go() {
    let dir = program::temp_dir();
    let arguments = ["run", "--outputs", "a", "-c", "1"];
    let refused = program::finish(&mut vivarium(dir.path(), &arguments), "").expect_code(2);
    assert!(refused.stderr().contains("--output-dir"), "{}", refused.stderr());
}

#[test]
fn commands_have_their_input_their_output_and_their_exit_code() {
    let daemon = Daemon::start();
    let url = url(&daemon);
    let exec = |arguments: &[&str], input: &str| {
        let mut command = vivarium(daemon.dir(), &["exec", "--url", &url, "--create", "demo"]);
        program::finish(command.args(arguments), input)
    };
    let sorted = exec(&["--argv", "sort", "-r"], "a\nb\n").expect_code(0);
    assert_eq!((sorted.stdout(), sorted.stderr()), ("b\na\n".into(), String::new()));
    let failed = exec(&["--shell", "echo out; echo err >&2; exit 7"], "").expect_code(7);
    assert_eq!((failed.stdout(), failed.stderr()), ("out\n".into(), "err\n".into()));
    let json = exec(&["--json", "--shell", "cat"], "\u{e9}").expect_code(0);
    let json: serde_json::Value = serde_json::from_str(&json.stdout()).unwrap();
    assert_eq!((&json["stdout"], &json["exit_code"]), (&"\u{e9}".into(), &0.into()));
    let absent = exec(&["--argv", "no-such-program"], "");
    assert_ne!(absent.code(), 0);
    let both = exec(&["--shell", "true", "more"], "").expect_code(2);
    assert!(both.stderr().contains("quote it"), "{}", both.stderr());
    // A command leaves the kernel's variables alone.
    let _set = exec(&["-c", "x = 1"], "").expect_code(0);
    let _killed = exec(&["--timeout", "300ms", "--shell", "sleep 1000"], "").expect_code(124);
    let kept = exec(&["-c", "print(x)"], "").expect_code(0);
    assert_eq!(kept.stdout(), "1\n");
    daemon.stop_and_check();
}

#[test]
fn variables_and_directory_are_for_one_execution() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&serde_json::json!({"id": "demo"}));
    let _made = session.execute("__import__('os').mkdir('sub')").ok();
    let url = url(&daemon);
    let exec = |arguments: &[&str]| {
        let all = [&["exec", "--url", &url], arguments].concat();
        program::finish(&mut vivarium(daemon.dir(), &all), "").expect_code(0).stdout()
    };
    let code = "import os; print(os.environ.get('GREETING'), os.path.basename(os.getcwd()))";
    let here = ["--env", "GREETING=hi", "--cwd", "sub", "demo"];
    assert_eq!(exec(&[&here[..], &["-c", code]].concat()), "hi sub\n");
    assert_eq!(exec(&["demo", "-c", code]), "None workspace\n");
    let shell = ["--shell", "echo $GREETING ${PWD##*/}"];
    assert_eq!(exec(&[&here[..], &shell].concat()), "hi sub\n");
    assert_eq!(exec(&[&["demo"], &shell[..]].concat()), "workspace\n");
    daemon.stop_and_check();
}

#[test]
fn a_command_in_the_background_is_listed_written_to_signalled_and_waited_for() {
    let daemon = Daemon::start();
    let url = url(&daemon);
    let cli = |command: &[&str], arguments: &[&str], input: &str| {
        let all = [command, &["--url", &url], arguments].concat();
        program::finish(&mut vivarium(daemon.dir(), &all), input)
    };
    let start = |arguments: &[&str]| {
        let id = cli(&["exec"], &[&["--background", "--create"], arguments].concat(), "piped\n");
        id.expect_code(0).stdout().trim().to_owned()
    };
    let adder = "while read n; do echo $((n + 1)); done; exit 4";
    let id = start(&["--interactive", "demo", "--shell", adder]);
    vivarium_tests::wait::until_true("the command in the list", || {
        let listed = cli(&["executions", "list"], &["demo"], "").expect_code(0).stdout();
        listed.contains("command  running  -")
    });
    let _written = cli(&["executions", "write"], &["demo", &id], "41\n").expect_code(0);
    // What it has printed so far, what it prints to what is written now, and its exit code.
    let attach = cli(&["executions", "attach"], &["--interactive", "demo", &id], "1\n2\n");
    assert_eq!(attach.expect_code(4).stdout(), "42\n2\n3\n");
    let late = cli(&["executions", "write"], &["demo", &id], "1\n").expect_code(1);
    assert!(late.stderr().contains("the command has ended"), "{}", late.stderr());
    let wait = cli(&["executions", "wait"], &["--json", "demo", &id], "").expect_code(4);
    let outcome: serde_json::Value = serde_json::from_str(&wait.stdout()).unwrap();
    assert_eq!((&outcome["exit_code"], &outcome["execution_id"]), (&4.into(), &(*id).into()));
    // Its input is what was piped, if it is not left open.
    let cat = start(&["demo", "--argv", "cat"]);
    assert_eq!(cli(&["executions", "attach"], &["demo", &cat], "").stdout(), "piped\n");
    let sleeper = start(&["demo", "--argv", "sleep", "1000"]);
    let _sent = cli(&["executions", "signal"], &["demo", &sleeper, "INT"], "").expect_code(0);
    let _ended = cli(&["executions", "wait"], &["demo", &sleeper], "").expect_code(137);
    let running = cli(&["executions", "list"], &["--json", "demo"], "").expect_code(0).stdout();
    assert_eq!(running, "[]\n");
    let all = cli(&["executions", "list"], &["--all", "demo"], "").expect_code(0).stdout();
    assert_eq!(all.lines().count(), 4, "{all}");
    for (arguments, reason) in [
        (&["--background", "demo", "-c", "1"][..], "cannot be used with"),
        (&["--background", "demo", "a.py"], "--shell COMMAND or --argv"),
        (&["--interactive", "demo", "--shell", "cat"], "--background"),
    ] {
        let refused = cli(&["exec"], arguments, "").expect_code(2);
        assert!(refused.stderr().contains(reason), "{}", refused.stderr());
    }
    daemon.stop_and_check();
}

#[test]
fn a_command_can_be_run_in_a_sandbox_of_its_own() {
    let dir = program::temp_dir();
    let ran = program::embedded(
        &program::Runner::Self_,
        dir.path(),
        &["--argv", "sh", "-c", "cat; id -u; exit 3"],
        "in\n",
    );
    let ran = ran.expect_code(3);
    assert_eq!(ran.stdout(), "in\n1000\n");
}

#[test]
fn ctrl_c_ends_what_exec_runs_and_keeps_the_session() {
    let daemon = Daemon::start();
    let url = url(&daemon);
    let code = "x = 1; import time; print('be' + 'gun', flush=True); time.sleep(1000)";
    let arguments = ["exec", "--url", &url, "--create", "demo", "-c", code];
    let mut terminal = Terminal::run(&vivarium(daemon.dir(), &arguments));
    terminal.sees("begun");
    terminal.keys("\x03");
    terminal.sees("vivarium: interrupted");
    assert_eq!(terminal.wait_end().code(), Some(130));
    assert_eq!(vivarium_tests::Session::named(&daemon, "demo").value("x"), "1");
    daemon.stop_and_check();
}

#[test]
fn exec_tells_that_the_variables_from_before_are_gone() {
    let daemon = Daemon::start();
    let url = url(&daemon);
    let exec = |arguments: &[&str]| {
        let all = [&["exec", "--url", &url, "--create", "demo"], arguments].concat();
        program::finish(&mut vivarium(daemon.dir(), &all), "")
    };
    let lost = "without the variables from before: the session was reset";
    assert!(!exec(&["-c", "x = 1"]).expect_code(0).stderr().contains("fresh kernel"));
    vivarium_tests::Session::named(&daemon, "demo").reset();
    // A command neither tells of it nor takes the news away.
    assert!(!exec(&["--shell", "true"]).expect_code(0).stderr().contains("fresh kernel"));
    let script = daemon.dir().join("script.py");
    fs::write(&script, "import sys; print(sys.argv[1])").unwrap();
    let told = exec(&[script.to_str().unwrap(), "argument"]).expect_code(0);
    assert!(told.stderr().contains(lost), "{}", told.stderr());
    assert_eq!(told.stdout(), "argument\n");
    assert!(!exec(&["-c", "1"]).expect_code(0).stderr().contains("fresh kernel"));
    daemon.stop_and_check();
}
