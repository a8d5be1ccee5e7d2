//! Keys: editing, completion, interrupts, and ends.

use std::os::unix::fs::MetadataExt;

use vivarium_tests::{program, wait};

use super::repl;

#[test]
fn values_blocks_and_errors_come_and_go_by_their_numbers() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line("6 * 7");
    terminal.sees("Out[1]: 42");
    terminal.sees_prompt("In [2]:");
    // Indented by the editor; an empty line ends the block.
    terminal.line("for i in range(2):");
    terminal.line("print('line', i)");
    terminal.sees("\n   ...:     print('line', i)\n");
    terminal.sees_prompt("   ...:");
    terminal.line("");
    terminal.sees("line 0\nline 1");
    terminal.sees_prompt("In [3]:");
    terminal.line("f(");
    terminal.line(")");
    terminal.sees("NameError: name 'f' is not defined");
    terminal.sees_prompt("In [4]:");
    // What does not end its line is not written over.
    terminal.line("print('no end', end='')");
    terminal.sees("\nno end\nIn [5]:");
    terminal.line("_ + 1, i");
    terminal.sees("Out[5]: (43, 1)");
    terminal.sees_prompt("In [6]:");
    terminal.keys("\x04");
    assert_eq!(terminal.wait_end().code(), Some(0));
}

#[test]
fn enter_continues_what_the_kernel_calls_incomplete() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line("!echo '1 (' #");
    terminal.sees("1 (\n");
    terminal.sees_prompt("In [2]:");
    terminal.line("%%bash");
    terminal.line("for word in two three; do");
    terminal.line("echo $word; done");
    terminal.line("");
    terminal.sees("two\nthree\n");
    terminal.sees_prompt("In [3]:");
    terminal.line("def f(a,");
    terminal.line("b):");
    terminal.line("return a + b");
    terminal.sees("\n   ...:     return a + b\n");
    terminal.sees_prompt("   ...:");
    terminal.line("");
    terminal.sees_prompt("In [4]:");
    terminal.line("f(40, 2)");
    terminal.sees("Out[4]: 42");
}

#[test]
fn the_numbers_of_prompts_are_those_of_tracebacks_and_of_in_and_out() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line("def f():");
    terminal.line("return 1 / 0");
    terminal.line("");
    terminal.sees_prompt("In [2]:");
    // Questions about code are no executions.
    terminal.keys("f\t\x03");
    terminal.line("?f");
    terminal.sees_prompt("In [2]:");
    terminal.line("f()");
    terminal.sees("File \"<execution 2>\", line 1, in <module>");
    terminal.sees("File \"<execution 1>\", line 2, in f");
    terminal.line("'number', 3");
    terminal.sees("Out[3]: ('number', 3)");
    terminal.line("In[2], Out[3]");
    terminal.sees("Out[4]: ('f()', ('number', 3))");
}

#[test]
fn lines_above_can_be_changed_and_prompts_are_no_part_of_the_code() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line("for i in range(2):");
    terminal.line("x = i");
    // Up twice, to the end of the line, and two characters back.
    terminal.keys("\x1b[A\x1b[A\x1b[F\x1b[D\x1b[D0");
    terminal.sees("In [1]: for i in range(20):");
    // Over the next prompt, back and over it again. There the line begins, and a backspace joins it.
    terminal.keys("\x1b[F\x1b[C\x1b[D\x1b[C\x1b[H\x7f");
    terminal.sees("In [1]: for i in range(20):    x = i");
    terminal.keys("\x1b[B");
    terminal.line("");
    terminal.sees_prompt("In [2]:");
    terminal.line("x");
    terminal.sees("Out[2]: 19");
    // A block from the history has its prompts too.
    terminal.sees_prompt("In [3]:");
    terminal.keys("if x:\rprint('in a ' + 'block')\r\r");
    terminal.sees("\nin a block\n");
    terminal.keys("\x1b[A");
    terminal.sees("In [4]: if x:\n   ...:     print('in a ' + 'block')");
}

#[test]
fn a_paste_is_one_input() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    // With an empty line in it, which would end a block that is typed.
    let code = "def f():\n    a = 1\n\n    return a + 1\nprint('f is', f())";
    terminal.keys(&format!("\x1b[200~{code}\x1b[201~"));
    terminal.sees("print('f is', f())");
    terminal.line("");
    terminal.sees("f is 2\n");
    terminal.sees_prompt("In [2]:");
}

#[test]
fn the_kernel_completes_and_explains() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line("import string; fahrenheit = 451");
    terminal.sees_prompt("In [2]:");
    terminal.keys("fahren\t");
    terminal.sees("In [2]: fahrenheit");
    terminal.line("");
    terminal.sees("Out[2]: 451");
    terminal.sees_prompt("In [3]:");
    terminal.keys("string.asc\t");
    terminal.sees("ascii_lowercase");
    // What was typed is thrown away.
    terminal.keys("\x03");
    terminal.sees_prompt("In [3]:");
    terminal.line("?len");
    terminal.sees("Docstring: Return the number of items in a container.");
    terminal.sees_prompt("In [3]:");
    terminal.line(":nonsense");
    terminal.sees("no such command");
}

#[test]
fn ctrl_c_interrupts_and_the_session_lives() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line("x = 5; import time; print('be' + 'gun'); time.sleep(1000)");
    terminal.sees("begun");
    terminal.keys("\x03");
    terminal.sees("KeyboardInterrupt");
    terminal.sees_prompt("In [2]:");
    terminal.line("x");
    terminal.sees("Out[2]: 5");
}

#[test]
fn what_is_typed_behind_ctrl_c_at_the_prompt_is_kept() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    // At once, so that the editor reads all of it together.
    terminal.keys("thrown_away\x03print('ke' + 'pt')\rprint('as' + ' well')\r");
    terminal.sees("kept\n");
    terminal.sees("as well\n");
    terminal.sees_prompt("In [3]:");
    // And within a search through the history.
    terminal.keys("\x12print\x03'last' + ' of all'\r");
    terminal.sees("last of all");
}

#[test]
fn code_that_ignores_ctrl_c_costs_its_variables_and_not_the_session() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line("x = 5; open('kept', 'w').write('file')");
    terminal.sees_prompt("In [2]:");
    let code = "def f():\n    while True:\n        try:\n            print('on'); \
                import time; time.sleep(1000)\n        except KeyboardInterrupt: \
                print('not' + ' now')\nf()";
    terminal.keys(&format!("\x1b[200~{code}\x1b[201~\r"));
    terminal.sees("\non");
    terminal.keys("\x03");
    terminal.sees("not now");
    terminal.sees("still running");
    terminal.keys("\x03");
    terminal.sees("variables are lost)");
    terminal.sees_prompt("In [3]:");
    terminal.line("open('kept').read(), 'x' in globals()");
    terminal.sees("Out[3]: ('file', False)");
}

#[test]
fn what_was_typed_is_there_the_next_time_and_for_nobody_else() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line("remembered = 1");
    terminal.sees_prompt("In [2]:");
    terminal.line(":quit");
    assert_eq!(terminal.wait_end().code(), Some(0));
    let history = dir.path().join(".local/state/vivarium/repl_history");
    assert_eq!(history.metadata().unwrap().mode() & 0o777, 0o600);
    let mut terminal = repl(dir.path(), &[]);
    // Up, twice: over `:quit`.
    terminal.keys("\x1b[A\x1b[A");
    terminal.sees_prompt("In [1]: remembered = 1");
    terminal.line("");
    terminal.sees_prompt("In [2]:");
}

#[test]
fn a_terminal_that_goes_away_takes_the_session_with_it() {
    let dir = program::temp_dir();
    let mut terminal = repl(dir.path(), &[]);
    terminal.line("import time; print('be' + 'gun'); time.sleep(1000)");
    terminal.sees("begun");
    let processes = vivarium_tests::processes::descendants(terminal.pid());
    assert!(!processes.is_empty());
    // As the kernel tells the session's leader of a hang-up.
    let pid = nix::unistd::Pid::from_raw(terminal.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
    terminal.wait_end();
    wait::until_true("the end of everything", || {
        !processes.iter().any(vivarium_tests::processes::Process::is_alive)
    });
}
