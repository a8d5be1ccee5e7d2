//! Lines that are piped into `vivarium repl`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use vivarium_tests::program::{self, Finished};
use vivarium_tests::{Daemon, Session};

use super::{repl, url, vivarium};

/// Pipes lines into a session of a daemon.
fn pipe(daemon: &Daemon, arguments: &[&str], lines: &str) -> Finished {
    let url = url(daemon);
    let all = [&["repl", "--url", &url], arguments].concat();
    program::finish(&mut vivarium(daemon.dir(), &all), lines)
}

const LINES: &str = "
# Blocks end before the next statement, and not at an empty line.
def f(x):
    a = [x,
2]

    return a
f(1)
if False:
    pass
else:
    print('or else')

text = '''
exit
'''
text
@staticmethod
def g(): pass
%%bash
for word in one two; do
echo $word
done

len?
_
'the last'";

#[test]
fn each_statement_is_run_and_its_output_printed() {
    let daemon = Daemon::start();
    let printed = pipe(&daemon, &[], LINES).expect_code(0).stdout();
    let (before, after) = printed.split_once("Signature:").unwrap_or((&printed, ""));
    assert_eq!(before, "[1, 2]\nor else\n'\\nexit\\n'\none\ntwo\n");
    assert!(after.ends_with("\n'\\nexit\\n'\n'the last'\n"), "{after}");
    daemon.stop_and_check();
}

#[test]
fn the_exit_code_is_that_of_the_last_statement() {
    let daemon = Daemon::start();
    let all = pipe(&daemon, &[], "1 / 0\nprint('on')\n").expect_code(0);
    assert_eq!(all.stdout(), "on\n");
    assert!(all.stderr().contains("ZeroDivisionError"), "{}", all.stderr());
    for (lines, code) in [
        ("x = 1\n1 / 0", 1),
        ("if True:\n  1 / 0\n", 1),
        ("x = (\n", 1),
        ("1 / 0\nexit\nprint('never')", 1),
        ("import sys; sys.exit(7)", 7),
        (":get nothing", 1),
        (":nonsense", 2),
        ("", 0),
    ] {
        let ran = pipe(&daemon, &[], lines).expect_code(code);
        assert!(!ran.stdout().contains("never"), "{lines}");
    }
    let _late =
        pipe(&daemon, &["--timeout", "200ms"], "import time; time.sleep(60)").expect_code(124);
    daemon.stop_and_check();
}

#[test]
fn a_named_session_is_kept_and_files_come_and_go() {
    let daemon = Daemon::start();
    fs::write(daemon.dir().join("data.csv"), "a,b").unwrap();
    let lines =
        ":put data.csv\ntext = open('data.csv').read()\nopen('out', 'w').write(text)\n:get out";
    let ran = pipe(&daemon, &["demo"], lines).expect_code(0);
    assert_eq!(ran.stdout(), "3\n");
    assert!(ran.stderr().contains("wrote out (3 B)"), "{}", ran.stderr());
    assert_eq!(fs::read_to_string(daemon.dir().join("out")).unwrap(), "a,b");
    assert_eq!(Session::named(&daemon, "demo").value("text"), "'a,b'");
    daemon.stop_and_check();
}

#[test]
fn a_statement_is_run_before_the_next_one_comes() {
    let dir = program::temp_dir();
    let config = program::config(dir.path(), "");
    let mut command = vivarium(dir.path(), &["repl", "--config", &config]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = child.stdin.take().unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap()).lines();
    for (line, answer) in [("6 * 7", "42"), ("_ + 1", "43")] {
        writeln!(lines, "{line}").unwrap();
        assert_eq!(printed.next().unwrap().unwrap(), answer);
    }
    drop(lines);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_prompt_needs_a_terminal_to_be_drawn_on() {
    let dir = program::temp_dir();
    let mut command = std::process::Command::new("/usr/bin/script");
    let repl =
        format!("{} repl >{}/out", program::path("vivarium").display(), dir.path().display());
    command.args(["--quiet", "--return", "--command", &repl, "/dev/null"]);
    let refused = program::finish(&mut command, "").expect_code(2);
    assert!(refused.stdout().contains("the prompt needs a terminal"), "{}", refused.stdout());
}

/// As root, an embedded sandbox's program becomes another user, in another directory.
#[test]
fn files_are_found_in_the_directory_that_the_program_was_started_in() {
    let dir = program::temp_dir();
    fs::write(dir.path().join("data.csv"), "a,b").unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::set_permissions(&out, PermissionsExt::from_mode(0o777)).unwrap();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line(":put data.csv");
    terminal.sees("put data.csv");
    terminal.line(":get data.csv out");
    terminal.sees("out/data.csv (3 B)");
    assert_eq!(fs::read_to_string(out.join("data.csv")).unwrap(), "a,b");
}
