//! What users see: the command line in a terminal, and what it puts into files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod contexts;
mod exec;
mod files;
mod hostile;
mod images;
mod keyboard;
mod piped;
mod repl;
mod scripts;
mod sessions;
mod shell;
mod shells;
mod top;
mod untrusted;

use std::path::Path;
use std::process::Command;

use vivarium_tests::program::{self, Runner};
use vivarium_tests::{Daemon, Terminal};

/// `vivarium` with these arguments, and `dir` as its home.
fn vivarium(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = program::vivarium(&Runner::Self_, dir);
    command.args(arguments).current_dir(dir);
    command
}

/// A session at the keyboard, in a process of its own, without colours.
fn repl(dir: &Path, arguments: &[&str]) -> Terminal {
    let config = program::config(dir, "[session]\ninterrupt_grace = \"300ms\"");
    let mut command = vivarium(dir, &["repl", "--config", &config]);
    command.args(arguments).env("NO_COLOR", "1");
    let mut terminal = Terminal::run(&command);
    terminal.sees_prompt("In [1]:");
    terminal
}

/// The URL of a daemon.
fn url(daemon: &Daemon) -> String {
    format!("unix:{}/api.sock", daemon.dir().display())
}

/// An object that has a picture, and the picture's bytes.
const PICTURE: &str = "
import base64
class Picture:
    def __repr__(self): return 'a picture'
    def _repr_png_(self):
        return base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==')
";
