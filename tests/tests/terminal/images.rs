//! Suspended sessions and checkpoints, from the command line and at the prompt.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use vivarium_tests::program::{self, Finished};
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Daemon, Setup, Terminal};

use super::{url, vivarium};

fn with_images() -> Daemon {
    Setup::with_start_mode(StartMode::Forked)
        .config("environments.default", "images = true")
        .start()
}

fn cli(daemon: &Daemon, command: &[&str], rest: &[&str]) -> Finished {
    let url = url(daemon);
    let all = [command, &["--url", &url], rest].concat();
    program::finish(&mut vivarium(daemon.dir(), &all), "")
}

/// A session `demo` with `x = 41`, suspended, that no call resumes.
fn suspended(daemon: &Daemon) {
    let create = ["demo", "--no-auto-resume"];
    let _made = cli(daemon, &["sessions", "create"], &create).expect_code(0);
    let _ran = cli(daemon, &["exec"], &["demo", "-c", "x = 41"]).expect_code(0);
    let _asleep = cli(daemon, &["sessions", "suspend"], &["demo"]).expect_code(0);
}

/// Whether this is a tar archive (tar(5), `magic`).
fn is_archive(content: &[u8]) -> bool {
    content.get(257..262) == Some(b"ustar")
}

#[test]
fn a_session_that_no_call_resumes_says_so_and_names_the_command_that_does() {
    let daemon = with_images();
    suspended(&daemon);
    let refused = cli(&daemon, &["exec"], &["demo", "-c", "x"]).expect_code(1);
    let hint = "`vivarium sessions resume demo` resumes it";
    assert!(refused.stderr().contains(hint), "{}", refused.stderr());
    for show in [["sessions", "show"], ["images", "show"]] {
        let shown = cli(&daemon, &show, &["demo"]).expect_code(0).stdout();
        let row = shown.lines().find_map(|line| line.strip_prefix("auto resume")).unwrap();
        assert_eq!(row.trim(), "no", "{shown}");
    }
    let _awake = cli(&daemon, &["sessions", "resume"], &["demo"]).expect_code(0);
    let value = cli(&daemon, &["exec", "--value"], &["demo", "-c", "x + 1"]).expect_code(0);
    assert_eq!(value.stdout(), "42\n");
    daemon.stop_and_check();
}

#[test]
fn an_image_goes_to_files_devices_and_pipes_and_to_no_terminal() {
    let daemon = with_images();
    suspended(&daemon);
    let export = |to: &[&str]| cli(&daemon, &["images", "export", "demo"], to);
    let saved = daemon.dir().join("demo.tar");
    let _kept = export(&[]).expect_code(0);
    assert!(is_archive(&fs::read(&saved).unwrap()));
    assert!(export(&[]).expect_code(2).stderr().contains("--force"));
    let _replaced = export(&["--force"]).expect_code(0);
    let _lost = export(&["/dev/null"]).expect_code(0);
    assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
    let size = fs::read(&saved).unwrap().len();
    for name in ["-", "/dev/stdout"] {
        let piped = export(&[name]).expect_code(0).0.stdout;
        assert!(is_archive(&piped) && piped.len() == size, "{name}: {} of {size}", piped.len());
    }
    let url = url(&daemon);
    let export = ["images", "export", "--url", &url, "demo", "-"];
    let mut terminal = Terminal::run(&vivarium(daemon.dir(), &export));
    terminal.sees("standard output is a terminal");
    assert_eq!(terminal.wait_end().code(), Some(2));
    daemon.stop_and_check();
}

#[test]
fn what_is_no_image_is_named() {
    let daemon = with_images();
    for (file, why) in [
        (".", "vivarium: . is a directory"),
        ("absent.tar", "vivarium: cannot open absent.tar: No such file"),
    ] {
        let refused = cli(&daemon, &["images", "import"], &[file]).expect_code(2);
        assert!(refused.stderr().starts_with(why), "{}", refused.stderr());
    }
    daemon.stop_and_check();
}

#[test]
fn a_session_goes_back_to_a_checkpoint_at_the_prompt() {
    let daemon = with_images();
    let mut command = vivarium(daemon.dir(), &["repl", "--url", &url(&daemon), "demo"]);
    let mut terminal = Terminal::run(command.env("NO_COLOR", "1"));
    terminal.sees_prompt("In [1]:");
    terminal.line("x = 41");
    terminal.sees_prompt("In [2]:");
    terminal.line(":checkpoint before");
    terminal.sees("\nbefore\n");
    terminal.line(":checkpoints");
    terminal.sees("NAME    ");
    terminal.line("del x");
    terminal.sees_prompt("In [3]:");
    terminal.line(":rollback before");
    terminal.sees("rolled back to before; not undone: homes, volumes");
    terminal.line("x + 1");
    terminal.sees("Out[3]: 42");
    terminal.line(":rollback nothing");
    terminal.sees("unknown_checkpoint");
    terminal.keys("\x04");
    assert_eq!(terminal.wait_end().code(), Some(0));
    daemon.stop_and_check();
}

#[test]
fn checkpoints_at_the_prompt_need_a_daemon() {
    let dir = program::temp_dir();
    let mut terminal = super::repl(dir.path(), &[]);
    for line in [":checkpoint", ":checkpoints", ":rollback a"] {
        terminal.line(line);
        terminal.sees_prompt("In [1]:");
    }
    terminal.sees("a session that is to have checkpoints needs a daemon");
    terminal.sees("a session that is to be rolled back needs a daemon");
}
