//! What ids of sessions and names of tenants are made of.

/// The longest id and tenant name, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 64;

/// Whether this can be the id of a session: nothing that means something in a path or a URL.
pub fn is_valid_id(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
