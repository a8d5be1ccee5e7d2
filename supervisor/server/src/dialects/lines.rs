//! What code prints, in whole lines.
//!
//! One `print` of several values is several writes, and may be as many events. Clients that exist take each
//! message for a line.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use vivarium_api_types::DoneEvent;

/// How long the rest of a line is waited for.
const REST: Duration = Duration::from_millis(10);

/// The longest part of a line that is held back.
const MAX_BYTES: usize = 64 << 10;

/// What was printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Printed {
    /// `stdout` or `stderr`.
    pub(super) stream: String,
    pub(super) text: String,
}

/// The pieces of a line that is not whole.
#[derive(Debug, Default)]
pub(super) struct Lines {
    held: Option<(Printed, Instant)>,
}

impl Lines {
    /// Takes a piece, and gives what is to be told now.
    pub(super) fn add(&mut self, stream: &str, text: &str) -> Vec<Printed> {
        let is_other = self.held.as_ref().is_some_and(|(held, _)| held.stream != stream);
        let mut told = Vec::new();
        if is_other {
            told.extend(self.take());
        }
        let (held, _) = self.held.get_or_insert_with(|| {
            let printed = Printed { stream: stream.to_owned(), text: String::new() };
            (printed, Instant::now() + REST)
        });
        held.text.push_str(text);
        if text.ends_with('\n') || held.text.len() > MAX_BYTES {
            told.extend(self.take());
        }
        told
    }

    /// Gives what is held, as nothing more comes of its line.
    pub(super) fn take(&mut self) -> Option<Printed> {
        self.held.take().map(|(held, _)| held)
    }

    /// Until when something is held.
    pub(super) fn due(&self) -> Option<Instant> {
        self.held.as_ref().map(|(_, due)| *due)
    }
}

/// Says that not all of what was printed was told.
pub(super) fn cut(done: &DoneEvent<'_>) -> Option<Printed> {
    let streams = [("stdout", done.stdout_truncated), ("stderr", done.stderr_truncated)];
    let cut: Vec<_> = streams.iter().filter(|(_, cut)| *cut).map(|(stream, _)| *stream).collect();
    (!cut.is_empty()).then(|| Printed {
        stream: "stderr".to_owned(),
        text: format!("[the rest of {} is left out: it is too long]\n", cut.join(" and ")),
    })
}

/// Resolves at this time, or never.
pub(super) async fn reached(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(printed: &[Printed]) -> Vec<(&str, &str)> {
        printed.iter().map(|it| (&*it.stream, &*it.text)).collect()
    }

    #[tokio::test]
    async fn pieces_become_lines_and_streams_keep_their_order() {
        let mut lines = Lines::default();
        for piece in ["hi", " ", "1"] {
            assert!(lines.add("stdout", piece).is_empty());
        }
        assert_eq!(told(&lines.add("stdout", "\n")), [("stdout", "hi 1\n")]);
        assert_eq!(lines.due(), None);
        assert!(lines.add("stdout", "a").is_empty());
        assert_eq!(told(&lines.add("stderr", "b\n")), [("stdout", "a"), ("stderr", "b\n")]);
        assert!(lines.add("stdout", "a\nb").is_empty());
        reached(lines.due()).await;
        assert_eq!(lines.take().unwrap().text, "a\nb");
        assert_eq!(told(&lines.add("stdout", &"x".repeat(MAX_BYTES + 1))).len(), 1);
    }
}
