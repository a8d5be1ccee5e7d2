//! What the configuration uses of the engine.

mod floor;

pub(crate) use floor::too_low;

/// As `supervisor/src/engine/request.rs` has it.
pub fn is_plain_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
