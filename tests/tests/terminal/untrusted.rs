//! A terminal that gets what a session, a tenant or a daemon has a say in obeys none of it,
//! whichever command shows it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};
use vivarium_tests::{Daemon, Terminal, program, wait};

use super::{repl, url, vivarium};

/// What no terminal may get: a title, a question that it answers as if keys were pressed, another
/// screen, the clipboard, each also as single characters, and text that runs backwards.
const HOSTILE: &str =
    "\x1b]0;owned\x07\x1b[6n\x1b[?47h\x1b]52;c;b3duZWQ=\x07\u{9d}0;owned\u{9c}\u{9b}6n";

/// The same in Python's notation.
const IN_PYTHON: &str =
    r"'\x1b]0;ow' 'ned\x07\x1b[6n\x1b[?47h\x1b]52;c;b3duZWQ=\x07\x9d0;ow' 'ned\x9c\x9b6n'";

/// What of it reached the terminal.
fn reached(raw: &str) -> Vec<&'static str> {
    let parts = ["\x1b]0;", "\x1b[6n", "\x1b[?47h", "\x1b]52;", "\u{9d}", "\u{9b}6n", "\u{202e}"];
    parts.into_iter().filter(|part| raw.contains(part)).collect()
}

#[track_caller]
fn check(terminal: &Terminal) {
    assert_eq!(reached(&terminal.raw()), [""; 0], "{:?}", terminal.raw());
}

#[test]
fn what_is_not_filtered_would_be_seen() {
    // The control of all that follows: a terminal does get what a program writes to it.
    let mut command = Command::new("/usr/bin/printf");
    command.args(["%s\\nend\\n", HOSTILE]);
    let mut terminal = Terminal::run(&command);
    wait::until_true("all of it", || reached(&terminal.raw()).len() == 6);
    assert_eq!(terminal.wait_end().code(), Some(0));
}

#[test]
fn run_shows_no_sequence_of_what_code_prints_shows_raises_or_names() {
    let dir = program::temp_dir();
    let config = program::config(dir.path(), "");
    let code = format!(
        "import os, sys, warnings\nbad = {IN_PYTHON}\nprint(bad); sys.stderr.write(bad)\n\
         os.write(1, bad.encode()); os.write(2, b'\\x9d0;owned\\x9c')\n\
         warnings.warn(bad)\n\
         class Bad:\n    def __repr__(self): return bad\n    \
             def _repr_html_(self): return bad\n\
         display(Bad()); display({{'image/png': b'x', bad: bad}}, raw=True)\n\
         open(bad.replace('/', ''), 'w').close()\n\
         Error = type('Bad' + bad, (Exception,), {{}})\n\
         print('almost'); raise ExceptionGroup(bad, [Error(bad), ValueError(bad)])"
    );
    let out = dir.path().join("out");
    let to = out.to_str().unwrap();
    let arguments = ["run", "--config", &config, "--value", "--output-dir", to, "-c", &code];
    let mut terminal = Terminal::run(&vivarium(dir.path(), &arguments));
    terminal.sees("almost");
    assert_eq!(terminal.wait_end().code(), Some(1));
    terminal.sees("ExceptionGroup");
    check(&terminal);
    for entry in std::fs::read_dir(out).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.contains(char::is_control), "{name:?}");
    }
    // And as JSON.
    let arguments = ["run", "--config", &config, "--json", "-c", &code];
    let mut terminal = Terminal::run(&vivarium(dir.path(), &arguments));
    assert_eq!(terminal.wait_end().code(), Some(1));
    // More than a screen of it.
    wait::until_true("the outcome", || terminal.raw().contains("\"usage\""));
    check(&terminal);
}

#[test]
fn the_prompt_shows_no_sequence_of_what_code_says_of_itself() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line(&format!("bad = {IN_PYTHON}"));
    terminal.sees_prompt("In [2]:");
    terminal.line("import sys; sys.stderr.write(bad); print(bad); display(bad)");
    terminal.sees_prompt("In [3]:");
    // What it explains and what it completes.
    terminal.line("def function(): pass");
    terminal.line("");
    terminal.sees_prompt("In [4]:");
    terminal.line("function.__doc__ = function.__name__ = function.__qualname__ = bad");
    terminal.sees_prompt("In [5]:");
    for line in ["?function", "function??"] {
        terminal.line(line);
        terminal.sees_prompt("In [5]:");
    }
    terminal.line("class Odd: __dir__ = lambda self: ['odd' + bad, 'odd' 'ly', 'odd' 'est']");
    terminal.line("");
    terminal.sees_prompt("In [6]:");
    terminal.line("odd = Odd()");
    terminal.sees_prompt("In [7]:");
    terminal.keys("odd.odd\t");
    terminal.sees("oddly");
    terminal.sees_prompt("In [7]: odd.odd");
    terminal.keys("\x03");
    terminal.sees_prompt("In [7]:");
    terminal.line("raise type('E' + bad, (Exception,), {})(bad)");
    terminal.sees_prompt("In [8]:");
    check(&terminal);
}

#[test]
fn a_sessions_report_shows_no_sequence_of_a_variables_name() {
    let daemon = Daemon::start();
    let name = format!("NAME{}", HOSTILE.replace('=', ""));
    let _session = daemon.session_with(&json!({"id": "demo", "env": {name: "1"}}));
    for action in ["show", "list"] {
        let arguments: &[&str] = if action == "show" { &["demo"] } else { &[] };
        let url = url(&daemon);
        let mut command = vivarium(daemon.dir(), &["sessions", action, "--url", &url]);
        let mut terminal = Terminal::run(command.args(arguments));
        assert_eq!(terminal.wait_end().code(), Some(0));
        terminal.sees("demo");
        check(&terminal);
    }
    daemon.stop_and_check();
}

/// Adds [`HOSTILE`] to every text that is nobody's enumeration.
fn spoil(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(spoil),
        Value::Object(members) => {
            for (key, value) in members {
                let is_free = [
                    "id",
                    "tenant",
                    "environment",
                    "detail",
                    "fix",
                    "kernel",
                    "version",
                    "name",
                    "interpreter",
                    "python_version",
                ]
                .contains(&key.as_str());
                match value {
                    Value::String(text) if is_free => text.push_str(HOSTILE),
                    _ => spoil(value),
                }
            }
        }
        _ => {}
    }
}

/// A server that answers as a daemon does, with everything spoilt that can be. Its port.
fn spoilt(daemon: &Daemon) -> u16 {
    let mut answers = BTreeMap::new();
    for path in ["/v1/sessions", "/v1/host", "/metrics/tenants"] {
        let mut body = daemon.request("GET", path, None).json();
        spoil(&mut body);
        answers.insert(path, body.to_string().into_bytes());
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answers = answers.clone();
            thread::spawn(move || serve(stream.unwrap(), &answers));
        }
    });
    port
}

fn serve(stream: std::net::TcpStream, answers: &BTreeMap<&str, Vec<u8>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            // Who was asking has gone.
            if !matches!(stream.read_line(&mut head), Ok(1..)) {
                return;
            }
        }
        let path = head.split([' ', '?']).nth(1).unwrap();
        let body = &answers[path];
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = [head.as_bytes(), body].concat();
        if stream.get_mut().write_all(&answer).is_err() {
            return;
        }
    }
}

#[test]
fn top_shows_no_sequence_of_what_a_daemon_says() {
    let daemon = Daemon::start();
    let _session = daemon.session_with(&json!({"id": "demo"}));
    let url = format!("http://127.0.0.1:{}", spoilt(&daemon));
    let command = |arguments: &[&str]| {
        let mut command = vivarium(daemon.dir(), &["top", "--url", &url]);
        command.args(arguments);
        command
    };
    let mut terminal = Terminal::run(&command(&["--interval", "100ms"]));
    for (key, sight) in [("1", "demo"), ("2", "PROCESSES"), ("3", "landlock"), ("1", "demo")] {
        terminal.keys(key);
        terminal.sees(sight);
        assert!(
            // What top itself does with the screen is another one's, 1049.
            reached(&terminal.raw()).is_empty(),
            "{key}: {:?}",
            terminal.raw()
        );
    }
    terminal.keys("q");
    assert_eq!(terminal.wait_end().code(), Some(0));
    check(&terminal);
    for argument in ["--once", "--json"] {
        let mut terminal = Terminal::run(&command(&[argument]));
        assert_eq!(terminal.wait_end().code(), Some(0), "{}", terminal.raw());
        terminal.sees("default");
        check(&terminal);
        // The control: what it was told is there, for who reads it.
        assert!(terminal.raw().contains("owned"), "{argument}: {:?}", terminal.raw());
    }
    daemon.stop_and_check();
}
