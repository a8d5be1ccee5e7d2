//! What bounds calls of clients' functions.

use std::time::Duration;

/// The bounds of calls, as they are configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallBounds {
    /// Time in which a call has to be answered, unless its tool says otherwise.
    pub timeout: Duration,
    /// The most that a tool may say.
    pub max_timeout: Duration,
    /// The most that one execution may wait for all its calls.
    pub max_wait: Duration,
    /// The most calls of one execution.
    pub max_calls: u64,
}
