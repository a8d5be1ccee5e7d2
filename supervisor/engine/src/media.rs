//! Which MIME type a file has: by its name's extension, and where that says nothing by how its
//! content begins. Both from tables of crates that are kept for that.
//!
//! It is a hint for whoever shows the file. Nothing here decides by it, and nobody else should.

/// What is known of nothing: RFC 2046, 4.5.1.
pub const UNKNOWN: &str = "application/octet-stream";

pub fn of_name(name: &str) -> &'static str {
    mime_guess::from_path(name).first_raw().unwrap_or(UNKNOWN)
}

/// By the name's extension; else by the content, of which the beginning is enough.
pub fn of_file(name: &str, content: &[u8], is_text: bool) -> &'static str {
    let by_name = mime_guess::from_path(name).first_raw();
    let by_content = || infer::get(content).map(|kind| kind.mime_type());
    let plain = if is_text { "text/plain" } else { UNKNOWN };
    by_name.or_else(by_content).unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mime_type_comes_from_name_then_content() {
        assert_eq!(of_name("a/b.CSV"), "text/csv");
        assert_eq!(of_name("plot.png"), "image/png");
        assert_eq!(of_name("LICENSE"), UNKNOWN);
        assert_eq!(of_file("data.json", b"\x89PNG\r\n\x1a\n", false), "application/json");
        assert_eq!(of_file("plot", b"\x89PNG\r\n\x1a\n", false), "image/png");
        assert_eq!(of_file("notes", b"hello", true), "text/plain");
        assert_eq!(of_file("blob", b"\xff\0", false), UNKNOWN);
    }
}
