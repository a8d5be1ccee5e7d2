//! What is wrong with what a kernel has sent.

/// Why a kernel is not to be believed any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// A frame that is longer than any may be.
    #[error("the kernel announced a frame of {len} bytes, and {max} is the most")]
    TooLong {
        /// How long it is said to be.
        len: usize,
        /// How long it may be.
        max: usize,
    },
    /// A frame without as much as a type.
    #[error("the kernel sent an empty frame")]
    Empty,
    /// A type that does not exist.
    #[error("the kernel sent a frame of unknown type {0}")]
    UnknownType(u8),
    /// A frame that ends within a field.
    #[error("the kernel's {frame} frame ends within its {field}")]
    Short {
        /// Which frame.
        frame: &'static str,
        /// Which field.
        field: &'static str,
    },
    /// A field that is larger than it may be.
    #[error("the kernel's {frame} frame has a {field} of {len}, and {max} is the most")]
    TooLarge {
        /// Which frame.
        frame: &'static str,
        /// Which field.
        field: &'static str,
        /// Its size or count.
        len: usize,
        /// The most it may be.
        max: usize,
    },
    /// A string that is not UTF-8.
    #[error("the kernel's {frame} frame has a {field} that is not UTF-8")]
    NotText {
        /// Which frame.
        frame: &'static str,
        /// Which field.
        field: &'static str,
    },
    /// A frame with more after its last field.
    #[error("the kernel's {frame} frame has {len} bytes after its end")]
    Trailing {
        /// Which frame.
        frame: &'static str,
        /// How many.
        len: usize,
    },
    /// A completion that does not exist.
    #[error("the kernel sent the unknown completion {0}")]
    UnknownCompletion(u8),
    /// A kind of display that does not exist.
    #[error("the kernel sent a display of unknown kind {0}")]
    UnknownDisplayKind(u8),
    /// A frame that may not come now.
    #[error("the kernel sent {frame} while {phase}")]
    OutOfTurn {
        /// What came.
        frame: String,
        /// What it was doing.
        phase: String,
    },
}
