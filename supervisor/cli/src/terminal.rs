//! Protects a person's terminal from tenant code.
//!
//! A terminal obeys what is printed to it: it can be made to send keys to the shell, to change
//! the clipboard or its title, or to show other text than there is. So everything that tenant code
//! influences passes through here: its output through [`Filter`], everything else (values,
//! tracebacks, names) through [`escape()`].

mod escape;
mod filter;
#[cfg(feature = "interactive")]
mod screen;

use std::io::IsTerminal;

pub(super) use escape::{escape, escape_json};
pub(super) use filter::Filter;
#[cfg(feature = "interactive")]
pub(super) use screen::ScreenFilter;

/// Which of our streams are terminals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terminals {
    pub(super) stdout: bool,
    pub(super) stderr: bool,
}

impl Terminals {
    pub(super) fn look() -> Self {
        Self { stdout: std::io::stdout().is_terminal(), stderr: std::io::stderr().is_terminal() }
    }
}
