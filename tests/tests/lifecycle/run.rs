//! `vivarium run`, `exec` and `sessions`.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use vivarium_tests::processes;
use vivarium_tests::program::{self, Finished, Runner};
use vivarium_tests::{Daemon, wait};

fn run(arguments: &[&str], input: &str) -> Finished {
    let dir = program::temp_dir();
    program::embedded(&Runner::Self_, dir.path(), arguments, input)
}

#[test]
fn exit_codes_say_how_it_ended() {
    for (arguments, code) in [
        (&["-c", "print(1)"][..], 0),
        (&["-c", "1 / 0"], 1),
        (&["-c", "x = = 1"], 1),
        (&["-c", "import sys; sys.exit(7)"], 7),
        (&["-c", "import sys; sys.exit('message')"], 1),
        (&["-c", "import sys; sys.exit()"], 0),
        (&["-c", "import os; os._exit(3)"], 137),
        (&["--timeout", "200ms", "-c", "while True: pass"], 124),
        (&["--timeout", "never", "-c", "1"], 2),
        (&["--network", "bridge", "-c", "1"], 2),
        (&["/absent.py"], 2),
        (&[], 2),
        (&["--url", "unix:/absent.sock", "-c", "1"], 3),
        (&["--url", "https://localhost", "-c", "1"], 2),
    ] {
        let ran = run(arguments, "");
        assert_eq!(ran.code(), code, "{arguments:?}: {ran:?}");
        assert_eq!(ran.stderr().is_empty(), code == 0 || code == 7, "{arguments:?}: {ran:?}");
    }
}

#[test]
fn output_goes_where_it_belongs() {
    let both = run(&["-c", "import sys; print('out'); print('err', file=sys.stderr)"], "");
    assert_eq!((both.stdout().as_str(), both.stderr().as_str()), ("out\n", "err\n"));
    let raised = run(&["-c", "print('before')\ndef f(): return 1 / 0\nf()"], "").expect_code(1);
    assert_eq!(raised.stdout(), "before\n");
    assert!(
        raised.stderr().contains("line 2, in f")
            && raised.stderr().ends_with("ZeroDivisionError: division by zero\n"),
        "{raised:?}"
    );
    let value = run(&["--value", "-c", "6 * 7"], "").expect_code(0);
    assert_eq!(value.stdout(), "42\n");
    assert_eq!(run(&["-c", "6 * 7"], "").stdout(), "");
    let json: Value = serde_json::from_str(&run(&["--json", "-c", "6 * 7"], "").stdout()).unwrap();
    assert_eq!((&json["status"], &json["result"]["repr"]), (&"ok".into(), &"42".into()));
}

#[test]
fn scripts_have_arguments_files_and_standard_input() {
    let dir = program::temp_dir();
    let script = dir.path().join("script.py");
    let text = "import sys\nprint(sys.argv[1:], open('data.csv').read(), sys.argv[0].endswith('script.py'))";
    std::fs::write(&script, text).unwrap();
    let data = dir.path().join("data.csv");
    std::fs::write(&data, "a,b").unwrap();
    let (script, data) = (script.to_str().unwrap(), data.to_str().unwrap());
    let ran = run(&["--file", data, script, "one", "it's \\ two"], "").expect_code(0);
    assert_eq!(ran.stdout(), "['one', \"it's \\\\ two\"] a,b True\n");
    assert_eq!(run(&["-"], "print(6 * 7)").expect_code(0).stdout(), "42\n");
    assert_eq!(run(&["-c", "print(input())"], "typed").expect_code(0).stdout(), "typed\n");
    assert_eq!(run(&["-"], "input()").expect_code(1).stdout(), "");
    let renamed = format!("x/y.csv={data}");
    let read = run(&["--file", &renamed, "-c", "print(open('x/y.csv').read())"], "");
    assert_eq!(read.expect_code(0).stdout(), "a,b\n");
}

#[test]
fn an_incomplete_sandbox_is_said_on_standard_error() {
    let dir = program::temp_dir();
    let config = program::config(dir.path(), "");
    let arguments = ["run", "--config", &config, "--sandbox", "off", "-c", "print(1)"];
    let ran = program::run_as(&Runner::Self_, dir.path(), &arguments, "").expect_code(0);
    assert_eq!(ran.stdout(), "1\n");
    assert!(ran.stderr().contains("NO SANDBOX"), "{ran:?}");
}

#[test]
fn an_interrupt_reaches_the_code_and_leaves_nothing() {
    for (code, stubborn) in [
        ("time.sleep(1000)", false),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", true),
    ] {
        // The child tells that the code runs: output comes at the end.
        let child = "subprocess.Popen(['sleep', '1000'], start_new_session=True)";
        let code = format!("import signal, subprocess, time\n{child}\n{code}");
        let dir = program::temp_dir();
        let config = program::config(dir.path(), "");
        let mut command = program::vivarium(&Runner::Self_, dir.path());
        command.args(["run", "--config", &config, "-q", "-c", &code]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        wait::until_true("code that runs", || {
            processes::descendants(pid).iter().any(|process| process.name == "sleep")
        });
        let all = processes::descendants(pid);
        let status = wait::until("the end", || {
            let _gone = kill(Pid::from_raw(pid), Signal::SIGINT).is_err();
            child.try_wait().unwrap()
        });
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(130), "{stubborn}: {said}");
        wait::until_true("the end of its processes", || {
            !all.iter().any(processes::Process::is_alive)
        });
        assert_eq!(entries(&dir.path().join("cli-run")), 0, "the runtime directory is not empty");
    }
}

fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).map_or(0, Iterator::count)
}

#[test]
fn a_daemon_serves_the_command_line() {
    let daemon = Daemon::start();
    for endpoint in [daemon.unix(), daemon.tcp()] {
        let url = endpoint.url();
        let vivarium = |arguments: &[&str]| {
            let mut command = program::vivarium(&Runner::Self_, daemon.dir());
            command.args(arguments).env("VIVARIUM_URL", &url);
            program::finish(&mut command, "")
        };
        assert_eq!(vivarium(&["run", "-q", "-c", "print(6 * 7)"]).expect_code(0).stdout(), "42\n");
        let absent = vivarium(&["exec", "demo", "-c", "x = 1"]).expect_code(1);
        assert!(absent.stderr().contains("demo"), "{absent:?}");
        let _made = vivarium(&["exec", "--create", "demo", "-c", "x = 41"]).expect_code(0);
        assert_eq!(
            vivarium(&["exec", "demo", "--value", "-c", "x + 1"]).expect_code(0).stdout(),
            "42\n"
        );
        let list = vivarium(&["sessions", "list", "--json"]).expect_code(0).stdout();
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!((list.as_array().unwrap().len(), &list[0]["id"]), (1, &"demo".into()));
        let shown = vivarium(&["sessions", "show", "demo"]).expect_code(0).stdout();
        assert!(shown.contains("seccomp") && shown.contains("enforced"), "{shown}");
        assert!(vivarium(&["sessions", "list"]).expect_code(0).stdout().contains("demo"));
        for action in ["keepalive", "interrupt", "reset"] {
            let _done = vivarium(&["sessions", action, "demo"]).expect_code(0);
        }
        assert_eq!(vivarium(&["exec", "demo", "-c", "x"]).code(), 1, "reset took it");
        let _done = vivarium(&["sessions", "delete", "demo"]).expect_code(0);
        assert_eq!(vivarium(&["sessions", "show", "demo"]).code(), 1);
        let strict = vivarium(&["run", "--sb-max-procs", "3", "-c", "1"]).expect_code(2);
        assert!(strict.stderr().contains("--sb-max-procs"), "{strict:?}");
    }
    daemon.stop_and_check();
}
