//! Why a session is not suspended.

use std::fmt;

use vivarium_metrics::families::images::ObstacleKind;

/// What keeps a session from being suspended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    pub kind: ObstacleKind,
    /// What it is, and what to do about it.
    pub text: String,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
