//! What is wrong with what a kernel has sent.

use vivarium_protocol::frame::TooLarge;

/// Why a kernel is not to be believed any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the kernel announced a frame of {} bytes, and {} is the most", .0.len, .0.max)]
    TooLong(#[from] TooLarge),
    #[error("the kernel sent an empty frame")]
    Empty,
    #[error("the kernel sent a frame of unknown type {0}")]
    UnknownType(u8),
    #[error("the kernel's {frame} frame ends within its {field}")]
    Short { frame: &'static str, field: &'static str },
    #[error("the kernel's {frame} frame has a {field} of {len}, and {max} is the most")]
    TooLarge { frame: &'static str, field: &'static str, len: usize, max: usize },
    #[error("the kernel's {frame} frame has a {field} that is not UTF-8")]
    NotText { frame: &'static str, field: &'static str },
    #[error("the kernel's {frame} frame has {len} bytes after its end")]
    Trailing { frame: &'static str, len: usize },
    #[error("the kernel sent the unknown completion {0}")]
    UnknownCompletion(u8),
    #[error("the kernel sent a display of unknown kind {0}")]
    UnknownDisplayKind(u8),
    #[error("the kernel sent an account that is none: {0}")]
    BadAccount(String),
    #[error("the kernel sent {0} with what no policy of that asks for")]
    Unasked(String),
    #[error("the kernel sent {frame} while {phase}")]
    OutOfTurn { frame: String, phase: String },
}
