//! The leaves of a session's cgroup that its processes start in, and the contexts they are named after.

use serde::{Deserialize, Serialize};

use crate::message::ExecutionNumber;

/// Number of a context, a kernel with a queue of its own, within its session; never reused.
pub type ContextNumber = u32;

/// The context that every session has.
pub const FIRST_CONTEXT: ContextNumber = 0;

/// A leaf below the session's `kernel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leaf {
    /// Of a context's kernel; in the first context's are commands, too.
    Context(ContextNumber),
    /// Of one command, by its execution.
    Command(ExecutionNumber),
}

impl Leaf {
    /// The leaf of the context that every session has.
    pub const FIRST: Self = Self::Context(FIRST_CONTEXT);

    /// The name of its directory.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Context(number) => format!("context-{number}"),
            Self::Command(execution) => format!("command-{execution}"),
        }
    }
}
