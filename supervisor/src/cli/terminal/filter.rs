//! What tenant code printed, as a person's terminal may get it.
//!
//! Kept: text, line ends and carriage returns (progress bars), tabs, backspaces and bells,
//! colours, moving the cursor on the screen and erasing. Left out: every sequence that sets
//! something beyond the text (title, clipboard, links, keys, fonts, palettes, modes, scroll
//! regions, character sets, graphics), that makes the terminal answer as if keys had been typed,
//! or that is none we know. ECMA-48 has the forms, xterm's "Control Sequences" the meanings.

/// The longest sequence that is passed on, in bytes. Longer ones have no meaning that is kept.
const MAX_SEQUENCE_BYTES: usize = 64;

/// A filter of one stream. It remembers where it is between two pieces of text.
#[derive(Debug, Default)]
pub(in crate::cli) struct Filter {
    state: State,
    sequence: String,
    has_colour: bool,
    hides_cursor: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte: one byte more.
    EscapeIntermediate,
    /// After CSI.
    Control,
    /// In a string that ends with ST, or also with BEL.
    Str,
    /// After ESC in such a string.
    StrEscape,
}

impl Filter {
    /// Adds what may be shown of `text` to `shown`.
    pub(in crate::cli) fn pass(&mut self, text: &str, shown: &mut String) {
        for c in text.chars() {
            self.take(c, shown);
        }
    }

    /// Ends the stream: what may be said to put the terminal back to where it was.
    pub(in crate::cli) fn finish(&mut self) -> String {
        let mut end = String::new();
        if self.has_colour {
            end.push_str("\x1b[0m");
        }
        if self.hides_cursor {
            end.push_str("\x1b[?25h");
        }
        *self = Self::default();
        end
    }

    fn take(&mut self, c: char, shown: &mut String) {
        match self.state {
            State::Text => self.take_text(c, shown),
            State::Escape => self.take_escape(c, shown),
            State::EscapeIntermediate => match c {
                '\x20'..='\x2f' => {}
                _ => self.state = State::Text,
            },
            State::Control => self.take_control(c, shown),
            State::Str => match c {
                '\x07' | '\u{9c}' | '\x18' | '\x1a' => self.state = State::Text,
                '\x1b' => self.state = State::StrEscape,
                _ => {}
            },
            // ST is ESC and a backslash; with anything else ESC has ended the string, too.
            State::StrEscape if c == '\\' => self.state = State::Text,
            State::StrEscape => self.take_escape(c, shown),
        }
    }

    fn take_text(&mut self, c: char, shown: &mut String) {
        match c {
            '\x1b' => self.state = State::Escape,
            '\u{9b}' => self.begin_control(),
            // DCS, SOS, OSC, PM, APC as single characters.
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.state = State::Str,
            '\n' | '\r' | '\t' | '\x08' | '\x07' => shown.push(c),
            c if c.is_control() => {}
            c => shown.push(c),
        }
    }

    fn take_escape(&mut self, c: char, shown: &mut String) {
        self.state = State::Text;
        match c {
            '[' => self.begin_control(),
            ']' | 'P' | 'X' | '^' | '_' => self.state = State::Str,
            // Saving and restoring the cursor.
            '7' | '8' => shown.extend(['\x1b', c]),
            '\x20'..='\x2f' => self.state = State::EscapeIntermediate,
            '\x30'..='\x7e' => {}
            // No part of a sequence.
            c => self.take_text(c, shown),
        }
    }

    fn begin_control(&mut self) {
        self.state = State::Control;
        self.sequence.clear();
    }

    fn take_control(&mut self, c: char, shown: &mut String) {
        match c {
            '\x20'..='\x3f' => {
                if self.sequence.len() < MAX_SEQUENCE_BYTES {
                    self.sequence.push(c);
                }
            }
            '\x40'..='\x7e' => {
                self.state = State::Text;
                if self.may_pass(c) {
                    shown.push_str("\x1b[");
                    shown.push_str(&self.sequence);
                    shown.push(c);
                }
            }
            // Terminals differ in what they do with a sequence that is broken off.
            c => {
                self.state = State::Text;
                self.take_text(c, shown);
            }
        }
    }

    /// Whether a sequence of these parameters and this end is passed on.
    fn may_pass(&mut self, end: char) -> bool {
        let parameters = self.sequence.as_str();
        if (parameters, end) == ("?25", 'h') || (parameters, end) == ("?25", 'l') {
            self.hides_cursor = end == 'l';
            return true;
        }
        let is_plain = parameters.bytes().all(|byte| byte.is_ascii_digit() || byte == b';')
            && parameters.len() < MAX_SEQUENCE_BYTES;
        match end {
            'm' => {
                // Colours may be spelt with colons (ISO 8613-6).
                let fits = parameters.bytes().all(|b| b.is_ascii_digit() || b";:".contains(&b));
                self.has_colour |= fits;
                fits && parameters.len() < MAX_SEQUENCE_BYTES
            }
            // Moving: up, down, right, left, lines, column, place, line. Erasing: display, line,
            // characters. Inserting and deleting lines and characters. Scrolling. Save, restore.
            'A'..='H'
            | 'f'
            | '`'
            | 'd'
            | 'e'
            | 'a'
            | 'J'
            | 'K'
            | 'X'
            | 'L'
            | 'M'
            | '@'
            | 'P'
            | 'S'
            | 'T' => is_plain,
            's' | 'u' => parameters.is_empty(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        let mut shown = String::new();
        Filter::default().pass(text, &mut shown);
        shown
    }

    #[test]
    fn what_programs_print_is_kept() {
        for text in [
            "plain é 日本\n",
            "\r 50%|█████     | 1/2 [00:00<00:00]\x1b[A\n",
            "\x1b[1;31mred\x1b[0m \x1b[38;5;9mx\x1b[38:2::1:2:3mx\x1b[m",
            "\x1b[2K\x1b[1G\x1b[?25lx\x1b[?25h\x1b7\x1b8\x1b[10;20H\x1b[2J",
            "a\tb\x08\x07",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_left_out() {
        for (text, expected) in [
            ("a\x1b]0;title\x07b", "ab"),
            ("a\x1b]52;c;aGk=\x1b\\b", "ab"),
            ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
            ("a\x1bP$q\"p\x1b\\b", "ab"),
            ("a\x1b_Gf=100;AAAA\x1b\\b", "ab"),
            ("a\x1b^x\x1b\\\x1bXx\x1b\\b", "ab"),
            // What makes it answer: device status, attributes, window reports, ENQ.
            ("a\x1b[6n\x1b[c\x1b[>c\x1b[21t\x1b[?1;2y\x05b", "ab"),
            // Modes, scroll regions, resets, character sets.
            ("a\x1b[?1049h\x1b[?1000h\x1b[4h\x1b[1;5r\x1bc\x1b(0\x0e\x1b[!pb", "ab"),
            ("a\x1b[?25;1049hb", "ab"),
            // The same as single characters.
            ("a\u{9d}0;t\u{9c}b\u{9b}31mc\u{90}x\u{9c}d", "ab\x1b[31mcd"),
            ("a\x00\x0b\x0c\x7f\u{85}b", "ab"),
            // One inside another.
            ("a\x1b]0;\x1b]0;x\x07\x1b[6nb", "ab"),
            ("a\x1b\x1b]0;x\x07b", "ab"),
            ("a\x1b[3\x1b]0;x\x07b", "ab"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
        assert_eq!(shown(&format!("\x1b[{}mx", "1;".repeat(1000))), "x");
    }

    #[test]
    fn the_end_puts_back_what_was_changed() {
        let mut filter = Filter::default();
        let mut text = String::new();
        filter.pass("\x1b[31m\x1b[?25l\x1b]0;never ended", &mut text);
        assert_eq!(filter.finish(), "\x1b[0m\x1b[?25h");
        filter.pass("next", &mut text);
        assert!(text.ends_with("next"), "{text:?}");
        assert_eq!(filter.finish(), "");
    }

    /// Whether a terminal finds only what is kept in this, by another reading than the filter's.
    fn is_harmless(text: &str) -> bool {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if c != '\x1b' {
                if c.is_control() && !"\n\r\t\x08\x07".contains(c) {
                    return false;
                }
                continue;
            }
            if let Some(after) = rest.strip_prefix(['7', '8']) {
                rest = after;
                continue;
            }
            let Some(body) = rest.strip_prefix('[') else { return false };
            let Some(end) = body.find(|c: char| c.is_ascii_alphabetic() || "@`".contains(c)) else {
                return false;
            };
            let sequence = &body[..=end];
            let is_cursor = ["?25h", "?25l"].contains(&sequence);
            let parameters = &body[..end];
            let is_plain = parameters.chars().all(|c| c.is_ascii_digit() || ";:".contains(c));
            if !is_cursor && (!is_plain || "cnthlqrpyxz".contains(&sequence[end..])) {
                return false;
            }
            rest = &body[end + 1..];
        }
        true
    }

    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("\x1b"),
            Just("["),
            Just("]"),
            Just("?"),
            Just("25"),
            Just("h"),
            Just("n"),
            Just("m"),
            Just("\x07"),
            Just("\\"),
            Just("\u{9b}"),
            Just("\u{9d}"),
            Just("P"),
            Just(";"),
            Just("\x18"),
            Just("é"),
            Just("("),
        ];
        prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn nothing_harmful_passes_however_it_is_cut(text in hostile(), cut: prop::sample::Index) {
            let whole = shown(&text);
            prop_assert!(is_harmless(&whole), "{text:?} became {whole:?}");
            let places: Vec<_> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (one, other) = text.split_at(*cut.get(&places));
            let (mut filter, mut parts) = (Filter::default(), String::new());
            filter.pass(one, &mut parts);
            filter.pass(other, &mut parts);
            prop_assert_eq!(parts, whole);
        }

        #[test]
        fn what_passed_passes_again(text: String) {
            let once = shown(&text);
            prop_assert_eq!(shown(&once), once);
        }
    }
}
