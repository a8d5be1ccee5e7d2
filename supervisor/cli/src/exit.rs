//! Exit codes, and why a command failed.

use std::error::Error;
use std::process::ExitCode;

use vivarium_protocol::error_chain;

/// How a command ends. Documented in `vivarium --help` and docs/command-line.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Ok,
    /// An exception, or an error that is none of the others.
    Error,
    /// Wrong usage or configuration.
    Usage,
    /// No sandbox, no daemon, no room.
    Unavailable,
    /// The time was up. As `timeout(1)`.
    TimedOut,
    /// As a shell reports SIGINT.
    Interrupted,
    /// As a shell reports SIGKILL.
    Killed,
    /// The argument of `sys.exit()`.
    Code(u8),
}

impl Exit {
    /// Whether code came to its end by itself, with success or not.
    pub(super) const fn is_by_itself(self) -> bool {
        matches!(self, Self::Ok | Self::Error | Self::Code(_))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 3,
            Exit::TimedOut => 124,
            Exit::Interrupted => 130,
            Exit::Killed => 137,
            Exit::Code(code) => code,
        })
    }
}

#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// The message is the chain of `error`.
    pub(super) fn new(exit: Exit, error: &dyn Error) -> Self {
        Self { exit, message: error_chain(error) }
    }

    pub(super) fn says(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Without a message: the reader is gone, or the error has been printed.
    pub(super) const fn quiet(exit: Exit) -> Self {
        Self { exit, message: String::new() }
    }

    /// Empty if the error has been printed.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) const fn exit(&self) -> Exit {
        self.exit
    }
}
