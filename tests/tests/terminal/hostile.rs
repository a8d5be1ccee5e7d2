//! Tenant code has no way to the user's terminal but text.

use vivarium_tests::{Terminal, program};

use super::{repl, vivarium};

/// Sets the title, asks where the cursor is, switches the screen, and colours.
const HOSTILE: &str =
    r"print('\x1b]0;' + 'owned\x07\x1b[6n\x1b[?1049h\x1b[31mred' + ' text\x1b[0m')";

#[test]
fn what_code_prints_is_filtered_and_what_it_says_is_escaped() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line(HOSTILE);
    terminal.sees("red text");
    terminal.sees_prompt("In [2]:");
    let raw = terminal.raw();
    assert!(raw.contains("\x1b[31mred text\x1b[0m"), "{raw:?}");
    for sequence in ["\x1b]0;owned", "\x1b[6n", "\x1b[?1049h"] {
        assert!(!raw.contains(sequence), "{sequence:?} in {raw:?}");
    }
    assert!(raw.contains(r"\x1b]0;owned\x07\x1b[6n\x1b[?1049h"), "{raw:?}");
    terminal.line(r"class A: __repr__ = lambda self: '\x1b]0;owned\x07repr'");
    terminal.sees_prompt("In [3]:");
    terminal.line("A()");
    terminal.sees(r"Out[3]: \x1b]0;owned\x07repr");
    terminal.line(r"raise ValueError('\x1b[2Jgo' + 'ne')");
    terminal.sees(r"ValueError: \x1b[2Jgone");
    terminal.line(r"open('\x1b[2Jname', 'w').close()");
    terminal.sees_prompt("In [6]:");
    terminal.line(":files");
    terminal.sees(r"\x1b[2Jname");
    assert!(!terminal.raw().contains("\x1b]0;owned"));
}

#[test]
fn run_filters_for_a_terminal_and_for_nobody_else() {
    let dir = program::temp_dir();
    let config = program::config(dir.path(), "");
    let arguments = ["run", "--config", &config, "-q", "-c", HOSTILE];
    let mut terminal = Terminal::run(&vivarium(dir.path(), &arguments));
    assert_eq!(terminal.wait_end().code(), Some(0));
    terminal.sees(r"\x1b]0;owned\x07\x1b[6n\x1b[?1049hred text");
    assert!(!terminal.raw().contains("\x1b]0"), "{:?}", terminal.raw());
    // The positive control: a pipe gets every byte.
    let piped = program::finish(&mut vivarium(dir.path(), &arguments), "").expect_code(0);
    assert!(piped.stdout().starts_with("\x1b]0;owned\x07\x1b[6n"), "{:?}", piped.stdout());
}

#[test]
fn text_cannot_be_turned_round_nor_the_screen_cleared() {
    let dir = program::temp_dir();
    let config = program::config(dir.path(), "");
    let code = r"print('kept'); print('\x1b[2J\x1b[H\x1b[1A' + 'x\u202egpj.exe\u2066')";
    let arguments = ["run", "--config", &config, "-q", "-c", code];
    let mut terminal = Terminal::run(&vivarium(dir.path(), &arguments));
    assert_eq!(terminal.wait_end().code(), Some(0));
    terminal.sees("kept\n\\x1b[2J\\x1b[H\\x1b[1Ax\\u202egpj.exe\\u2066");
    for hostile in ["\x1b[2J", "\x1b[H", "\x1b[1A", "\u{202e}", "\u{2066}"] {
        assert!(!terminal.raw().contains(hostile), "{hostile:?} in {:?}", terminal.raw());
    }
    let piped = program::finish(&mut vivarium(dir.path(), &arguments), "").expect_code(0);
    assert_eq!(piped.stdout(), "kept\n\x1b[2J\x1b[H\x1b[1Ax\u{202e}gpj.exe\u{2066}\n");
}
