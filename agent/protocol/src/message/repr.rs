//! How far the repr of a value is written out.

use serde::{Deserialize, Serialize};

/// What a repr has at most. The whole is bounded anyway, by the limits of a session's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReprLimits {
    /// Elements of each container.
    pub max_items: u32,
    /// Characters, the note that some are missing included.
    pub max_chars: u32,
    /// Containers inside each other.
    pub max_depth: u32,
}

impl ReprLimits {
    /// As IPython has it (`max_seq_length`).
    pub const IPYTHON: Self = Self { max_items: 1000, max_chars: u32::MAX, max_depth: u32::MAX };
}
