//! As much of Python's syntax as an editor needs: where strings, comments, numbers and keywords
//! are, whether code is incomplete, and how far its next line is indented.
//!
//! It is a guess for a person at a keyboard: a round trip to the kernel at every Enter would wait
//! for whatever the session runs. Python has the last word, when the code runs.

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    Keyword,
    String,
    Number,
    Comment,
    Other,
}

#[derive(Debug)]
pub(super) struct Scan {
    /// The tokens by their bytes, without blanks.
    pub(super) tokens: Vec<(Range<usize>, TokenKind)>,
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

/// Tells the tokens of code, and how it ends.
pub(super) fn scan(code: &str) -> Scan {
    let mut scan = Scan {
        tokens: Vec::new(),
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
            '#' => (rest.find('\n').unwrap_or(rest.len()), TokenKind::Comment),
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
                    (length, TokenKind::Keyword)
                } else {
                    (length, TokenKind::Other)
                }
            }
            c if c.is_ascii_digit() => (number(rest), TokenKind::Number),
            '\\' if rest
                .strip_prefix('\\')
                .is_some_and(|rest| rest.trim_start_matches([' ', '\t']).is_empty()) =>
            {
                scan.is_continued = true;
                (1, TokenKind::Other)
            }
            c => {
                match c {
                    '(' | '[' | '{' => scan.open_brackets += 1,
                    // One too many is an error of the code, and no reason to wait for more.
                    ')' | ']' | '}' => scan.open_brackets = scan.open_brackets.saturating_sub(1),
                    _ => {}
                }
                (c.len_utf8(), TokenKind::Other)
            }
        };
        scan.tokens.push((at..at + length, kind));
        at += length;
    }
    // A line that ends with a backslash needs the next one.
    scan.is_continued |= code.ends_with("\\\n");
    scan
}

impl Scan {
    /// The length of the string at the beginning of `text`.
    fn string(&mut self, text: &str) -> (usize, TokenKind) {
        let quote = text.get(..1).unwrap_or_default();
        let triple = quote.repeat(3);
        let (end, mut at) = if text.starts_with(&triple) { (&*triple, 3) } else { (quote, 1) };
        let is_triple = at == 3;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            if rest.starts_with(end) {
                return (at + end.len(), TokenKind::String);
            }
            match rest.chars().next() {
                // Also in a raw string, where the backslash stays.
                Some('\\') => {
                    let escaped = rest.chars().nth(1).map_or(0, char::len_utf8);
                    at += 1 + escaped;
                }
                Some('\n') if !is_triple => return (at, TokenKind::String),
                c => at += c.map_or(1, char::len_utf8),
            }
        }
        self.in_string = is_triple;
        (text.len(), TokenKind::String)
    }

    /// Whether this is the last token so far.
    fn ends_with(&self, code: &str, text: &str) -> bool {
        self.tokens.last().is_some_and(|(range, _)| code.get(range.clone()) == Some(text))
    }

    /// The last token that is no comment.
    fn last_token<'c>(&self, code: &'c str) -> &'c str {
        let last = self.tokens.iter().rev().find(|(_, kind)| *kind != TokenKind::Comment);
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

/// Whether there has to be more before code can be run. An empty line ends a block.
pub(super) fn is_incomplete(code: &str) -> bool {
    let scan = scan(code);
    if scan.in_string || scan.open_brackets > 0 || scan.is_continued {
        return true;
    }
    let line = code.get(scan.last_line..).unwrap_or_default();
    if line.trim().is_empty() {
        // The empty line that ends a block, unless that has not begun.
        return scan.last_token(code) == ":";
    }
    line.starts_with([' ', '\t']) || line.starts_with('@') || scan.last_token(code) == ":"
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
    match scan.last_token(code) {
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

/// How many characters a backspace deletes: in the indentation of a line, one level.
pub(super) fn backspace(before_cursor: &str) -> u16 {
    let line = before_cursor.rsplit('\n').next().unwrap_or_default();
    let is_indent = !line.is_empty() && line.bytes().all(|byte| byte == b' ');
    if is_indent && line.len().is_multiple_of(INDENT) { 4 } else { 1 }
}

/// The blanks that a tab inserts where there is nothing to complete.
pub(super) fn tab(before_cursor: &str) -> Option<String> {
    let line = before_cursor.rsplit('\n').next().unwrap_or_default();
    line.trim().is_empty().then(|| " ".repeat(INDENT - line.chars().count() % INDENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn complete_input_is_executed() {
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
            assert!(!is_incomplete(code), "{code:?}");
        }
    }

    #[test]
    fn incomplete_input_continues_on_the_next_line() {
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
            assert!(is_incomplete(code), "{code:?}");
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
    fn tab_and_backspace_move_by_one_level_of_indentation() {
        assert_eq!(backspace("if x:\n        "), 4);
        assert_eq!(backspace("if x:\n    y"), 1);
        assert_eq!(backspace("     "), 1);
        assert_eq!(tab("if x:\n"), Some("    ".to_owned()));
        assert_eq!(tab("  "), Some("  ".to_owned()));
        assert_eq!(tab("impo"), None);
    }

    #[test]
    fn tokens_have_the_kind_that_python_gives_them() {
        let code = "for x in rb'a#': # c\n 1.5e-3+0xff";
        let found: Vec<_> =
            scan(code).tokens.into_iter().map(|(range, kind)| (&code[range], kind)).collect();
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
            for (range, _) in scan(&code).tokens {
                prop_assert!(end <= range.start && range.start < range.end);
                prop_assert!(code.get(range.clone()).is_some());
                end = range.end;
            }
            prop_assert!(end <= code.len());
            let _ = (is_incomplete(&code), next_indent(&code));
        }
    }
}
