//! What agent and supervisor both know of a kernel's image (`agent/src/image/format.rs`).

/// How a whole image ends.
pub const END: [u8; 8] = *b"complete";
