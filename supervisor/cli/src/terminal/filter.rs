//! The filter between the output of tenant code and a person's terminal.
//!
//! Only what stays in its line passes: text, line ends, tabs, carriage returns and backspaces
//! (progress bars), colours, moving sideways and erasing in the line. Everything else is shown
//! escaped, as `less -R` and git do: what would change earlier lines (clearing, moving up,
//! scrolling), set something beyond the text (title, clipboard, links, modes), or make the terminal
//! answer as if keys had been typed; and characters that change the direction of text or cannot be
//! seen. ECMA-48 has the forms, xterm's "Control Sequences" the meanings.
//!
//! The filter knows only the sequences that pass, and escapes every other character as it comes. A
//! terminal's parser (the crate vte) does not serve for that: it swallows control strings up to
//! their end, obeys control characters within a sequence, and does not keep a sequence's text,
//! which is what has to be shown. It is the fuzz target's judge of what has passed.

use super::escape::push_escaped;

/// The longest sequence that passes, in bytes. No useful one is longer.
const MAX_SEQUENCE_BYTES: usize = 64;

/// The filter of one stream, which may be cut into pieces anywhere.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// The beginning of a sequence: ESC, and `[` with parameters if they have come.
    sequence: String,
    has_colour: bool,
}

impl Filter {
    /// Appends `text` to `shown`, escaped where need be.
    pub(crate) fn pass(&mut self, text: &str, shown: &mut String) {
        for c in text.chars() {
            self.take(c, shown);
        }
    }

    /// Ends the stream: the rest of its text, and a reset of the colours that it set.
    pub(crate) fn finish(&mut self) -> String {
        let mut end = String::new();
        self.show_sequence(&mut end);
        if self.has_colour {
            end.push_str("\x1b[0m");
        }
        *self = Self::default();
        end
    }

    fn take(&mut self, c: char, shown: &mut String) {
        let continues = match self.sequence.len() {
            0 => c == '\x1b',
            1 => c == '[',
            MAX_SEQUENCE_BYTES.. => false,
            _ => ('\x20'..='\x3f').contains(&c),
        };
        if continues {
            self.sequence.push(c);
        } else if self.sequence.len() > 1 && self.may_pass(c) {
            shown.push_str(&self.sequence);
            shown.push(c);
            self.sequence.clear();
        } else if self.sequence.is_empty() {
            match c {
                '\r' | '\x08' => shown.push(c),
                c => push_escaped(c, shown),
            }
        } else {
            // Not a sequence that passes; this character may begin another.
            self.show_sequence(shown);
            self.take(c, shown);
        }
    }

    fn show_sequence(&mut self, shown: &mut String) {
        for c in self.sequence.chars() {
            push_escaped(c, shown);
        }
        self.sequence.clear();
    }

    /// Whether the sequence passes with this final character.
    fn may_pass(&mut self, end: char) -> bool {
        let parameters = self.sequence.get(2..).unwrap_or_default();
        let only = |allowed: &[u8]| {
            parameters.bytes().all(|byte| byte.is_ascii_digit() || allowed.contains(&byte))
        };
        match end {
            // Colours may be spelt with colons (ISO 8613-6).
            'm' if only(b";:") => {
                self.has_colour = true;
                true
            }
            // Right, left and to a column; erase in the line, and characters; insert and delete.
            'C' | 'D' | 'G' | 'K' | 'X' | '@' | 'P' => only(b""),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        let (mut filter, mut shown) = (Filter::default(), String::new());
        filter.pass(text, &mut shown);
        filter.has_colour = false;
        shown + &filter.finish()
    }

    #[test]
    fn text_colours_and_moves_within_the_line_pass() {
        for text in [
            "plain é 日本\n",
            "\r 50%|█████     | 1/2 [00:00<00:00]\n",
            "\x1b[1;31mred\x1b[0m \x1b[38;5;9mx\x1b[38:2::1:2:3mx\x1b[m",
            "\x1b[2K\x1b[1Gx\x1b[K\x1b[3C\x1b[2D\x1b[4X",
            "a\tb\x08",
            "\u{1f468}\u{200d}\u{1f469}",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn other_control_characters_are_escaped() {
        for (text, expected) in [
            // Clearing, moving to other lines, scrolling, saving and restoring the place.
            ("a\x1b[2J\x1b[H\x1b[3Jb", "a\\x1b[2J\\x1b[H\\x1b[3Jb"),
            ("\x1b[A\x1b[2F\x1b[5d\x1b[1;1f", "\\x1b[A\\x1b[2F\\x1b[5d\\x1b[1;1f"),
            ("\x1b[L\x1b[M\x1b[S\x1b[T", "\\x1b[L\\x1b[M\\x1b[S\\x1b[T"),
            ("\x1b7\x1b8\x1bM\x1b[s\x1b[u", "\\x1b7\\x1b8\\x1bM\\x1b[s\\x1b[u"),
            // Strings: titles, the clipboard, links.
            ("a\x1b]0;title\x07b", "a\\x1b]0;title\\x07b"),
            ("\x1b]8;;http://x\x1b\\link", "\\x1b]8;;http://x\\x1b\\link"),
            // What makes it answer, and modes.
            ("\x1b[6n\x1b[c\x05", "\\x1b[6n\\x1b[c\\x05"),
            ("\x1b[?1049h\x1b[?25l\x1bc", "\\x1b[?1049h\\x1b[?25l\\x1bc"),
            // The same as single characters.
            ("\u{9d}0;t\u{9c}\u{9b}31m", "\\x9d0;t\\x9c\\x9b31m"),
            ("a\x00\x0b\x0c\x7f\u{85}b", "a\\x00\\x0b\\x0c\\x7f\\x85b"),
            // Direction, and what cannot be seen.
            ("x\u{202e}gpj.exe\u{2066}\u{200f}", "x\\u202egpj.exe\\u2066\\u200f"),
            // One inside another, and one that never ends.
            ("\x1b\x1b[31mx\x1b[3\x1b[2J", "\\x1b\x1b[31mx\\x1b[3\\x1b[2J"),
            ("x\x1b[31", "x\\x1b[31"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
        let long = format!("\x1b[{}mx", "1;".repeat(1000));
        assert_eq!(shown(&long), long.replace('\x1b', "\\x1b"));
    }

    #[test]
    fn the_end_of_a_stream_resets_its_colours() {
        let mut filter = Filter::default();
        let mut text = String::new();
        filter.pass("\x1b[31m\x1b", &mut text);
        assert_eq!(filter.finish(), "\\x1b\x1b[0m");
        filter.pass("next", &mut text);
        assert!(text.ends_with("next"), "{text:?}");
        assert_eq!(filter.finish(), "");
    }

    /// Whether this is only text and sequences that pass, by another reading than the filter's.
    fn is_harmless(text: &str) -> bool {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if c != '\x1b' {
                if c.is_control() && !"\n\r\t\x08".contains(c) {
                    return false;
                }
                continue;
            }
            let Some(body) = rest.strip_prefix('[') else { return false };
            let Some(end) = body.find(|c: char| !(c.is_ascii_digit() || ";:".contains(c))) else {
                return false;
            };
            if !body[end..].starts_with(['m', 'C', 'D', 'G', 'K', 'X', '@', 'P']) {
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
        fn nothing_harmful_passes_wherever_the_text_is_cut(text in hostile(), cut: prop::sample::Index) {
            let whole = shown(&text);
            prop_assert!(is_harmless(&whole), "{text:?} became {whole:?}");
            let places: Vec<_> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (one, other) = text.split_at(*cut.get(&places));
            let (mut filter, mut parts) = (Filter::default(), String::new());
            filter.pass(one, &mut parts);
            filter.pass(other, &mut parts);
            filter.has_colour = false;
            prop_assert_eq!(parts + &filter.finish(), whole);
        }

        #[test]
        fn filtered_text_passes_unchanged(text: String) {
            let once = shown(&text);
            prop_assert_eq!(shown(&once), once);
        }
    }
}
