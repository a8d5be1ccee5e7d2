//! What is said to and by `vivarium-agent range`, which makes the user namespace that holds the
//! whole range of subordinate ids.

use serde::{Deserialize, Serialize};

use super::Failure;

/// The supervisor's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeOrder {
    /// [`crate::PROTOCOL_VERSION`] of the supervisor.
    pub protocol_version: u32,
    /// Host ids, first and last of each range, for users and groups alike.
    pub ranges: Vec<(u32, u32)>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromRange {
    /// This process is in the namespace until the socket is closed.
    Made {
        /// Its pid.
        pid: u32,
    },
    /// There is none.
    Failed(Failure),
}
