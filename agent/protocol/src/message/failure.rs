//! Failures of a session, and whether they may pass.

use serde::{Deserialize, Serialize};

use crate::layer::Layer;

/// Why a session could not be made, or could not go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}{operation}: {reason}", layer.map(|layer| format!("{layer}: ")).unwrap_or_default())]
pub struct Failure {
    /// The layer that did not apply, if it was one.
    pub layer: Option<Layer>,
    /// What was tried.
    pub operation: String,
    /// What went wrong.
    pub reason: String,
    /// What an operator can do.
    pub fix: String,
    /// Why another try may succeed; `None` if nothing says so.
    pub transient: Option<Transient>,
}

impl Failure {
    /// A failure that is no layer's, and of which nothing else is known.
    pub fn new(operation: impl Into<String>, reason: impl Into<String>) -> Self {
        let (operation, reason) = (operation.into(), reason.into());
        Self { layer: None, operation, reason, fix: String::new(), transient: None }
    }
}

/// Why a failure may pass by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transient {
    /// The process or the host has no descriptor left: `EMFILE`, `ENFILE`.
    Descriptors,
    /// The host has no memory left: `ENOMEM`.
    Memory,
    /// The host or the daemon may have no more processes: `EAGAIN` of fork(2) and clone(2).
    Processes,
    /// The session's processes ended without a message, as when they are killed.
    Killed,
}

impl Transient {
    /// By an errno of any system call: the same numbers on all of Linux (errno(3)).
    #[must_use]
    pub const fn of(errno: i32) -> Option<Self> {
        match errno {
            12 => Some(Self::Memory),
            23 | 24 => Some(Self::Descriptors),
            _ => None,
        }
    }

    /// By an errno of fork(2) or clone(2).
    #[must_use]
    pub const fn of_fork(errno: i32) -> Option<Self> {
        match errno {
            11 => Some(Self::Processes),
            other => Self::of(other),
        }
    }
}
