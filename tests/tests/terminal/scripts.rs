//! `vivarium run FILE` is `python FILE`, in a sandbox of its own or in a daemon's session.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use vivarium_tests::Daemon;
use vivarium_tests::program::{self, Finished};

use crate::{url, vivarium};

/// Runs a script in `dir` as `python3` does, in an embedded sandbox and in a daemon; what came of each.
fn everywhere(dir: &Path, options: &[&str], script: &[&str], input: &str) -> [Finished; 3] {
    let path = dir.join(script[0]).display().to_string();
    let mut python = std::process::Command::new("/usr/bin/python3");
    python.arg(script[0]).args(&script[1..]).current_dir(dir).env("PYTHONDONTWRITEBYTECODE", "1");
    let arguments = [options, &[path.as_str()], &script[1..]].concat();
    let daemon = Daemon::start();
    let url = url(&daemon);
    let exec = [&["exec", "--url", &url, "--create", "demo", "--quiet"], &*arguments].concat();
    let ran = [
        program::finish(&mut python, input),
        program::embedded(&program::Runner::Self_, dir, &arguments, input),
        program::finish(&mut vivarium(daemon.dir(), &exec), input),
    ];
    daemon.stop_and_check();
    ran
}

#[track_caller]
fn same_as_python(dir: &Path, options: &[&str], script: &[&str], input: &str) {
    let ran = everywhere(dir, options, script, input);
    let [python, ours @ ..] = ran.map(|ran| {
        // Each has the script in a directory of its own.
        let told = |text: String| text.replace(&dir.display().to_string(), "/workspace");
        (ran.code(), told(ran.stdout()), told(ran.stderr()))
    });
    for ours in ours {
        assert_eq!(ours, python);
    }
}

#[test]
fn a_script_has_its_file_arguments_and_input() {
    let dir = program::temp_dir();
    let script = "
import inspect, os, pathlib, sys
def here():
    return os.path.dirname(__file__)
if __name__ == '__main__':
    print(__file__, sys.argv, here() == os.getcwd(), __name__)
    print(pathlib.Path(sys.argv[0]).resolve() == pathlib.Path(__file__))
    print(inspect.getsource(here))
    print(input('name? '), sys.stdin.read().split(), repr(sys.stdin.read()))
    try:
        input()
    except EOFError:
        sys.exit(7)
";
    fs::write(dir.path().join("a.py"), script).unwrap();
    same_as_python(dir.path(), &[], &["a.py", "one", "two words"], "Ada\nmore\nlines\n");
    fs::write(dir.path().join("b.py"), "import subprocess; subprocess.run('cat') # stdin").unwrap();
    same_as_python(dir.path(), &[], &["b.py"], "for a child\n");
}

#[test]
fn input_that_nothing_reads_is_not_waited_for() {
    let dir = program::temp_dir();
    fs::write(dir.path().join("a.py"), "print(1)").unwrap();
    let path = dir.path().join("a.py").display().to_string();
    let config = program::config(dir.path(), "");
    let mut run = vivarium(dir.path(), &["run", "--config", &config, "--quiet", &path]);
    run.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = run.spawn().unwrap();
    let input = child.stdin.take();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
    assert_eq!(text, "1\n");
    assert!(child.wait().unwrap().success());
    drop(input);
}

#[test]
fn the_end_of_a_program_is_pythons() {
    let dir = program::temp_dir();
    fs::write(dir.path().join("beside.py"), "NAME = 'beside'").unwrap();
    let script = "
import atexit, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
atexit.register(print, 'first registered', __file__)
def last():
    print('last registered')
    raise ValueError('in an exit function')
atexit.register(last)
begun, did = threading.Event(), threading.Event()
def work():
    begun.wait()
    time.sleep(0.5) # until the program has ended
    import beside
    print('thread', beside.NAME, flush=True)
    did.set()
threading.Thread(target=work).start()
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
ThreadPoolExecutor(1).submit(lambda: (did.wait(), print('pool', flush=True)))
print('main', flush=True)
begun.set()
";
    let exits = [("", 0), ("sys.exit(3)", 3), ("raise KeyError('x')", 1)];
    for (exit, code) in exits {
        fs::write(dir.path().join("a.py"), format!("{script}{exit}")).unwrap();
        let [python, embedded, in_a_session] =
            everywhere(dir.path(), &["--siblings"], &["a.py"], "");
        let here = dir.path().display().to_string();
        assert_eq!(embedded.stdout(), python.stdout().replace(&here, "/workspace"));
        assert_eq!((python.code(), embedded.code()), (code, code), "{}", embedded.stderr());
        assert!(embedded.stderr().contains("ValueError: in an exit function"));
        // A session goes on.
        assert!(!in_a_session.stdout().contains("registered"), "{}", in_a_session.stdout());
    }
    let run =
        |arguments: &[&str]| program::embedded(&program::Runner::Self_, dir.path(), arguments, "");
    let ended = "import atexit; atexit.register(print, 'end'); print('code')";
    let json = run(&["--json", "-c", ended]).expect_code(0).stdout();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["stdout"], "code\nend\n");
    let thread = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()";
    let _late = run(&["--timeout", "500ms", "-c", thread]).expect_code(124);
}

#[test]
fn a_script_reads_what_is_typed_while_it_runs() {
    let dir = program::temp_dir();
    let script = "
import sys
print('hello', input('name? '))
print('again', input('more? '))
try:
    try:
        input('last? ')
    except EOFError:
        print('no', 'more')
    while True:
        pass
except KeyboardInterrupt:
    sys.exit('left')
";
    fs::write(dir.path().join("a.py"), script).unwrap();
    let config = program::config(dir.path(), "");
    let daemon = Daemon::start();
    let url = url(&daemon);
    let path = dir.path().join("a.py").display().to_string();
    for arguments in [
        &["run", "--config", &config, "--quiet", &path][..],
        &["exec", "--url", &url, "--create", "demo", &path],
    ] {
        let mut terminal = vivarium_tests::Terminal::run(&vivarium(dir.path(), arguments));
        terminal.sees("name?");
        terminal.line("Ada");
        terminal.sees("hello Ada");
        terminal.sees("more?");
        terminal.line("typed");
        terminal.sees("again typed");
        terminal.sees("last?");
        terminal.keys("\x04");
        terminal.sees("no more");
        terminal.keys("\x03");
        terminal.sees("left");
        assert_eq!(terminal.wait_end().code(), Some(1));
    }
    daemon.stop_and_check();
}

#[test]
fn ctrl_c_ends_a_script_that_waits_for_input() {
    let dir = program::temp_dir();
    let config = program::config(dir.path(), "");
    let arguments = ["run", "--config", &config, "--quiet", "-c", "input('name? ')"];
    let mut terminal = vivarium_tests::Terminal::run(&vivarium(dir.path(), &arguments));
    terminal.sees("name?");
    terminal.keys("\x03");
    terminal.sees("KeyboardInterrupt");
    assert_eq!(terminal.wait_end().code(), Some(130));
}

#[test]
fn a_pipe_is_passed_on_as_it_comes_to_code_and_to_commands() {
    let dir = program::temp_dir();
    let config = program::config(dir.path(), "");
    let code = "for n, line in enumerate(open(0), 1): print(n, line, end='', flush=True) # stdin";
    for what in [&["-c", code][..], &["--argv", "cat", "-n"]] {
        let arguments = [&["run", "--config", &config, "--quiet"], what].concat();
        let mut run = vivarium(dir.path(), &arguments);
        run.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = run.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Each answer comes before the next line is sent.
        for number in 1..4 {
            writeln!(input, "line").unwrap();
            let words = lines.next().unwrap().unwrap();
            let words: Vec<_> = words.split_whitespace().collect();
            assert_eq!(words, [&*number.to_string(), "line"]);
        }
        drop(input);
        assert!(lines.next().is_none());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn input_that_a_script_leaves_does_not_hold_up_its_session() {
    let daemon = Daemon::start();
    let url = url(&daemon);
    let exec = |arguments: &[&str], input: &str| {
        let mut command = vivarium(daemon.dir(), &["exec", "--url", &url, "--create", "demo"]);
        program::finish(command.args(arguments), input).expect_code(0).stdout()
    };
    let much = "line\n".repeat(200_000);
    assert_eq!(exec(&["-c", "print(input())"], &much), "line\n");
    let list = ["executions", "list", "--url", &url, "--json", "demo"];
    let mut list = vivarium(daemon.dir(), &list);
    vivarium_tests::wait::until_true("the end of what passed the input on", || {
        program::finish(&mut list, "").stdout().trim() == "[]"
    });
    let left = "print([name for name in __import__('os').listdir() if name.startswith('.std')])";
    assert_eq!(exec(&["-c", left], ""), "[]\n");
    daemon.stop_and_check();
}

#[test]
fn exits_and_tracebacks_are_pythons() {
    let dir = program::temp_dir();
    for (text, code) in [
        ("import sys; sys.exit(3)", 3),
        ("raise SystemExit", 0),
        ("import sys; sys.exit('a message')", 1),
        ("def f():\n    return 1 / 0\nf()", 1),
        ("raise KeyError('x') from ValueError('y')", 1),
    ] {
        fs::write(dir.path().join("a.py"), text).unwrap();
        let ran = everywhere(dir.path(), &[], &["a.py"], "");
        assert_eq!(ran.each_ref().map(Finished::code), [code; 3], "{text}");
        let lines = ran.map(|ran| {
            let text = ran.stderr().replace(&dir.path().display().to_string(), "/workspace");
            // The marks below a line are from Python 3.11 on, and not below one that is all marked.
            let lines = text.lines().filter(|line| !line.trim().starts_with(['^', '~']));
            lines.map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(lines[1], lines[0], "{text}");
        assert_eq!(lines[2], lines[0], "{text}");
    }
}

#[test]
fn modules_beside_a_script_come_by_folder_or_as_siblings() {
    let dir = program::temp_dir();
    let folder = dir.path().join("project");
    fs::create_dir_all(folder.join("pkg")).unwrap();
    fs::write(folder.join("helper.py"), "VALUE = 1").unwrap();
    fs::write(folder.join(".secret"), "").unwrap();
    fs::write(folder.join("pkg/__init__.py"), "from .deep import VALUE").unwrap();
    fs::write(folder.join("pkg/deep.py"), "VALUE = 2").unwrap();
    let script = "import os; os.chdir('/'); import helper, pkg; print(helper.VALUE, pkg.VALUE)";
    fs::write(folder.join("main.py"), script).unwrap();
    same_as_python(&folder, &["--siblings"], &["main.py"], "");
    let path = |name: &str| folder.join(name).display().to_string();
    let (helper, pkg) = (path("helper.py"), path("pkg"));
    same_as_python(&folder, &["--file", &helper, "--file", &pkg], &["main.py"], "");

    let run =
        |arguments: &[&str]| program::embedded(&program::Runner::Self_, dir.path(), arguments, "");
    let main = path("main.py");
    assert!(run(&[&main]).expect_code(1).stderr().contains("No module named 'helper'"));
    let list = "import os; print(sorted(os.listdir()), sorted(os.listdir('pkg')))";
    fs::write(folder.join("list.py"), list).unwrap();
    let listed = run(&["--siblings", &path("list.py")]).expect_code(0).stdout();
    assert!(listed.contains("'helper.py', 'list.py', 'main.py', 'pkg']"), "{listed}");
    assert!(!listed.contains("secret"), "{listed}");
    assert!(run(&["--siblings", "-"]).expect_code(2).stderr().contains("no FILE"));
}

#[test]
fn processes_of_every_start_method_work() {
    let dir = program::temp_dir();
    let script = "
import concurrent.futures, multiprocessing
def double(number):
    return 2 * number
def put(queue):
    queue.put(__name__)
if __name__ == '__main__':
    for method in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            print(method, pool.map(double, range(3)))
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
            print(list(executor.map(double, range(3))))
        queue = context.Queue()
        process = context.Process(target=put, args=(queue,))
        process.start()
        print(queue.get(timeout=20))
        process.join()
";
    fs::write(dir.path().join("pools.py"), script).unwrap();
    same_as_python(dir.path(), &[], &["pools.py"], "");
}

#[test]
fn a_declared_output_that_is_missing_is_an_error() {
    let dir = program::temp_dir();
    let out = dir.path().join("out").display().to_string();
    let run = |arguments: &[&str]| {
        let all = [&["--output-dir", &out, "--outputs", "a.txt"], arguments].concat();
        let all = if arguments.contains(&"--json") { all[2..].to_vec() } else { all };
        program::embedded(&program::Runner::Self_, dir.path(), &all, "")
    };
    let missing = run(&["-c", "pass"]).expect_code(1);
    assert!(missing.stderr().contains("a.txt"), "{}", missing.stderr());
    for arguments in [&["--json", "-c", "pass"], &["--shell", "true"] as &[_]] {
        let _missing = run(arguments).expect_code(1);
    }
    let _exit = run(&["-c", "import sys; sys.exit(4)"]).expect_code(4);
    let _there = run(&["-c", "open('a.txt', 'w').close()"]).expect_code(0);
}
