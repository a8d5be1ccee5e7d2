//! The leaves of a session's cgroup that its processes start in, and the contexts they are named after.

use serde::{Deserialize, Serialize};

/// Number of a context, a kernel with a queue of its own, within its session; never reused.
pub type ContextNumber = u32;

/// The context that every session has.
pub const FIRST_CONTEXT: ContextNumber = 0;

/// A leaf below the session's `kernel`.
///
/// Each is for one kernel, and goes with it: where fork(2) tells that it has crossed a write to
/// `cgroup.kill` (Linux 6.14, and what that was brought back to), a process that is to start in a
/// cgroup by `CLONE_INTO_CGROUP` is killed if anything was ever written there, and nothing in the
/// parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leaf {
    /// Of a kernel; in those of the first context are commands, too.
    Kernel {
        /// Its context.
        context: ContextNumber,
        /// How many leaves the context has had before.
        before: u32,
    },
    /// Of one command, by its execution.
    Command(u64),
}

impl Leaf {
    /// The first leaf of a session.
    pub const FIRST: Self = Self::first_of(FIRST_CONTEXT);

    /// The first leaf of a context.
    #[must_use]
    pub const fn first_of(context: ContextNumber) -> Self {
        Self::Kernel { context, before: 0 }
    }

    /// The name of its directory.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Kernel { context, before } => format!("context-{context}-{before}"),
            Self::Command(execution) => format!("command-{execution}"),
        }
    }
}
