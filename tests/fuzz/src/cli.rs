//! What of the command line shows what others wrote.

mod escape;
mod filter;

/// What may be shown of these pieces of one stream, and what ends it.
pub fn filter(pieces: &[&str]) -> (String, String) {
    let (mut filter, mut shown) = (filter::Filter::default(), String::new());
    for piece in pieces {
        filter.pass(piece, &mut shown);
    }
    (shown, filter.finish())
}

/// Text without anything that a terminal obeys.
pub fn escape(text: &str) -> String {
    escape::escape(text).into_owned()
}

/// The same for JSON.
pub fn escape_json(text: &str) -> String {
    escape::escape_json(text).into_owned()
}
