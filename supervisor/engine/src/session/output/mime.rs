//! MIME bundles as the API has them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vivarium_api_types::{MimeBundle, Sizes, ValueInfo, is_text};
use vivarium_protocol::outcome::{MimePart, Value};

/// Text as it is, everything else in base64.
pub(in crate::session) fn encode(part: &MimePart) -> String {
    if is_text(&part.mime_type) {
        String::from_utf8_lossy(&part.data).into_owned()
    } else {
        STANDARD.encode(&part.data)
    }
}

pub fn bundle(parts: &[MimePart]) -> MimeBundle {
    parts.iter().map(|part| (part.mime_type.clone(), encode(part))).collect()
}

pub fn sizes(parts: &[MimePart]) -> Sizes {
    parts.iter().map(|part| (part.mime_type.clone(), part.data.len() as u64)).collect()
}

pub(super) fn describe(value: Value) -> ValueInfo {
    ValueInfo {
        size_bytes: value.repr.len() as u64,
        sizes: sizes(&value.mime),
        mime: bundle(&value.mime),
        repr: value.repr,
        type_name: value.type_name,
    }
}

/// Bytes of a bundle as it came.
pub(super) fn bytes(parts: &[MimePart]) -> usize {
    parts.iter().map(|part| part.mime_type.len() + part.data.len()).sum()
}
