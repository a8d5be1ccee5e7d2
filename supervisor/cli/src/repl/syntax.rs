//! As much of Python's syntax as an editor needs: where strings, comments, numbers and keywords
//! are, whether code goes on, and how far its next line is indented.
//!
//! It is a guess for a person at a keyboard. Python has the last word, when the code runs.

use std::ops::Range;

/// How far a block is indented.
const INDENT: usize = 4;

/// Python's keywords, soft ones left out: they are names as often as not.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// What a piece of code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Keyword,
    Text,
    Number,
    Comment,
    Other,
}

/// Code that has been looked at.
#[derive(Debug)]
pub(super) struct Scan {
    /// Its pieces that are something of their own, without blanks, by their bytes.
    pub(super) pieces: Vec<(Range<usize>, Kind)>,
    /// Brackets that are open at the end.
    open_brackets: usize,
    /// Whether it ends within a string of three quotes.
    in_string: bool,
    /// Whether its last line goes on by a backslash.
    is_continued: bool,
    /// Where its last logical line begins, which brackets, strings and backslashes may have
    /// carried over several lines.
    last_line: usize,
}

/// Looks at code.
pub(super) fn scan(code: &str) -> Scan {
    let mut scan = Scan {
        pieces: Vec::new(),
        open_brackets: 0,
        in_string: false,
        is_continued: false,
        last_line: 0,
    };
    let mut at = 0;
    while let Some(c) = code.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = code.get(at..).unwrap_or_default();
        let (length, kind) = match c {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                if c == '\n' && scan.open_brackets == 0 && !scan.ends_with(code, "\\") {
                    scan.last_line = at;
                }
                continue;
            }
            '#' => (rest.find('\n').unwrap_or(rest.len()), Kind::Comment),
            '"' | '\'' => scan.string(rest),
            c if c.is_alphabetic() || c == '_' => {
                let length = word(rest);
                let name = rest.get(..length).unwrap_or_default();
                let after = rest.get(length..).unwrap_or_default();
                let is_prefix = length <= 2 && name.chars().all(|c| "rRbBuUfFtT".contains(c));
                if is_prefix && after.starts_with(['"', '\'']) {
                    let (string, kind) = scan.string(after);
                    (length + string, kind)
                } else if KEYWORDS.contains(&name) {
                    (length, Kind::Keyword)
                } else {
                    (length, Kind::Other)
                }
            }
            c if c.is_ascii_digit() => (number(rest), Kind::Number),
            '\\' if rest
                .strip_prefix('\\')
                .is_some_and(|rest| rest.trim_start_matches([' ', '\t']).is_empty()) =>
            {
                scan.is_continued = true;
                (1, Kind::Other)
            }
            c => {
                match c {
                    '(' | '[' | '{' => scan.open_brackets += 1,
                    // One too many is an error of the code, and no reason to wait for more.
                    ')' | ']' | '}' => scan.open_brackets = scan.open_brackets.saturating_sub(1),
                    _ => {}
                }
                (c.len_utf8(), Kind::Other)
            }
        };
        scan.pieces.push((at..at + length, kind));
        at += length;
    }
    // Of a line that ends with one, the next has to be there.
    scan.is_continued |= code.ends_with("\\\n");
    scan
}

impl Scan {
    /// The length of the string at the beginning of `text`.
    fn string(&mut self, text: &str) -> (usize, Kind) {
        let quote = text.get(..1).unwrap_or_default();
        let triple = quote.repeat(3);
        let (end, mut at) = if text.starts_with(&triple) { (&*triple, 3) } else { (quote, 1) };
        let is_triple = at == 3;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            if rest.starts_with(end) {
                return (at + end.len(), Kind::Text);
            }
            match rest.chars().next() {
                // Also in a raw string, where the backslash stays.
                Some('\\') => {
                    let escaped = rest.chars().nth(1).map_or(0, char::len_utf8);
                    at += 1 + escaped;
                }
                Some('\n') if !is_triple => return (at, Kind::Text),
                c => at += c.map_or(1, char::len_utf8),
            }
        }
        self.in_string = is_triple;
        (text.len(), Kind::Text)
    }

    /// Whether the last piece so far is this one.
    fn ends_with(&self, code: &str, text: &str) -> bool {
        self.pieces.last().is_some_and(|(range, _)| code.get(range.clone()) == Some(text))
    }

    /// The last piece that is no comment.
    fn last<'c>(&self, code: &'c str) -> &'c str {
        let last = self.pieces.iter().rev().find(|(_, kind)| *kind != Kind::Comment);
        last.and_then(|(range, _)| code.get(range.clone())).unwrap_or_default()
    }
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

/// Whether there has to be more before code can be run. A block ends with an empty line.
pub(super) fn goes_on(code: &str) -> bool {
    let scan = scan(code);
    if scan.in_string || scan.open_brackets > 0 || scan.is_continued {
        return true;
    }
    let line = code.get(scan.last_line..).unwrap_or_default();
    if line.trim().is_empty() {
        // The empty line that ends a block, unless that has not begun.
        return scan.last(code) == ":";
    }
    line.starts_with([' ', '\t']) || line.starts_with('@') || scan.last(code) == ":"
}

/// How far the line after `code` is indented.
pub(super) fn next_indent(code: &str) -> usize {
    let scan = scan(code);
    if scan.in_string {
        return 0;
    }
    let line = match scan.open_brackets {
        0 => code.get(scan.last_line..).unwrap_or_default(),
        _ => code.rsplit('\n').next().unwrap_or_default(),
    };
    let indent = line.len() - line.trim_start_matches(' ').len();
    let first = line.trim_start();
    match scan.last(code) {
        _ if first.is_empty() => indent,
        ":" | "(" | "[" | "{" => indent + INDENT,
        _ if scan.open_brackets > 0 => indent,
        _ => {
            let word = first.get(..word(first)).unwrap_or_default();
            let ends_block = ["return", "pass", "break", "continue", "raise"].contains(&word);
            if ends_block { indent.saturating_sub(INDENT) } else { indent }
        }
    }
}

/// How much a backspace takes: in the indentation of a line, back to the level before.
pub(super) fn backspace(before_cursor: &str) -> u16 {
    let line = before_cursor.rsplit('\n').next().unwrap_or_default();
    let is_indent = !line.is_empty() && line.bytes().all(|byte| byte == b' ');
    if is_indent && line.len().is_multiple_of(INDENT) { 4 } else { 1 }
}

/// What a tab puts in where there is nothing to complete.
pub(super) fn tab(before_cursor: &str) -> Option<String> {
    let line = before_cursor.rsplit('\n').next().unwrap_or_default();
    line.trim().is_empty().then(|| " ".repeat(INDENT - line.chars().count() % INDENT))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_whole_is_run() {
        for code in [
            "",
            "x = 1",
            "print('a')  # comment:",
            "f(1,\n  2)",
            "'''a\nb'''",
            "if x:\n    y\n",
            "def f():\n    return 1\n    ",
            "if x: pass",
            "x = 'unterminated",
            ")",
            "a = \"#\"",
            "f'{x[\"a\"]}'",
            "d = {'a': 1}",
            "x[1:]",
            "lambda: 0",
            "s = 'it\\'s'",
            "r'\\d'",
            "x = 1 + \\\n    2",
            "x = '''\n  '''",
        ] {
            assert!(!goes_on(code), "{code:?}");
        }
    }

    #[test]
    fn what_is_not_goes_on() {
        for code in [
            "if x:",
            "if x:  # comment",
            "f(",
            "x = [1,\n",
            "'''a",
            "rb\"\"\"x\n\"",
            "x = 1 + \\",
            "x = 1 + \\\n",
            "if x:\n    y",
            "@decorator",
            "class A:\n    def f(self):",
            "while True:",
            "while True:\n    ",
            "(\n\n",
        ] {
            assert!(goes_on(code), "{code:?}");
        }
    }

    #[test]
    fn the_next_line_is_indented_as_python_wants_it() {
        for (code, indent) in [
            ("x", 0),
            ("if x:", 4),
            ("if x:\n    for y in z:", 8),
            ("if x:\n    y", 4),
            ("def f():\n    return 1", 0),
            ("f(", 4),
            ("f(1,", 0),
            ("'''if:", 0),
            ("if x:\n    pass  # done", 0),
            ("if x:\n    passed", 4),
            ("if x:\n    ", 4),
            ("f(1,\n  2)", 0),
            ("def f():\n    return f(1,\n             2)", 0),
        ] {
            assert_eq!(next_indent(code), indent, "{code:?}");
        }
    }

    #[test]
    fn keys_know_where_they_are() {
        assert_eq!(backspace("if x:\n        "), 4);
        assert_eq!(backspace("if x:\n    y"), 1);
        assert_eq!(backspace("     "), 1);
        assert_eq!(tab("if x:\n"), Some("    ".to_owned()));
        assert_eq!(tab("  "), Some("  ".to_owned()));
        assert_eq!(tab("impo"), None);
    }

    #[test]
    fn pieces_are_what_they_look_like() {
        let code = "for x in rb'a#': # c\n 1.5e-3+0xff";
        let found: Vec<_> =
            scan(code).pieces.into_iter().map(|(range, kind)| (&code[range], kind)).collect();
        assert_eq!(
            found,
            [
                ("for", Kind::Keyword),
                ("x", Kind::Other),
                ("in", Kind::Keyword),
                ("rb'a#'", Kind::Text),
                (":", Kind::Other),
                ("# c", Kind::Comment),
                ("1.5e-3", Kind::Number),
                ("+", Kind::Other),
                ("0xff", Kind::Number),
            ]
        );
    }

    proptest! {
        #[test]
        fn pieces_are_in_order_and_on_boundaries(code: String) {
            let mut end = 0;
            for (range, _) in scan(&code).pieces {
                prop_assert!(end <= range.start && range.start < range.end);
                prop_assert!(code.get(range.clone()).is_some());
                end = range.end;
            }
            prop_assert!(end <= code.len());
            let _ = (goes_on(&code), next_indent(&code));
        }
    }
}
