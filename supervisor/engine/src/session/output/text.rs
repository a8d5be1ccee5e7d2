//! What an execution prints to one stream: bytes as they come, turned into text.
//!
//! Every byte is looked at once. Text that is UTF-8, which is what comes nearly always, is not
//! even copied.

/// Turns bytes into text: UTF-8, with U+FFFD for what is not. A character that is cut in two by
/// where the bytes were cut waits for its rest.
#[derive(Debug, Default)]
struct Decoder {
    /// The beginning of a character: at most three bytes.
    begun: Vec<u8>,
}

impl Decoder {
    fn push(&mut self, mut bytes: Vec<u8>) -> String {
        if !self.begun.is_empty() {
            self.begun.append(&mut bytes);
            bytes = std::mem::take(&mut self.begun);
        }
        self.begun = bytes.split_off(bytes.len() - begun_len(&bytes));
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// What is left at the end, if anything: the beginning of a character that had no rest.
    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned()
    }
}

/// How many bytes at the end may be the beginning of a longer character (RFC 3629, 3).
fn begun_len(bytes: &[u8]) -> usize {
    for (len, byte) in (1..=3).zip(bytes.iter().rev()) {
        let needs = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return 0,
        };
        return if needs > len { len } else { 0 };
    }
    0
}

#[derive(Debug)]
pub(super) struct Printed {
    decoder: Decoder,
    /// Bytes that may still come.
    room: usize,
    /// Bytes that have come.
    bytes: u64,
    /// Whether more than that was printed.
    truncated: bool,
    kept: String,
    /// The most that is kept for the outcome, in bytes.
    keep: usize,
    /// Whether more than that has come.
    cut: bool,
}

/// What a stream leaves for the outcome.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::session) struct Kept {
    /// Its text, or the first of it.
    pub(in crate::session) text: String,
    /// Whether there was more, be it printed or only streamed.
    pub(in crate::session) truncated: bool,
    /// Bytes it printed within the limit.
    pub(in crate::session) bytes: u64,
    /// Whether it printed more than the limit.
    pub(in crate::session) over_limit: bool,
}

impl Printed {
    /// A stream of at most `max` bytes, of which at most `keep` bytes of text are kept.
    pub(super) const fn new(max: usize, keep: usize) -> Self {
        Self {
            decoder: Decoder { begun: Vec::new() },
            room: max,
            bytes: 0,
            truncated: false,
            kept: String::new(),
            keep,
            cut: false,
        }
    }

    /// Takes bytes in, and gives their text.
    pub(super) fn push(&mut self, mut bytes: Vec<u8>) -> String {
        self.truncated |= bytes.len() > self.room;
        bytes.truncate(self.room);
        self.room -= bytes.len();
        self.bytes += bytes.len() as u64;
        let text = self.decoder.push(bytes);
        self.keep(&text);
        text
    }

    /// Takes in nothing more: there is more, and it is dropped.
    pub(super) const fn close(&mut self) {
        self.truncated = true;
        self.room = 0;
    }

    /// Bytes that the text which is kept takes.
    pub(super) const fn kept_bytes(&self) -> usize {
        self.kept.capacity()
    }

    /// Bytes of the text that is kept.
    pub(super) const fn text_bytes(&self) -> usize {
        self.kept.len()
    }

    /// Notes how many bytes the agent dropped.
    pub(super) const fn dropped(&mut self, bytes: u64) {
        self.truncated |= bytes > 0;
    }

    /// The text of what was left, when nothing more comes. A character that the limit cut in two
    /// is left out.
    pub(super) fn finish(&mut self) -> String {
        let rest = self.decoder.finish();
        if self.truncated {
            return String::new();
        }
        self.keep(&rest);
        rest
    }

    fn keep(&mut self, text: &str) {
        if self.cut || text.is_empty() {
            return;
        }
        let room = self.keep - self.kept.len();
        self.cut = text.len() > room;
        let end = if self.cut { text.floor_char_boundary(room) } else { text.len() };
        self.kept.push_str(text.get(..end).unwrap_or_default());
    }

    pub(super) fn into_kept(self) -> Kept {
        Kept {
            text: self.kept,
            truncated: self.truncated || self.cut,
            bytes: self.bytes,
            over_limit: self.truncated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_being_cut_anywhere() {
        let text = "a\u{7f}\u{80}é\u{7ff}\u{800}€\u{ffff}\u{10000}🦀\u{10ffff}z";
        for cut in 0..=text.len() {
            let mut decoder = Decoder::default();
            let (before, after) = text.as_bytes().split_at(cut);
            let decoded = decoder.push(before.to_vec()) + &decoder.push(after.to_vec());
            assert_eq!(decoded + &decoder.finish(), text, "{cut}");
        }
        let mut decoder = Decoder::default();
        let byte_by_byte: String = text.bytes().map(|byte| decoder.push(vec![byte])).collect();
        assert_eq!(byte_by_byte, text);
    }

    #[test]
    fn invalid_utf8_is_replaced_independent_of_chunking() {
        for bytes in [
            &b"a\xffb"[..],
            b"\xc3",
            b"\xe2\x82",
            b"\xf0\x9f\xa6",
            b"\xc3\xc3\xa9",
            b"\xe2(\xa1",
            b"\xed\xa0\x80",
            b"\x80\x80\x80\x80",
            b"\xf4\x90\x80\x80",
            b"\xc0\xaf",
        ] {
            for cut in 0..=bytes.len() {
                let mut decoder = Decoder::default();
                let decoded = decoder.push(bytes[..cut].to_vec())
                    + &decoder.push(bytes[cut..].to_vec())
                    + &decoder.finish();
                assert_eq!(decoded, String::from_utf8_lossy(bytes), "{bytes:?} at {cut}");
            }
        }
    }

    #[test]
    fn a_stream_is_limited_and_what_is_kept_of_it_too() {
        let mut printed = Printed::new(10, 4);
        assert_eq!(printed.push(b"12345".to_vec()), "12345");
        assert_eq!(printed.push(b"67890".to_vec()), "67890");
        assert_eq!(printed.finish(), "");
        let kept = printed.into_kept();
        assert_eq!((kept.text.as_str(), kept.bytes), ("1234", 10));
        assert!(kept.truncated && !kept.over_limit);
        let mut printed = Printed::new(10, usize::MAX);
        assert_eq!(printed.push(b"12345678901".to_vec()), "1234567890");
        let kept = printed.into_kept();
        assert!(kept.truncated && kept.over_limit);
        assert_eq!(kept.text, "1234567890");
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let mut printed = Printed::new(10, 4);
        assert_eq!(printed.push("123é5678é".as_bytes().to_vec()), "123é5678");
        assert_eq!(printed.finish(), "", "the limit cut it");
        assert_eq!(printed.into_kept().text, "123");
        let mut printed = Printed::new(10, 10);
        printed.push(b"a\xc3".to_vec());
        assert_eq!(printed.finish(), "\u{fffd}", "it had no rest");
        assert_eq!(printed.into_kept().text, "a\u{fffd}");
    }
}
