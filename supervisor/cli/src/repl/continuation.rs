//! Continuation prompts, which the editor has none of.
//!
//! Room for them is kept in the text that is edited: a [`MARK`] a column at the beginning of a line.
//! They are shown as a prompt, and are no part of the code. A pasted line has none.

use std::borrow::Cow;

/// A noncharacter, which text of other programs does not contain (The Unicode Standard, 23.7).
const MARK: char = '\u{fdd0}';

const PROMPT: &str = "...: ";

/// Code as it is edited, with room for a prompt of this width before each line but the first.
pub(super) fn marked(code: &str, width: usize) -> String {
    code.replace('\n', &line_break(width))
}

/// The end of a line, and the room for the next one's prompt.
pub(super) fn line_break(width: usize) -> String {
    ['\n'].into_iter().chain(std::iter::repeat_n(MARK, width)).collect()
}

/// The code of what is edited.
pub(super) fn plain(edited: &str) -> Cow<'_, str> {
    if edited.contains(MARK) { edited.replace(MARK, "").into() } else { edited.into() }
}

/// The prompt of an edited line; empty if there is no room for one.
pub(super) fn prompt(line: &str) -> String {
    let width = line.chars().take_while(|c| *c == MARK).count();
    // As wide as the room in any case.
    format!("{PROMPT:>width$}").chars().take(width).collect()
}

/// The characters that a step back from the end of this text passes: a prompt with its line break.
pub(super) fn step_back(before_cursor: &str) -> usize {
    let marks = before_cursor.chars().rev().take_while(|c| *c == MARK).count();
    1 + marks
}

/// The same for a step forward.
pub(super) fn step_forward(after_cursor: &str) -> usize {
    let marks = after_cursor.strip_prefix('\n').unwrap_or_default();
    1 + marks.chars().take_while(|c| *c == MARK).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_shown_as_a_prompt_of_their_width_and_are_no_code() {
        let edited = marked("if x:\n  y\n", 8);
        assert_eq!(plain(&edited), "if x:\n  y\n");
        let prompts: Vec<_> = edited.split('\n').map(prompt).collect();
        assert_eq!(prompts, ["", "   ...: ", "   ...: "]);
        assert_eq!(prompt(&line_break(3)[1..]), "...");
        assert_eq!(prompt("pasted"), "");
    }

    #[test]
    fn the_cursor_steps_over_a_prompt() {
        let edited = marked("a\nb", 8);
        assert_eq!(step_back(edited.strip_suffix('b').unwrap()), 9);
        assert_eq!(step_back("a"), 1);
        assert_eq!(step_forward(edited.strip_prefix('a').unwrap()), 9);
        assert_eq!(step_forward("b"), 1);
    }
}
