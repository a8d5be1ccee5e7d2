//! A program in a terminal of a test's own: keys go in, and what a person would see is looked at.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};

use nix::pty::{Winsize, openpty};

use crate::wait;

/// Its size.
const ROWS: NonZeroU16 = NonZeroU16::new(40).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(120).unwrap();

/// A program that takes a terminal for its own.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keys: File,
    shared: Arc<Mutex<Shared>>,
}

/// What the program has written.
struct Shared {
    screen: vt100::Parser,
    raw: Vec<u8>,
    /// Whether the program has closed the terminal.
    is_closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.screen.screen().contents())
    }
}

impl Terminal {
    /// Runs `command` in a new terminal, which is its controlling one (setsid(1), `--ctty`).
    #[must_use]
    pub fn run(command: &Command) -> Self {
        let (ws_row, ws_col) = (ROWS.get(), COLUMNS.get());
        let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let mut session = Command::new("/usr/bin/setsid");
        // It executes the program in its place: the pid stays the same.
        session.arg("--ctty").arg(command.get_program()).args(command.get_args());
        session.env_clear().env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                session.env(name, value);
            }
        }
        if let Some(dir) = command.get_current_dir() {
            session.current_dir(dir);
        }
        let slave = || -> OwnedFd { pty.slave.try_clone().unwrap() };
        let child = session.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
        drop(session);
        drop(pty.slave);
        let keys = File::from(pty.master);
        let screen = vt100::Parser::new(ROWS, COLUMNS, 0);
        let shared = Arc::new(Mutex::new(Shared { screen, raw: Vec::new(), is_closed: false }));
        let (mut reader, to) = (keys.try_clone().unwrap(), Arc::clone(&shared));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // EIO when nobody has the other side open any more (pty(7)).
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let mut shared = to.lock().unwrap_or_else(PoisonError::into_inner);
                shared.screen.process(&buffer[..count]);
                shared.raw.extend_from_slice(&buffer[..count]);
            }
            to.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        });
        Self { child, keys, shared }
    }

    /// Presses keys.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and ends it.
    pub fn line(&mut self, line: &str) {
        self.keys(&format!("{line}\r"));
    }

    /// What is on the screen.
    #[must_use]
    pub fn screen(&self) -> String {
        self.with(|shared| shared.screen.screen().contents())
    }

    /// Everything that the program has written, with all its sequences.
    #[must_use]
    pub fn raw(&self) -> String {
        self.with(|shared| String::from_utf8_lossy(&shared.raw).into_owned())
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    pub fn wait(&mut self, what: &str, mut condition: impl FnMut(&str) -> bool) {
        let ended = wait::until(what, || {
            if condition(&self.screen()) {
                return Some(None);
            }
            let is_closed = self.with(|shared| shared.is_closed);
            let ended = self.child.try_wait().unwrap();
            // What it wrote last may still have been on its way.
            (is_closed && !condition(&self.screen())).then_some(ended)
        });
        assert!(ended.is_none(), "{what}: it ended, {ended:?}\n{}", self.raw());
    }

    /// Waits until this can be read on the screen.
    #[track_caller]
    pub fn sees(&mut self, text: &str) {
        self.wait(&format!("{text:?} on the screen"), |screen| screen.contains(text));
    }

    /// Waits until the last line with anything in it begins like this: it is a prompt.
    #[track_caller]
    pub fn sees_prompt(&mut self, prompt: &str) {
        self.wait(&format!("the prompt {prompt:?}"), |screen| {
            screen
                .trim_end()
                .lines()
                .last()
                .is_some_and(|line| line.trim_end() == prompt.trim_end())
        });
    }

    /// Waits until the program ends and all it wrote is here.
    #[track_caller]
    pub fn wait_end(&mut self) -> ExitStatus {
        let status = wait::until("the program's end", || self.child.try_wait().unwrap());
        wait::until_true("its last words", || self.with(|shared| shared.is_closed));
        status
    }

    /// The program's pid.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn with<T>(&self, look: impl FnOnce(&Shared) -> T) -> T {
        look(&self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the screen ---\n{}\n--- all ---\n{:?}", self.screen(), self.raw());
        }
        if self.child.try_wait().unwrap().is_none() {
            let _gone = self.child.kill().is_err();
            let _gone = self.child.wait().is_err();
        }
    }
}
