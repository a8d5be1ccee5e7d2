//! Escapes whatever a terminal would obey.

use std::borrow::Cow;

/// `text` with its control characters, but for line feeds and tabs, in Python's notation, and so
/// what changes the direction of text or cannot be seen (Unicode TR36, 3.1 and 3.3).
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        push_escaped(c, &mut escaped);
    }
    Cow::Owned(escaped)
}

/// Appends one character, escaped if need be.
pub(super) fn push_escaped(c: char, escaped: &mut String) {
    match u32::from(c) {
        _ if !is_obeyed(c) => escaped.push(c),
        code @ 0..=0xff => escaped.push_str(&format!("\\x{code:02x}")),
        code => escaped.push_str(&format!("\\u{code:04x}")),
    }
}

/// The same for JSON, in JSON's own notation: such characters are only in its strings.
pub(crate) fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_obeyed) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_obeyed(c) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

fn is_obeyed(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{061c}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_escaped() {
        assert!(matches!(escape("plain é 日本\n\t"), Cow::Borrowed(_)));
        assert_eq!(escape("a\x1b]0;t\x07\r\x7f"), "a\\x1b]0;t\\x07\\x0d\\x7f");
        assert_eq!(escape("\u{9b}31m"), "\\x9b31m");
        assert_eq!(escape("x\u{202e}gpj.exe"), "x\\u202egpj.exe");
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({"a": "\u{9b}31m\u{7f}\u{202e}\n\t\u{1b}é"});
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        let escaped = escape_json(&text);
        assert!(!escaped.chars().any(is_obeyed), "{escaped:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).ok(), Some(value));
    }
}
