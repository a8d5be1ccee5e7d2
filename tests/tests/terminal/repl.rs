//! `vivarium repl`: sessions, pictures and files.

use std::fs;

use serde_json::json;
use vivarium_tests::{Daemon, Terminal, program};

use super::{PICTURE, repl, url, vivarium};

/// At the keyboard of a daemon's session.
fn attach(daemon: &Daemon, arguments: &[&str]) -> Terminal {
    let mut command = vivarium(daemon.dir(), &["repl", "--url", &url(daemon)]);
    command.args(arguments).env("NO_COLOR", "1");
    let mut terminal = Terminal::run(&command);
    terminal.wait("a prompt", |screen| screen.contains("In ["));
    terminal
}

fn sessions(daemon: &Daemon) -> usize {
    let list = daemon.request("GET", "/v1/sessions", None).expect_success();
    list["sessions"].as_array().unwrap().len()
}

#[test]
fn a_named_session_stays_and_another_does_not() {
    let daemon = Daemon::start();
    let mut terminal = attach(&daemon, &["demo"]);
    terminal.line("x = 41");
    terminal.sees_prompt("In [2]:");
    terminal.keys("\x04");
    terminal.sees("session demo is kept");
    assert_eq!(terminal.wait_end().code(), Some(0));
    assert_eq!(vivarium_tests::Session::named(&daemon, "demo").value("x + 1"), "42");
    let mut terminal = attach(&daemon, &["demo"]);
    terminal.line("x");
    terminal.sees("Out[3]: 41");
    let mut other = attach(&daemon, &[]);
    assert_eq!(sessions(&daemon), 2);
    other.line(":quit");
    assert_eq!(other.wait_end().code(), Some(0));
    assert_eq!(sessions(&daemon), 1);
    let mut third = attach(&daemon, &[]);
    third.line(":keep");
    third.sees("stays when you leave");
    third.line(":quit");
    assert_eq!(third.wait_end().code(), Some(0));
    assert_eq!(sessions(&daemon), 2);
    drop(terminal);
    daemon.stop_and_check();
}

#[test]
fn enter_sends_the_input_while_the_session_runs_something_else() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&json!({"id": "demo"}));
    let mut terminal = attach(&daemon, &["demo"]);
    let mut events =
        session.stream("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)");
    events.expect("started");
    terminal.line("6 * 7");
    assert_eq!(session.request("PUT", "/files/go", Some(&json!(""))).status, 201);
    events.rest();
    terminal.sees("Out[2]: 42");
    drop(terminal);
    daemon.stop_and_check();
}

#[test]
fn a_session_can_be_reset_and_told_of() {
    let daemon = Daemon::start();
    let mut terminal = attach(&daemon, &["demo"]);
    terminal.line("x = 1");
    terminal.sees_prompt("In [2]:");
    terminal.line(":session");
    terminal.sees("session demo, environment default");
    terminal.line(":reset");
    terminal.sees("reset: variables are gone");
    terminal.sees_prompt("In [2]:");
    terminal.line("x");
    terminal.sees("NameError: name 'x' is not defined");
    let _gone = daemon.request("DELETE", "/v1/sessions/demo", None);
    terminal.sees_prompt("In [3]:");
    terminal.line("1");
    terminal.sees("unknown_session");
    daemon.stop_and_check();
}

#[test]
fn pictures_go_to_the_terminal_or_to_a_folder() {
    for (how, drawn) in [
        ("kitty", Some("\x1b_Ga=T,f=100,q=2,m=0;iVBORw0KGgo")),
        ("iterm2", Some("\x1b]1337;File=inline=1;")),
        ("files", None),
    ] {
        let dir = program::temp_dir();
        let mut terminal = repl(dir.path(), &["--images", how]);
        terminal.keys(&format!("\x1b[200~{PICTURE}\x1b[201~\r"));
        terminal.sees_prompt("In [2]:");
        terminal.line("Picture()");
        terminal.sees("Out[2]: a picture");
        terminal.sees_prompt("In [3]:");
        if let Some(drawn) = drawn {
            assert!(terminal.raw().contains(drawn), "{how}: {:?}", terminal.raw());
            assert!(!terminal.screen().contains("wrote"), "{}", terminal.screen());
            continue;
        }
        let screen = terminal.screen();
        let wrote = screen.lines().find_map(|line| line.strip_prefix("wrote ")).unwrap();
        assert!(fs::read(wrote.trim()).unwrap().starts_with(b"\x89PNG"));
        fs::remove_dir_all(std::path::Path::new(wrote.trim()).parent().unwrap()).unwrap();
    }
}

#[test]
fn a_folder_that_is_named_gets_everything() {
    let dir = program::temp_dir();
    let out = dir.path().join("out");
    let mut terminal =
        repl(dir.path(), &["--images", "kitty", "--output-dir", out.to_str().unwrap()]);
    terminal.keys(&format!("\x1b[200~{PICTURE}\x1b[201~\r"));
    terminal.sees_prompt("In [2]:");
    terminal.line("display(Picture()); Picture()");
    terminal.sees("result-1.png");
    assert!(terminal.raw().contains("\x1b_Ga=T"));
    for name in ["display-1.png", "result-1.png"] {
        assert!(fs::read(out.join(name)).unwrap().starts_with(b"\x89PNG"), "{name}");
    }
}

#[test]
fn a_terminal_without_a_protocol_for_images_gets_files() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.keys(&format!("\x1b[200~{PICTURE}\x1b[201~\r"));
    terminal.sees_prompt("In [2]:");
    terminal.line("Picture()");
    terminal.sees("wrote ");
}

#[test]
fn files_come_and_go() {
    let daemon = Daemon::start();
    fs::write(daemon.dir().join("data.csv"), "a,b\n1,2\n").unwrap();
    let mut terminal = attach(&daemon, &["demo"]);
    terminal.line(":put data.csv sub/here.csv");
    terminal.sees("put sub/here.csv");
    terminal.line("open('sub/here.csv').read()");
    terminal.sees("Out[1]: 'a,b\\n1,2\\n'");
    terminal.line(":files sub");
    terminal.sees("sub/here.csv");
    terminal.line("open('out.txt', 'w').write('made there')");
    terminal.sees("Out[2]: 10");
    terminal.line(":get out.txt");
    terminal.sees("wrote out.txt (10 B)");
    assert_eq!(fs::read_to_string(daemon.dir().join("out.txt")).unwrap(), "made there");
    terminal.line(":get out.txt");
    terminal.sees("is there already");
    let _sent = daemon.request("POST", "/v1/sessions/demo/reset", Some(&json!({})));
    drop(terminal);
    daemon.stop_and_check();
}
