//! MIME bundles as the API has them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vivarium_api_types::{MimeBundle, ValueInfo, is_text};
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

pub(super) fn describe(value: Value) -> ValueInfo {
    let mime = bundle(&value.mime);
    ValueInfo { repr: value.repr, type_name: value.type_name, mime }
}

/// Bytes of a bundle as it came.
pub(super) fn bytes(parts: &[MimePart]) -> usize {
    parts.iter().map(|part| part.mime_type.len() + part.data.len()).sum()
}
