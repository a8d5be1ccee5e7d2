//! The filter between a terminal in a session and a person's, for programs that draw on all of it.
//!
//! What draws passes: text, moves, colours, erasing, scrolling, the other screen. What reaches beyond
//! the screen is left out, without a trace that would spoil what is drawn: titles, links and the
//! clipboard (OSC), device strings (DCS, APC, PM, SOS), modes that have the terminal send more than
//! keys, and requests to which it would answer as if keys had been typed. ECMA-48 has the forms,
//! xterm's "Control Sequences" the meanings.

/// The longest sequence that passes, in bytes.
const MAX_SEQUENCE_BYTES: usize = 64;

/// The longest string that is left out whole. Of one that has no end the rest is text.
const MAX_STRING_CHARS: usize = 4096;

/// Private modes that pass: keys of the application, wrapping, the cursor's blinking and showing, the
/// other screen, and marks around what is pasted.
const MODES: [&str; 9] = ["1", "7", "12", "25", "47", "1047", "1048", "1049", "2004"];

/// What puts a terminal back as it was, whatever passed before: colours, keys, pasting, scrolling, the
/// cursor, and the screen.
const RESET: &str = "\x1b[0m\x1b[?1l\x1b>\x1b[?2004l\x1b[?7h\x1b[r\x1b[?25h\x1b[?1049l";

#[derive(Debug, Default)]
enum State {
    #[default]
    Text,
    Escape,
    /// After ESC and an intermediate: a character set.
    CharacterSet(char),
    /// After `ESC [`.
    Control(String),
    /// Within a string, and how much of it has come.
    String(usize),
    /// After ESC within a string: `\` ends it.
    StringEscape(usize),
}

/// The filter of one terminal, whose output may be cut into pieces anywhere.
#[derive(Debug, Default)]
pub(crate) struct ScreenFilter {
    state: State,
    has_sequences: bool,
}

impl ScreenFilter {
    /// Appends what may pass of `text` to `shown`.
    pub(crate) fn pass(&mut self, text: &str, shown: &mut String) {
        for c in text.chars() {
            self.take(c, shown);
        }
    }

    /// What puts the terminal back as it was.
    pub(crate) fn finish(&mut self) -> &'static str {
        let has_sequences = std::mem::take(self).has_sequences;
        if has_sequences { RESET } else { "" }
    }

    fn take(&mut self, c: char, shown: &mut String) {
        self.state = match std::mem::take(&mut self.state) {
            State::Text => Self::text(c, shown),
            State::Escape => self.escape(c, shown),
            State::CharacterSet(to) => {
                if matches!(c, 'A' | 'B' | '0') {
                    shown.extend(['\x1b', to, c]);
                }
                State::Text
            }
            State::Control(sequence) => self.control(sequence, c, shown),
            State::String(count) => match c {
                '\x07' | '\u{9c}' => State::Text,
                '\x1b' => State::StringEscape(count),
                _ if count >= MAX_STRING_CHARS => State::Text,
                _ => State::String(count + 1),
            },
            State::StringEscape(count) => match c {
                '\\' => State::Text,
                _ => State::String(count + 1),
            },
        };
    }

    fn text(c: char, shown: &mut String) -> State {
        match c {
            '\x1b' => return State::Escape,
            '\n' | '\r' | '\t' | '\x07' | '\x08' | '\x0b' | '\x0c' | '\x0e' | '\x0f' => {
                shown.push(c)
            }
            // The same as ESC and another character, in one; and what has no picture.
            c if c.is_control() => {}
            c => shown.push(c),
        }
        State::Text
    }

    fn escape(&mut self, c: char, shown: &mut String) -> State {
        match c {
            '[' => return State::Control(String::new()),
            ']' | 'P' | 'X' | '^' | '_' => return State::String(0),
            '(' | ')' => return State::CharacterSet(c),
            '\x1b' => return State::Escape,
            // Save and restore the cursor, index, next line, tab stop, reverse index, keypad.
            '7' | '8' | 'D' | 'E' | 'H' | 'M' | '=' | '>' => {
                self.has_sequences = true;
                shown.extend(['\x1b', c]);
            }
            _ => {}
        }
        State::Text
    }

    fn control(&mut self, mut sequence: String, c: char, shown: &mut String) -> State {
        match c {
            '\x20'..='\x3f' if sequence.len() < MAX_SEQUENCE_BYTES => {
                sequence.push(c);
                return State::Control(sequence);
            }
            '\x1b' => return State::Escape,
            _ if may_pass(&sequence, c) => {
                self.has_sequences = true;
                shown.push_str("\x1b[");
                shown.push_str(&sequence);
                shown.push(c);
            }
            _ => {}
        }
        State::Text
    }
}

/// Whether a control sequence with these parameters and this final character draws, and no more.
fn may_pass(parameters: &str, end: char) -> bool {
    let only = |allowed: &[u8]| {
        parameters.bytes().all(|byte| byte.is_ascii_digit() || allowed.contains(&byte))
    };
    match end {
        'm' => only(b";:"),
        // Moves; erasing; inserting, deleting and repeating; tabs; scrolling and its region.
        '@'
        | 'A'..='M'
        | 'P'
        | 'S'
        | 'T'
        | 'X'
        | 'Z'
        | '`'
        | 'a'
        | 'b'
        | 'd'
        | 'e'
        | 'f'
        | 'g'
        | 'r'
        | 's'
        | 'u' => only(b";"),
        'h' | 'l' => match parameters.strip_prefix('?') {
            Some(modes) => modes.split(';').all(|mode| MODES.contains(&mode)),
            // Inserting instead of replacing.
            None => parameters == "4",
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        let mut shown = String::new();
        ScreenFilter::default().pass(text, &mut shown);
        shown
    }

    #[test]
    fn what_draws_passes() {
        for text in [
            "plain é 日本\r\n\tx\x08\x07",
            "\x1b[1;31mred\x1b[0m\x1b[38:2::1:2:3mx",
            "\x1b[2J\x1b[H\x1b[3;7Hx\x1b[A\x1b[2K\x1b[1;5r\x1b[S\x1b[10X",
            "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1;7l\x1b[4h",
            "\x1b7\x1b8\x1bM\x1b(0\x1b(B\x1b=\x1b>",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_reaches_beyond_the_screen_is_left_out() {
        for text in [
            "\x1b]0;title\x07",
            "\x1b]52;c;aGk=\x1b\\",
            "\x1b]8;;http://x\x1b\\",
            "\x1bP1$r0m\x1b\\",
            "\x1b_Gf=100;AAAA\x1b\\",
            "\x1b[6n\x1b[c\x1b[>c\x1b[5n\x1b[18t\x1b[?6n\x1b[=c\x1bZ\x05",
            "\x1b[?1000h\x1b[?1003;25h\x1b[?1004h\x1b[20h",
            "\x1bc\x1b[!p\x1b[2;1;1z\x1b[i\x1b[5i\x1b[>4;1m",
            "\u{9d}0;t\u{9c}\u{9b}\u{90}",
        ] {
            let expected: String = text.chars().filter(|_| false).collect();
            let plain = shown(text).replace("0;t", "");
            assert_eq!(plain, expected, "{text:?}");
        }
    }

    #[test]
    fn a_string_without_end_does_not_hide_all_that_follows() {
        let text = format!("\x1b]0;{}\r\nafter", "x".repeat(2 * MAX_STRING_CHARS));
        assert!(shown(&text).ends_with("after"));
    }

    #[test]
    fn the_terminal_is_put_back_if_anything_was_drawn() {
        let mut filter = ScreenFilter::default();
        filter.pass("text", &mut String::new());
        assert_eq!(filter.finish(), "");
        filter.pass("\x1b[?1049h", &mut String::new());
        assert_eq!(filter.finish(), RESET);
    }

    proptest! {
        #[test]
        fn output_passes_the_same_wherever_it_is_cut(
            text in "[\u{1b}\u{9b}\u{7}\\[\\]P?;:0-9mhlnH\\\\ax]{0,40}",
            cut in 0_usize..40,
        ) {
            let (first, second) = text.split_at(text.floor_char_boundary(cut));
            let (mut filter, mut pieces) = (ScreenFilter::default(), String::new());
            filter.pass(first, &mut pieces);
            filter.pass(second, &mut pieces);
            prop_assert_eq!(&pieces, &shown(&text));
            // What has passed passes again, and is all that there is.
            prop_assert_eq!(shown(&pieces), pieces);
        }
    }
}
