//! The supervisor's log, which is standard error.

use std::fmt::Display;
use std::io::Write;

use vivarium_protocol::discard;

/// Prints a line by one write(2): other processes may have the same standard error.
pub(crate) fn print_line(line: &dyn Display) {
    discard(std::io::stderr().write_all(format!("{line}\n").as_bytes()), "nobody reads the log");
}
