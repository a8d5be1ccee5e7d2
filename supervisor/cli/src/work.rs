//! What is asked to be run: code, or a command.

use vivarium_api_types::{CommandRequest, ExecuteRequest};

/// One of the two.
#[derive(Debug, Clone)]
pub(super) enum Work {
    /// Python.
    Code(ExecuteRequest),
    /// A program.
    Command(CommandRequest),
}

impl Work {
    /// Only this code.
    pub(super) fn code(code: String) -> Self {
        Self::Code(ExecuteRequest { code, ..ExecuteRequest::default() })
    }

    /// The last part of its path.
    pub(super) const fn route(&self) -> &'static str {
        match self {
            Self::Code(_) => "execute",
            Self::Command(_) => "commands",
        }
    }

    /// Its request.
    pub(super) fn json(&self) -> Result<Vec<u8>, serde_json::Error> {
        match self {
            Self::Code(code) => serde_json::to_vec(code),
            Self::Command(command) => serde_json::to_vec(command),
        }
    }
}
