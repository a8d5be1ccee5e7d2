//! Which content is told as text.

/// Whether content of this type is told as text; everything else is in base64.
#[must_use]
pub fn is_text(mime_type: &str) -> bool {
    let kind = mime_type.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(kind, "application/json" | "application/javascript" | "application/xml")
}
