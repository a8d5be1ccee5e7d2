//! What is wrong with what a kernel has sent.

/// Why a kernel is not to be believed any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// A frame that is longer than any may be.
    #[error("the kernel announced a frame of {len} bytes, and {max} is the most")]
    TooLong { len: usize, max: usize },
    /// A frame without as much as a type.
    #[error("the kernel sent an empty frame")]
    Empty,
    /// A type that does not exist.
    #[error("the kernel sent a frame of unknown type {0}")]
    UnknownType(u8),
    /// A frame that ends within a field.
    #[error("the kernel's {frame} frame ends within its {field}")]
    Short { frame: &'static str, field: &'static str },
    /// A field that is larger than it may be.
    #[error("the kernel's {frame} frame has a {field} of {len}, and {max} is the most")]
    TooLarge { frame: &'static str, field: &'static str, len: usize, max: usize },
    /// A string that is not UTF-8.
    #[error("the kernel's {frame} frame has a {field} that is not UTF-8")]
    NotText { frame: &'static str, field: &'static str },
    /// A frame with more after its last field.
    #[error("the kernel's {frame} frame has {len} bytes after its end")]
    Trailing { frame: &'static str, len: usize },
    /// A completion that does not exist.
    #[error("the kernel sent the unknown completion {0}")]
    UnknownCompletion(u8),
    /// A kind of display that does not exist.
    #[error("the kernel sent a display of unknown kind {0}")]
    UnknownDisplayKind(u8),
    /// A frame that may not come now.
    #[error("the kernel sent {frame} while {phase}")]
    OutOfTurn { frame: String, phase: String },
}
