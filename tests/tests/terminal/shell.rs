//! `vivarium shell`: a terminal in a session.

use serde_json::json;
use vivarium_tests::{Daemon, Terminal, program};

use super::{url, vivarium};

fn shell(daemon: &Daemon, arguments: &[&str]) -> Terminal {
    let url = url(daemon);
    let arguments = [&["shell", "--url", &url, "--create", "demo"], arguments].concat();
    Terminal::run(&vivarium(daemon.dir(), &arguments))
}

#[test]
fn a_shell_runs_on_a_terminal_beside_code() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&json!({"id": "demo"}));
    let mut terminal = shell(&daemon, &[]);
    terminal.line("echo $((6 * 7)) $PWD; [ -t 0 ] && stty size");
    terminal.sees("42 /workspace");
    // What it does, code sees.
    terminal.line("echo from the shell > note; echo written");
    terminal.sees("\nwritten");
    assert_eq!(session.execute("print(open('note').read())").stdout(), "from the shell\n\n");
    terminal.line("python3 -c 'import signal; print(6 * 111, flush=True); signal.pause()'");
    terminal.sees("666");
    terminal.keys("\x03");
    terminal.sees("KeyboardInterrupt");
    terminal.line("exit 3");
    assert_eq!(terminal.wait_end().code(), Some(3));
    daemon.stop_and_check();
}

#[test]
fn programs_draw_on_the_terminal_and_reach_nothing_beyond_it() {
    let daemon = Daemon::start();
    let code = r"printf '\033]52;c;aGk=\007\033]0;title\007\033[6n\033[2J\033[3;5Hdrawn'";
    let mut terminal = shell(&daemon, &["--", "sh", "-c", code]);
    assert_eq!(terminal.wait_end().code(), Some(0));
    terminal.sees("drawn");
    let raw = terminal.raw();
    assert!(raw.contains("\x1b[3;5Hdrawn"), "{raw:?}");
    for reaching in ["\x1b]", "title", "aGk=", "\x1b[6n"] {
        assert!(!raw.contains(reaching), "{reaching:?} in {raw:?}");
    }
    daemon.stop_and_check();
}

#[test]
fn a_shell_ends_when_its_terminal_is_gone() {
    let daemon = Daemon::start();
    let session = daemon.session_with(&json!({"id": "demo"}));
    let mut terminal = shell(&daemon, &[]);
    terminal.line("echo $((6 * 7))");
    terminal.sees("42");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(terminal.pid()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    terminal.wait_end();
    // Its events end with it.
    assert_eq!(session.follow("1", None).rest().last().unwrap().name, "done");
    daemon.stop_and_check();
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let dir = program::temp_dir();
    let mut command = vivarium(dir.path(), &["shell", "demo"]);
    let said = program::finish(&mut command, "").expect_code(2).stderr();
    assert!(said.contains("needs a terminal") && said.contains("vivarium exec"), "{said}");
}
