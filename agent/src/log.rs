//! The supervisor's log, which is standard error.

use std::fmt::Display;
use std::io::Write;

/// Prints a line by one write(2): other processes may have the same standard error. Nothing can be
/// done about one that is closed.
pub(crate) fn print_line(line: &dyn Display) {
    let _unread = std::io::stderr().write_all(format!("{line}\n").as_bytes()).is_err();
}
