//! Terminals of commands, and those that tenant code makes itself.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod harness;

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use harness::{Session, policy};
use vivarium_protocol::message::{
    CommandSpec, Completion, FromAgent, Stdin, ToAgent, WindowSize, Work,
};

const SIZE: WindowSize = WindowSize { columns: 100, rows: 30 };

fn on_terminal(argv: &[&str], stdin: Stdin) -> Work {
    let argv = argv.iter().map(|&argument| argument.to_owned()).collect();
    Work::Command(CommandSpec { stdin, pty: Some(SIZE), ..CommandSpec::new(argv) })
}

/// A command on a terminal, and what writes to it.
struct Typed {
    execution: u64,
    keyboard: File,
    seen: String,
}

impl Typed {
    fn start(session: &mut Session, argv: &[&str]) -> Self {
        let (read, write) = std::io::pipe().unwrap();
        let execution = session.start_with_pipe(on_terminal(argv, Stdin::Pipe), read.into());
        Self { execution, keyboard: File::from(OwnedFd::from(write)), seen: String::new() }
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until the terminal has shown this.
    fn waits_for(&mut self, session: &mut Session, text: &str) {
        self.waits_for_each(session, text, 1);
    }

    /// Waits until the terminal has shown this so often.
    fn waits_for_each(&mut self, session: &mut Session, text: &str, times: usize) {
        while self.seen.matches(text).count() < times {
            match session.recv().expect("the session ended") {
                FromAgent::Output { execution, data, .. } if execution == self.execution => {
                    self.seen.push_str(str::from_utf8(&data).unwrap());
                }
                FromAgent::Started { .. } => {}
                other => panic!("{text:?} never came: {other:?} after {:?}", self.seen),
            }
        }
        self.seen.clear();
    }
}

#[test]
fn a_command_on_a_terminal_has_it_as_its_own() {
    let mut session = Session::launch(policy()).unwrap();
    let facts = "import os, sys, termios, fcntl\n\
        print([os.isatty(fd) for fd in (0, 1, 2)], os.get_terminal_size(0), os.ttyname(0))\n\
        print(os.tcgetpgrp(0) == os.getpgrp(), os.getsid(0) == os.getpid())\n\
        with open('/dev/tty', 'w') as tty: print('to the terminal', file=tty)\n\
        print(sorted(os.listdir('/dev/pts')))\n\
        try: fcntl.ioctl(0, termios.TIOCSTI, b'x')\n\
        except OSError as error: print('TIOCSTI', error.errno)\n";
    let stdin = Stdin::Bytes(vec![]);
    session.start_work(on_terminal(&["python3", "-c", facts], stdin), vec![], &[]);
    let outcome = session.finish();
    let expected = "[True, True, True] os.terminal_size(columns=100, lines=30) /dev/pts/0\r\n\
        True True\r\nto the terminal\r\n['0', 'ptmx']\r\nTIOCSTI 1\r\n";
    assert_eq!(outcome.text(), (expected, ""));
    // The control: without one there is none.
    let outcome = session.shell("[ -t 0 ] || echo no terminal; echo x > /dev/tty");
    assert_eq!(outcome.text().0, "no terminal\n");
}

#[test]
fn keys_are_echoed_and_interrupt_and_end_the_input() {
    let mut session = Session::launch(policy()).unwrap();
    let mut shell = Typed::start(&mut session, &["/bin/sh", "-i"]);
    shell.types("echo $((6 * 7))\n");
    shell.waits_for(&mut session, "42");
    shell.types("cat\n");
    shell.types("once\n");
    shell.waits_for_each(&mut session, "once\r\n", 2);
    shell.types("\u{4}"); // Ctrl-D ends cat, and not the shell.
    // What runs says so itself: before it does, the shell may still be the one that is interrupted.
    let patient = "import signal; print(6 * 7, flush=True); signal.pause()";
    shell.types(&format!("python3 -c '{patient}'\n"));
    shell.waits_for(&mut session, "42");
    shell.types("\u{3}"); // Ctrl-C
    shell.waits_for(&mut session, "KeyboardInterrupt");
    let execution = shell.execution;
    session.send(&ToAgent::Resize { execution, size: WindowSize { columns: 77, rows: 11 } });
    shell.types("stty size\n");
    shell.waits_for(&mut session, "11 77");
    shell.types("exit 3\n");
    assert_eq!(session.finish_of(execution).completion, Some(Completion::Exited(3)));
    // The end of what is typed ends it, too.
    let cat = Typed::start(&mut session, &["cat"]);
    let execution = cat.execution;
    drop(cat);
    assert_eq!(session.finish_of(execution).completion, Some(Completion::Exited(0)));
}

#[test]
fn tenant_code_makes_terminals_of_its_own_and_sees_no_others() {
    let mut session = Session::launch(policy()).unwrap();
    let code = "import os, pty\n\
        pid, fd = pty.fork()\n\
        if not pid: os.execvp('sh', ['sh', '-c', 'tty; [ -t 0 ] && echo inside'])\n\
        shown = b''\n\
        while True:\n\
        \x20   try: data = os.read(fd, 100)\n\
        \x20   except OSError: break\n\
        \x20   if not data: break\n\
        \x20   shown += data\n\
        os.waitpid(pid, 0); os.close(fd); shown";
    let outcome = session.execute(code);
    assert_eq!(outcome.repr.as_deref(), Some(r"b'/dev/pts/0\r\ninside\r\n'"), "{outcome:?}");
    let many = "import os\nheld = []\n\
        try:\n\
        \x20   while len(held) < 1000: held.append(os.openpty())\n\
        except OSError as error: failed = error.errno\n\
        len(held) <= 64, failed";
    let outcome = session.execute(many);
    assert_eq!(outcome.repr.as_deref(), Some("(True, 28)"), "{outcome:?}");
    // Without one to give, a command says so, and the session goes on.
    session.start_work(on_terminal(&["true"], Stdin::Bytes(vec![])), vec![], &[]);
    let outcome = session.finish();
    assert_eq!(outcome.completion, Some(Completion::Exited(126)));
    assert!(outcome.text().1.contains("no terminal"), "{:?}", outcome.text());
    let outcome = session.execute("for pair in held:\n    for fd in pair: os.close(fd)\n'closed'");
    assert_eq!(outcome.repr.as_deref(), Some("'closed'"));
    session.start_work(on_terminal(&["true"], Stdin::Bytes(vec![])), vec![], &[]);
    assert_eq!(session.finish().completion, Some(Completion::Exited(0)));
}
