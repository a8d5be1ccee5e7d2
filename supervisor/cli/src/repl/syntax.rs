//! Where strings, comments, numbers and keywords are in Python code, for its colours.

use std::ops::Range;

/// Python's keywords, soft ones left out: they are names as often as not.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    Keyword,
    String,
    Number,
    Comment,
    Other,
}

/// The tokens of code by their bytes, without blanks.
pub(super) fn tokens(code: &str) -> Vec<(Range<usize>, TokenKind)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = code.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = code.get(at..).unwrap_or_default();
        let (length, kind) = match c {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '#' => (rest.find('\n').unwrap_or(rest.len()), TokenKind::Comment),
            '"' | '\'' => (string(rest), TokenKind::String),
            c if c.is_alphabetic() || c == '_' => {
                let length = word(rest);
                let name = rest.get(..length).unwrap_or_default();
                let after = rest.get(length..).unwrap_or_default();
                let is_prefix = length <= 2 && name.chars().all(|c| "rRbBuUfFtT".contains(c));
                if is_prefix && after.starts_with(['"', '\'']) {
                    (length + string(after), TokenKind::String)
                } else if KEYWORDS.contains(&name) {
                    (length, TokenKind::Keyword)
                } else {
                    (length, TokenKind::Other)
                }
            }
            c if c.is_ascii_digit() => (number(rest), TokenKind::Number),
            c => (c.len_utf8(), TokenKind::Other),
        };
        tokens.push((at..at + length, kind));
        at += length;
    }
    tokens
}

/// The length of the string at the beginning of `text`.
fn string(text: &str) -> usize {
    let quote = text.get(..1).unwrap_or_default();
    let triple = quote.repeat(3);
    let (end, mut at) = if text.starts_with(&triple) { (&*triple, 3) } else { (quote, 1) };
    let is_triple = at == 3;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(end) {
            return at + end.len();
        }
        match rest.chars().next() {
            // Also in a raw string, where the backslash stays.
            Some('\\') => at += 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            Some('\n') if !is_triple => return at,
            c => at += c.map_or(1, char::len_utf8),
        }
    }
    text.len()
}

fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// The length of a number, with what may stand in one.
fn number(text: &str) -> usize {
    let mut before = ' ';
    text.find(|c: char| {
        let is_sign = (c == '+' || c == '-') && before.eq_ignore_ascii_case(&'e');
        before = c;
        !(c.is_alphanumeric() || c == '_' || c == '.' || is_sign)
    })
    .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_have_the_kind_that_python_gives_them() {
        let code = "for x in rb'a#': # c\n 1.5e-3+0xff";
        let found: Vec<_> =
            tokens(code).into_iter().map(|(range, kind)| (&code[range], kind)).collect();
        assert_eq!(
            found,
            [
                ("for", TokenKind::Keyword),
                ("x", TokenKind::Other),
                ("in", TokenKind::Keyword),
                ("rb'a#'", TokenKind::String),
                (":", TokenKind::Other),
                ("# c", TokenKind::Comment),
                ("1.5e-3", TokenKind::Number),
                ("+", TokenKind::Other),
                ("0xff", TokenKind::Number),
            ]
        );
    }

    proptest! {
        #[test]
        fn tokens_are_in_order_and_on_character_boundaries(code: String) {
            let mut end = 0;
            for (range, _) in tokens(&code) {
                prop_assert!(end <= range.start && range.start < range.end);
                prop_assert!(code.get(range.clone()).is_some());
                end = range.end;
            }
            prop_assert!(end <= code.len());
        }
    }
}
