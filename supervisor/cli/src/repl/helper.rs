//! rustyline's helper: questions to the session's kernel, and colours.

use std::borrow::Cow;
use std::sync::mpsc;
use std::time::Duration;

use rustyline::Context;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use tokio::sync::mpsc::UnboundedSender;
use vivarium_api_types::{AssistReply, CompleteReply, ProbeRequest};

use super::continuation::{plain, prompt};
use super::editor::EditorEvent;
use super::input;
use super::syntax::{TokenKind, tokens};

/// The most completions that are offered.
const MAX_MATCHES: usize = 500;

/// How long to wait for an answer. The engine gives up earlier (504 `no_answer`).
const ANSWERS_WITHIN: Duration = Duration::from_secs(6);

/// A question of the editor, which waits for `answer`; dropping that is an answer too.
#[derive(Debug)]
pub(super) struct Question<T: AssistReply> {
    pub(super) request: T::Request,
    pub(super) answer: mpsc::Sender<T>,
}

/// Asks the session's kernel, and waits. `None` if it gives no answer, such as a busy one.
pub(super) fn ask<T: AssistReply>(
    events: &UnboundedSender<EditorEvent>,
    event: fn(Question<T>) -> EditorEvent,
    request: T::Request,
) -> Option<T> {
    let (answer, answered) = mpsc::channel();
    events.send(event(Question { request, answer })).ok()?;
    answered.recv_timeout(ANSWERS_WITHIN).ok()
}

pub(super) struct Helper {
    events: UnboundedSender<EditorEvent>,
    has_colour: bool,
}

impl rustyline::Helper for Helper {}
// The handler of Enter decides when the input is complete.
impl Validator for Helper {}
impl Hinter for Helper {
    type Hint = String;
}

impl Helper {
    pub(super) const fn new(events: UnboundedSender<EditorEvent>, has_colour: bool) -> Self {
        Self { events, has_colour }
    }

    fn request(&self, code: &str, cursor: usize) -> Option<CompleteReply> {
        let cursor = u32::try_from(code.get(..cursor)?.chars().count()).ok()?;
        let request = ProbeRequest { code: code.to_owned(), cursor: Some(cursor), context: None };
        ask(&self.events, EditorEvent::Completion, request)
    }
}

impl Completer for Helper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if line.starts_with(':') {
            return Ok((0, input::commands_beginning_with(line.get(..pos).unwrap_or(line))));
        }
        // The kernel is asked about the code after the prompt's own question mark.
        let skipped = usize::from(line.starts_with('?'));
        let code = plain(line.get(skipped..).unwrap_or_default());
        let before = plain(line.get(skipped..pos).unwrap_or_default());
        let Some(reply) = self.request(&code, before.len()) else {
            return Ok((pos, Vec::new()));
        };
        let (start, pairs) = candidates(&code, before.len(), reply);
        // Completions begin in the line of the cursor, so that no prompt is between them.
        Ok((pos.saturating_sub(before.len().saturating_sub(start)), pairs))
    }
}

/// The kernel's completions for the editor: the start in bytes, and only plain text, since the
/// editor prints them unescaped.
fn candidates(code: &str, pos: usize, reply: CompleteReply) -> (usize, Vec<Pair>) {
    let start = usize::try_from(reply.start).unwrap_or(usize::MAX);
    let start = code.char_indices().nth(start).map_or(code.len(), |(at, _)| at);
    if code.get(start..pos).is_none_or(|replaced| replaced.contains('\n')) {
        return (pos, Vec::new());
    }
    let is_plain =
        |text: &str| !text.is_empty() && text.len() < 200 && !text.chars().any(|c| c.is_control());
    let matches = reply.matches.into_iter().filter(|one| is_plain(&one.text)).take(MAX_MATCHES);
    let pairs = matches.map(|one| {
        // The last part of a dotted name is enough to choose by.
        let last = one.text.trim_end_matches(['.', '(']).rsplit('.').next().unwrap_or_default();
        Pair { display: last.to_owned(), replacement: one.text }
    });
    (start, pairs.collect())
}

impl Highlighter for Helper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        let code = plain(line);
        let coloured = match self.has_colour && !line.starts_with([':', '?']) {
            true => coloured(&code),
            false => code.into_owned(),
        };
        let mut text = String::with_capacity(coloured.len());
        for (number, (edited, shown)) in line.split('\n').zip(coloured.split('\n')).enumerate() {
            text.push_str(if number == 0 { "" } else { "\n" });
            let prompt = prompt(edited);
            match self.has_colour && !prompt.is_empty() {
                // As the first prompt's.
                true => text.push_str(&format!("\x1b[32m{prompt}\x1b[0m")),
                false => text.push_str(&prompt),
            }
            text.push_str(shown);
        }
        Cow::Owned(text)
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.has_colour && kind != CmdKind::MoveCursor
    }
}

/// Code with its colours, each line by itself.
fn coloured(code: &str) -> String {
    let mut text = String::with_capacity(code.len() * 2);
    let mut end = 0;
    for (range, kind) in tokens(code) {
        let colour = match kind {
            TokenKind::Keyword => "34",
            TokenKind::String => "32",
            TokenKind::Number => "36",
            TokenKind::Comment => "90",
            TokenKind::Other => continue,
        };
        let between = code.get(end..range.start).unwrap_or_default();
        let piece = code.get(range.clone()).unwrap_or_default();
        end = range.end;
        text.push_str(between);
        // The editor lays out each line separately, and prompts are between them.
        let piece = piece.replace('\n', &format!("\x1b[0m\n\x1b[{colour}m"));
        text.push_str(&format!("\x1b[{colour}m{piece}\x1b[0m"));
    }
    text.push_str(code.get(end..).unwrap_or_default());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_api_types::Match;

    fn reply(start: u32, texts: &[&str]) -> CompleteReply {
        let matches = texts.iter();
        let matches =
            matches.map(|text| Match { text: (*text).to_owned(), kind: String::new() }).collect();
        CompleteReply { matches, start, end: start }
    }

    fn texts(pairs: &[Pair]) -> Vec<(&str, &str)> {
        pairs.iter().map(|pair| (pair.display.as_str(), pair.replacement.as_str())).collect()
    }

    #[test]
    fn completion_starts_are_turned_from_characters_into_bytes() {
        let (start, pairs) = candidates("é = math.pi", 12, reply(4, &["math.pi", "math.pow("]));
        assert_eq!(start, 5);
        assert_eq!(texts(&pairs), [("pi", "math.pi"), ("pow", "math.pow(")]);
        let (start, pairs) = candidates("a\nb", 3, reply(0, &["x"]));
        assert_eq!((start, pairs.len()), (3, 0), "no completion of several lines");
    }

    #[test]
    fn completions_that_are_not_plain_text_are_not_offered() {
        let long = "x".repeat(300);
        let (_, pairs) = candidates("", 0, reply(0, &["a\x1b[31m", "", &long, "b\nc", "ok"]));
        assert_eq!(texts(&pairs), [("ok", "ok")]);
        let (start, pairs) = candidates("abc", 1, reply(3, &["d"]));
        assert_eq!((start, pairs.len()), (1, 0), "behind the cursor nothing is replaced");
    }

    #[test]
    fn highlighting_adds_only_colours() {
        #[expect(clippy::disallowed_methods, reason = "nothing is sent")]
        let (events, _events) = tokio::sync::mpsc::unbounded_channel();
        let helper = Helper::new(events, true);
        let code = "for x in '''a\nb''': # é\n 1";
        let coloured = helper.highlight(code, 0).into_owned();
        assert!(coloured.starts_with("\x1b[34mfor\x1b[0m x "), "{coloured:?}");
        assert!(coloured.contains("'''a\x1b[0m\n\x1b[32mb'''"), "{coloured:?}");
        let mut plain = coloured;
        for colour in ["34", "32", "36", "90", "0"] {
            plain = plain.replace(&format!("\x1b[{colour}m"), "");
        }
        assert_eq!(plain, code);
        let edited = super::super::continuation::marked("if x:\n    y", 8);
        assert_eq!(Helper::new(helper.events, false).highlight(&edited, 0), "if x:\n   ...:     y");
    }
}
