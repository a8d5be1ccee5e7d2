//! Texts of an answer cut to a length that the client can use, such as a model's context. Characters
//! are Unicode scalar values, which is what Python counts.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::outcome::Exception;

use super::mime::is_text;
use super::{Display, MimeBundle, ValueInfo};

/// Which part of a long text is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    Head,
    Tail,
    /// Half of it each.
    #[default]
    Both,
}

/// The most characters of a text, the mark of the cut included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct MaxChars(u64);

impl MaxChars {
    /// The mark has no room in less.
    const LEAST: u64 = 100;
    /// What every JSON parser reads exactly (RFC 8259, 6).
    const MOST: u64 = (1 << 53) - 1;
}

impl TryFrom<u64> for MaxChars {
    type Error = String;

    fn try_from(chars: u64) -> Result<Self, String> {
        if chars < Self::LEAST {
            return Err(format!("{chars} characters: the least is {}", Self::LEAST));
        }
        if chars > Self::MOST {
            return Err(format!("{chars} characters: the most is {}", Self::MOST));
        }
        Ok(Self(chars))
    }
}

/// A text that an answer has only in part, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TextCut {
    /// `stdout`, `stderr`, `result`, `exception`, `exception/message` or, counted from 0,
    /// `displays/0`.
    pub part: String,
    /// The representation of a result or display that was cut; null for a result's `repr`, and for
    /// what has no representations.
    pub mime_type: Option<String>,
    /// Characters that are left of it.
    pub kept_chars: u64,
    /// Characters that are left out. A representation other than plain text is left out as a whole.
    pub dropped_chars: u64,
}

/// Cuts the texts of one answer, and notes which.
#[derive(Debug)]
pub(super) struct Cutter {
    max: Option<MaxChars>,
    keep: Keep,
    pub(super) cuts: Vec<TextCut>,
}

/// What is kept of a text: up to byte `head` and from byte `tail` on, with the mark between.
#[derive(Debug, Default)]
pub(super) struct Kept {
    head: usize,
    tail: usize,
    mark: String,
}

impl Kept {
    /// What is kept of the text between two of its bytes.
    pub(super) fn of(&self, text: &str, start: usize, end: usize) -> String {
        let piece = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        let head = piece(start.min(self.head), end.min(self.head));
        let mark = if (start..end).contains(&self.head) { self.mark.as_str() } else { "" };
        [head, mark, piece(start.max(self.tail), end.max(self.tail))].concat()
    }
}

impl Cutter {
    pub(super) const fn new(max: Option<MaxChars>, keep: Keep) -> Self {
        Self { max, keep, cuts: Vec::new() }
    }

    /// Characters of a text, if these are too many.
    fn excess(&self, text: &str) -> Option<(usize, usize)> {
        let max = usize::try_from(self.max?.0).unwrap_or(usize::MAX);
        if text.len() <= max {
            return None;
        }
        let chars = text.chars().count();
        (chars > max).then_some((chars, max))
    }

    /// Finds out what is kept of a text, and notes it if that is not all.
    pub(super) fn kept(&mut self, text: &str, part: &str, mime_type: Option<&str>) -> Kept {
        let Some((chars, max)) = self.excess(text) else {
            return Kept { head: text.len(), tail: text.len(), mark: String::new() };
        };
        let mark = |dropped: usize| format!("[{dropped} of {chars} characters left out]");
        let kept = max.saturating_sub(mark(chars).len() + 2);
        let (head, tail) = match self.keep {
            Keep::Head => (kept, 0),
            Keep::Tail => (0, kept),
            Keep::Both => (kept - kept / 2, kept / 2),
        };
        let [line_before, line_after] = [head, tail].map(|part| if part > 0 { "\n" } else { "" });
        let mark = format!("{line_before}{}{line_after}", mark(chars - kept));
        self.note(part, mime_type, kept, chars - kept);
        let index = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
        let back = tail.checked_sub(1).and_then(|tail| text.char_indices().nth_back(tail));
        Kept { head: index(head), tail: back.map_or(text.len(), |(byte, _)| byte), mark }
    }

    fn note(&mut self, part: &str, mime_type: Option<&str>, kept: usize, dropped: usize) {
        self.cuts.push(TextCut {
            part: part.to_owned(),
            mime_type: mime_type.map(str::to_owned),
            kept_chars: kept as u64,
            dropped_chars: dropped as u64,
        });
    }

    fn text(&mut self, text: &str, part: &str, mime_type: Option<&str>) -> String {
        self.kept(text, part, mime_type).of(text, 0, text.len())
    }

    pub(super) fn exception(&mut self, exception: &Exception) -> Exception {
        Exception {
            type_name: exception.type_name.clone(),
            message: self.text(&exception.message, "exception/message", None),
            traceback: self.text(&exception.traceback, "exception", None),
        }
    }

    pub(super) fn value(&mut self, value: &ValueInfo) -> ValueInfo {
        ValueInfo {
            repr: self.text(&value.repr, "result", None),
            type_name: value.type_name.clone(),
            size_bytes: value.size_bytes,
            sizes: value.sizes.clone(),
            mime: self.bundle(&value.mime, "result"),
        }
    }

    pub(super) fn display(&mut self, index: usize, shown: &Display) -> Display {
        let mime = self.bundle(&shown.mime, &format!("displays/{index}"));
        Display { id: shown.id.clone(), sizes: shown.sizes.clone(), mime }
    }

    /// Half a page or half a document is of no use: such forms are left out.
    fn bundle(&mut self, mime: &MimeBundle, part: &str) -> MimeBundle {
        let mut bundle = MimeBundle::new();
        for (kind, content) in mime {
            let content = if !is_text(kind) {
                Cow::Borrowed(content)
            } else if kind == "text/plain" {
                Cow::Owned(self.text(content, part, Some(kind)))
            } else if let Some((chars, _)) = self.excess(content) {
                self.note(part, Some(kind), 0, chars);
                continue;
            } else {
                Cow::Borrowed(content)
            };
            bundle.insert(kind.clone(), content.into_owned());
        }
        bundle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, max: u64, keep: Keep) -> (String, Option<TextCut>) {
        let mut cutter = Cutter::new(Some(MaxChars(max)), keep);
        let text = cutter.text(text, "stdout", None);
        (text, cutter.cuts.pop())
    }

    #[test]
    fn long_texts_are_cut_between_characters_and_say_by_how_many() {
        let text = "é🦀".repeat(500);
        for (keep, starts, ends) in [
            (Keep::Head, "é🦀é", "🦀\n[936 of 1000 characters left out]"),
            (Keep::Tail, "[936 of 1000 characters left out]\né🦀", "é🦀"),
            (Keep::Both, "é🦀é", "é🦀"),
        ] {
            let (short, told) = cut(&text, 100, keep);
            let told = told.unwrap();
            assert!(short.chars().count() <= 100, "{short}");
            assert_eq!((told.kept_chars, told.dropped_chars), (64, 936));
            assert!(short.starts_with(starts) && short.ends_with(ends), "{short}");
            let left = short.replace("[936 of 1000 characters left out]", "").replace('\n', "");
            assert_eq!(left.chars().count(), 64);
        }
    }

    #[test]
    fn texts_that_fit_are_whole() {
        for text in [String::new(), "x".repeat(100), "🦀".repeat(100)] {
            assert_eq!(cut(&text, 100, Keep::Both), (text, None));
        }
        let (text, told) = cut(&"x".repeat(101), 100, Keep::Both);
        assert!(text.len() <= 100 && told.is_some());
        assert!(MaxChars::try_from(99).is_err());
        assert_eq!(cut("x", u64::MAX, Keep::Tail), ("x".into(), None));
    }

    #[test]
    fn pieces_of_a_text_are_cut_as_the_text_is() {
        let text = "0123456789é".repeat(100);
        for keep in [Keep::Head, Keep::Tail, Keep::Both] {
            let mut cutter = Cutter::new(Some(MaxChars(200)), keep);
            let kept = cutter.kept(&text, "stdout", None);
            let whole = kept.of(&text, 0, text.len());
            let ends = text.char_indices().map(|(byte, _)| byte).chain([text.len()]);
            for (start, end) in ends.clone().zip(ends.skip(1)) {
                let pieces = [(0, start), (start, end), (end, text.len())];
                let pieces = pieces.map(|(start, end)| kept.of(&text, start, end));
                assert_eq!(pieces.concat(), whole, "{keep:?} {start} {end}");
            }
        }
    }

    #[test]
    fn representations_other_than_plain_text_are_whole_or_left_out() {
        let long = "x".repeat(101);
        let mime = ["text/plain", "text/html", "application/json", "image/png"];
        let mime: MimeBundle = mime.map(|kind| (kind.to_owned(), long.clone())).into();
        let mut cutter = Cutter::new(Some(MaxChars(100)), Keep::Head);
        let bundle =
            cutter.display(3, &Display { id: None, sizes: crate::Sizes::new(), mime }).mime;
        assert_eq!(bundle.keys().collect::<Vec<_>>(), ["image/png", "text/plain"]);
        assert_eq!((bundle["image/png"].len(), bundle["text/plain"].len()), (101, 98));
        let told =
            cutter.cuts.iter().map(|cut| (cut.mime_type.as_deref().unwrap(), cut.kept_chars));
        let told: Vec<_> = told.collect();
        assert_eq!(told, [("application/json", 0), ("text/html", 0), ("text/plain", 66)]);
        assert!(cutter.cuts.iter().all(|cut| cut.part == "displays/3"));
    }
}
