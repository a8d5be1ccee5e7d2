//! Which protocol a terminal has: by the variables that it sets, else by what it answers.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{self, SetArg, Termios};

use super::Protocol;

/// How long a terminal may take to answer. One across the network takes its round trip.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// The longest answer that is read.
const MAX_ANSWER_BYTES: usize = 256;

/// Asks for the primary device attributes (DA1). Every terminal answers.
const QUESTION: &[u8] = b"\x1b[c";

/// Finds out. Nobody else may be reading the terminal.
pub(crate) fn detect() -> Protocol {
    by_variables(|name| std::env::var(name).ok()).unwrap_or_else(|| {
        let answer = ask().unwrap_or_else(|error| {
            tracing::debug!(%error, "the terminal can not be asked");
            Vec::new()
        });
        if has_sixel(&answer) { Protocol::Sixel } else { Protocol::Files }
    })
}

/// What the variables of a terminal say, if they say it.
fn by_variables(get: impl Fn(&str) -> Option<String>) -> Option<Protocol> {
    let term = get("TERM").unwrap_or_default();
    // A multiplexer is the terminal, and the variables of the one around it are still set.
    if get("TMUX").is_some() || term.starts_with("screen") || term.starts_with("tmux") {
        return None;
    }
    if term == "dumb" || term.is_empty() || term == "linux" {
        return Some(Protocol::Files);
    }
    if get("KITTY_WINDOW_ID").is_some() || ["xterm-kitty", "xterm-ghostty"].contains(&&*term) {
        return Some(Protocol::Kitty);
    }
    match get("TERM_PROGRAM").as_deref() {
        Some("ghostty" | "WezTerm") => Some(Protocol::Kitty),
        Some("iTerm.app" | "vscode" | "mintty") => Some(Protocol::ITerm2),
        Some("Apple_Terminal") => Some(Protocol::Files),
        _ => None,
    }
}

/// Whether an answer to DA1, `CSI ? Ps ; … c`, has attribute 4: sixel graphics.
fn has_sixel(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let attributes = text.split_once("\x1b[?").and_then(|(_, rest)| rest.split_once('c'));
    attributes.is_some_and(|(attributes, _)| attributes.split(';').any(|one| one == "4"))
}

/// The terminal in a mode in which an answer is neither shown nor waits for a line's end.
struct Quiet<'a> {
    terminal: &'a File,
    before: Termios,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // There is nothing else to put it back with.
        termios::tcsetattr(self.terminal, SetArg::TCSANOW, &self.before).unwrap_or_default();
    }
}

fn ask() -> std::io::Result<Vec<u8>> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let before = termios::tcgetattr(&terminal)?;
    let mut mode = before.clone();
    termios::cfmakeraw(&mut mode);
    termios::tcsetattr(&terminal, SetArg::TCSADRAIN, &mode)?;
    let quiet = Quiet { terminal: &terminal, before };
    (&terminal).write_all(QUESTION)?;
    let deadline = Instant::now() + ANSWERS_WITHIN;
    let mut answer = Vec::new();
    while !answer.ends_with(b"c") && answer.len() < MAX_ANSWER_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut ready = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
        if left.is_zero() || poll(&mut ready, timeout)? == 0 {
            break;
        }
        let mut byte = [0];
        if (&terminal).read(&mut byte)? == 0 {
            break;
        }
        answer.extend(byte);
    }
    drop(quiet);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(variables: &[(&str, &str)]) -> Option<Protocol> {
        by_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn terminals_are_known_by_what_they_set() {
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(by(&[("TERM", "xterm-kitty")]), Some(Protocol::Kitty));
        assert_eq!(by(&[xterm, ("KITTY_WINDOW_ID", "1")]), Some(Protocol::Kitty));
        assert_eq!(by(&[xterm, ("TERM_PROGRAM", "WezTerm")]), Some(Protocol::Kitty));
        assert_eq!(by(&[xterm, ("TERM_PROGRAM", "iTerm.app")]), Some(Protocol::ITerm2));
        assert_eq!(by(&[xterm, ("TERM_PROGRAM", "vscode")]), Some(Protocol::ITerm2));
        assert_eq!(by(&[("TERM", "linux")]), Some(Protocol::Files));
        assert_eq!(by(&[]), Some(Protocol::Files));
        assert_eq!(by(&[xterm]), None);
        assert_eq!(by(&[("TERM", "tmux-256color"), ("KITTY_WINDOW_ID", "1")]), None);
        assert_eq!(by(&[xterm, ("TMUX", "/x"), ("TERM_PROGRAM", "iTerm.app")]), None);
    }

    #[test]
    fn sixel_is_attribute_four() {
        assert!(has_sixel(b"\x1b[?62;4;6c"));
        assert!(has_sixel(b"typed ahead\x1b[?4c"));
        assert!(!has_sixel(b"\x1b[?64;14;40c"));
        assert!(!has_sixel(b"\x1b[?62;4"));
        assert!(!has_sixel(b""));
    }
}
