//! Messages to and from `vivarium-agent range`, which makes the user namespace that holds the daemon's
//! subordinate ids.

use serde::{Deserialize, Serialize};

use super::Failure;

/// Supervisor to `vivarium-agent range`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateIdNamespace {
    /// [`crate::PROTOCOL_VERSION`] of the supervisor.
    pub protocol_version: u32,
    /// Host ids, first and last of each range, for users and groups alike.
    pub ranges: Vec<(u32, u32)>,
}

/// `vivarium-agent range` to supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromIdNamespace {
    /// This process is in the namespace until the socket is closed.
    Created {
        /// Its pid.
        pid: u32,
    },
    /// The namespace could not be made.
    Failed(Failure),
}
