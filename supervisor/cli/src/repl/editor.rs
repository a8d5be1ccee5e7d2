//! The line editor, in a thread of its own, since it blocks on keys.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use nix::sys::termios::{self, SetArg, Termios};
use rustyline::config::ColorMode;
use rustyline::config::{BellStyle, Builder};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{
    Cmd, ConditionalEventHandler, Editor, Event, EventContext, EventHandler, KeyCode, KeyEvent,
    Modifiers, Movement, RepeatCount,
};
use tokio::sync::mpsc as from_thread;
use vivarium_api_types::{CompleteReply, Completeness, IsCompleteReply, IsCompleteRequest};

use super::continuation::{line_break, marked, plain, step_back, step_forward};
use super::helper::{Helper, Question, ask};
use super::history::{History, MAX_ENTRIES};
use crate::exit::{Exit, Failure};

/// What happens in the editor.
#[derive(Debug)]
pub(super) enum EditorEvent {
    /// A complete input.
    Line(String),
    /// Ctrl-C: the input is discarded.
    Cancelled,
    /// Ctrl-D, or the terminal is gone.
    Eof,
    /// The editor cannot go on.
    Failed(String),
    /// Tab: the editor waits for the answer.
    Completion(Question<CompleteReply>),
    /// Enter: the editor waits for the answer.
    IsComplete(Question<IsCompleteReply>),
}

/// The width of `In [1]: `.
const FIRST_PROMPT_WIDTH: usize = 8;

/// How far a block is indented.
const INDENT: usize = 4;

/// The deepest indentation that Enter takes from the kernel.
const MAX_INDENT: usize = 400;

/// A prompt, without colours and with them.
type Prompt = (String, String);

#[derive(Debug)]
pub(super) struct LineEditor {
    prompts: mpsc::Sender<Prompt>,
    events: from_thread::UnboundedReceiver<EditorEvent>,
    _terminal_mode: TerminalMode,
}

impl LineEditor {
    /// Starts the thread. It reads keys only after [`LineEditor::prompt`].
    pub(super) fn start(history: History, has_colour: bool) -> Result<Self, Failure> {
        let (prompts, prompted) = mpsc::channel();
        #[expect(clippy::disallowed_methods, reason = "each answers a prompt or a key")]
        let (sender, events) = from_thread::unbounded_channel();
        let terminal_mode = TerminalMode::of_stdin();
        let started = thread::Builder::new().name("editor".to_owned()).spawn(move || {
            if let Err(error) = edit(&prompted, &sender, history, has_colour) {
                // Nobody listens if the program is ending.
                sender.send(EditorEvent::Failed(error.to_string())).unwrap_or_default();
            }
        });
        started.map_err(|error| Failure::new(Exit::Error, &error))?;
        Ok(Self { prompts, events, _terminal_mode: terminal_mode })
    }

    /// Shows a prompt; [`LineEditor::next_event`] returns what the user types.
    pub(super) fn prompt(&self, prompt: Prompt) {
        // A thread that has ended has sent its reason.
        self.prompts.send(prompt).unwrap_or_default();
    }

    pub(super) async fn next_event(&mut self) -> EditorEvent {
        self.events.recv().await.unwrap_or(EditorEvent::Eof)
    }
}

/// The terminal's mode before the editor, restored on drop even while the editor still reads.
#[derive(Debug)]
struct TerminalMode(Option<Termios>);

impl TerminalMode {
    fn of_stdin() -> Self {
        Self(termios::tcgetattr(io::stdin()).ok())
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // It fails only if the terminal is gone.
            termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, before).unwrap_or_default();
            // The editor has switched bracketed paste on while it reads.
            io::stdout().write_all(b"\x1b[?2004l").unwrap_or_default();
            io::stdout().flush().unwrap_or_default();
        }
    }
}

fn edit(
    prompts: &mpsc::Receiver<Prompt>,
    events: &from_thread::UnboundedSender<EditorEvent>,
    mut history: History,
    has_colour: bool,
) -> rustyline::Result<()> {
    let config = Builder::new()
        .max_history_size(MAX_ENTRIES)?
        .history_ignore_dups(true)?
        .completion_type(rustyline::CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .bell_style(BellStyle::None)
        .tab_stop(4)
        // The helper colours, and shows continuation prompts without colours too.
        .color_mode(ColorMode::Forced)
        .build();
    let in_memory = MemHistory::with_config(&config);
    let mut editor: Editor<Helper, MemHistory> = Editor::with_history(config, in_memory)?;
    editor.set_helper(Some(Helper::new(events.clone(), has_colour)));
    for entry in history.entries.drain(..) {
        editor.add_history_entry(marked(&entry, FIRST_PROMPT_WIDTH))?;
    }
    let width = Arc::new(AtomicUsize::new(FIRST_PROMPT_WIDTH));
    let is_cancelled = Arc::new(AtomicBool::new(false));
    bind_keys(&mut editor, events, &width, &is_cancelled);
    while let Ok(prompt) = prompts.recv() {
        width.store(prompt.0.len(), Ordering::Relaxed);
        let event = match editor.readline(&prompt) {
            Ok(_) if is_cancelled.swap(false, Ordering::Relaxed) => EditorEvent::Cancelled,
            Ok(edited) => {
                let code = plain(&edited);
                let code = code.trim_end();
                let entry = marked(code, prompt.0.len());
                if !code.trim().is_empty() && editor.add_history_entry(entry)? {
                    history.add(code);
                }
                EditorEvent::Line(code.to_owned())
            }
            Err(ReadlineError::Interrupted) => EditorEvent::Cancelled,
            Err(ReadlineError::Eof) => EditorEvent::Eof,
            Err(ReadlineError::Io(error)) if is_gone(&error) => EditorEvent::Eof,
            Err(ReadlineError::Errno(nix::Error::EIO)) => EditorEvent::Eof,
            Err(error) => return Err(error),
        };
        if events.send(event).is_err() {
            break;
        }
    }
    Ok(())
}

fn bind_keys(
    editor: &mut Editor<Helper, MemHistory>,
    events: &from_thread::UnboundedSender<EditorEvent>,
    width: &Arc<AtomicUsize>,
    is_cancelled: &Arc<AtomicBool>,
) {
    let mut bind = |key, modifiers, handler: Box<dyn ConditionalEventHandler>| {
        let sequence = Event::from(KeyEvent(key, modifiers));
        editor.bind_sequence(sequence, EventHandler::Conditional(handler));
    };
    let enter = Enter { events: events.clone(), width: Arc::clone(width) };
    bind(KeyCode::Enter, Modifiers::NONE, Box::new(enter));
    bind(KeyCode::Enter, Modifiers::ALT, Box::new(LineBreak(Arc::clone(width))));
    bind(KeyCode::Tab, Modifiers::NONE, Box::new(Tab));
    bind(KeyCode::Backspace, Modifiers::NONE, Box::new(Backspace));
    for (key, modifiers, step) in [
        (KeyCode::Left, Modifiers::NONE, Step::Back),
        (KeyCode::Char('B'), Modifiers::CTRL, Step::Back),
        (KeyCode::Right, Modifiers::NONE, Step::Forward),
        (KeyCode::Char('F'), Modifiers::CTRL, Step::Forward),
        (KeyCode::Home, Modifiers::NONE, Step::Home),
        (KeyCode::Char('A'), Modifiers::CTRL, Step::Home),
    ] {
        bind(key, modifiers, Box::new(step));
    }
    let cancel = CancelLine(Arc::clone(is_cancelled));
    bind(KeyCode::Char('C'), Modifiers::CTRL, Box::new(cancel));
}

/// Whether the terminal has been closed (tty_ioctl(4): reading a hung-up terminal).
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::libc::EIO) || error.kind() == io::ErrorKind::UnexpectedEof
}

/// Enter: the next line, with its indentation, or the end.
struct Enter {
    events: from_thread::UnboundedSender<EditorEvent>,
    width: Arc<AtomicUsize>,
}

impl ConditionalEventHandler for Enter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let is_complete = |code: &str| {
            let request = IsCompleteRequest { code: code.to_owned(), context: None };
            ask(&self.events, EditorEvent::IsComplete, request)
        };
        let (before, after) = context.line().split_at_checked(context.pos())?;
        let (before, after) = (plain(before), plain(after));
        let next = next_line(&format!("{before}{after}"), before.len(), is_complete);
        Some(next.map_or(Cmd::AcceptLine, |indent| {
            let line_break = line_break(self.width.load(Ordering::Relaxed));
            Cmd::Insert(1, format!("{line_break}{indent}"))
        }))
    }
}

/// Alt-Enter: the next line in any case.
struct LineBreak(Arc<AtomicUsize>);

impl ConditionalEventHandler for LineBreak {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext) -> Option<Cmd> {
        Some(Cmd::Insert(1, line_break(self.0.load(Ordering::Relaxed))))
    }
}

/// Moves by a character or to the line's beginning, and not into a continuation prompt.
enum Step {
    Back,
    Forward,
    Home,
}

impl ConditionalEventHandler for Step {
    fn handle(&self, _: &Event, n: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let (before, after) = context.line().split_at_checked(context.pos())?;
        let count = |count: usize| RepeatCount::try_from(count).ok();
        let movement = match self {
            Self::Back if n == 1 => Movement::BackwardChar(count(step_back(before))?),
            Self::Forward if n == 1 => Movement::ForwardChar(count(step_forward(after))?),
            Self::Home => match plain(before.rsplit('\n').next()?).chars().count() {
                0 => return Some(Cmd::Noop),
                length => Movement::BackwardChar(count(length)?),
            },
            _ => return None,
        };
        Some(Cmd::Move(movement))
    }
}

/// The indentation of the line that Enter begins; `None` if the input is over, also if nobody knows.
fn next_line(
    input: &str,
    cursor: usize,
    is_complete: impl FnOnce(&str) -> Option<IsCompleteReply>,
) -> Option<String> {
    let (before, after) = input.split_at_checked(cursor)?;
    let is_inside = after.contains('\n');
    let code = if is_inside { before } else { input };
    let indent = match is_python(code).then(|| is_complete(code)).flatten() {
        Some(reply) if reply.status == Completeness::Incomplete => reply.indent,
        _ if is_inside => String::new(),
        _ => return None,
    };
    // From tenant code, and it goes into the code that the user sends: nothing but blanks.
    let is_blank = indent.len() <= MAX_INDENT && indent.trim_matches([' ', '\t']).is_empty();
    Some(if is_blank { indent } else { String::new() })
}

/// Ctrl-C: the line ends like any other and is then discarded. rustyline's own `Cmd::Interrupt`
/// would also discard keys that were typed after it.
struct CancelLine(Arc<AtomicBool>);

impl ConditionalEventHandler for CancelLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext) -> Option<Cmd> {
        self.0.store(true, Ordering::Relaxed);
        Some(Cmd::AcceptLine)
    }
}

/// Whether it is code, rather than nothing, one of our commands or a `?NAME`.
fn is_python(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with([':', '?']) && !line.ends_with('?')
}

/// Tab: indentation at the beginning of a line, else completion.
struct Tab;

impl ConditionalEventHandler for Tab {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let before = plain(context.line().get(..context.pos())?);
        Some(tab(&before).map_or(Cmd::Complete, |indent| Cmd::Insert(1, indent)))
    }
}

/// Backspace: one character, or one level of indentation.
struct Backspace;

impl ConditionalEventHandler for Backspace {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let before = context.line().get(..context.pos())?;
        match backspace(before) {
            1 => None,
            count => Some(Cmd::Kill(Movement::BackwardChar(RepeatCount::try_from(count).ok()?))),
        }
    }
}

/// How many characters a backspace deletes: in the indentation of a line, one level.
fn backspace(before_cursor: &str) -> usize {
    let line = plain(before_cursor.rsplit('\n').next().unwrap_or_default());
    let is_indent = !line.is_empty() && line.bytes().all(|byte| byte == b' ');
    if is_indent && line.len().is_multiple_of(INDENT) { INDENT } else { step_back(before_cursor) }
}

/// The blanks that a tab inserts where there is nothing to complete.
fn tab(before_cursor: &str) -> Option<String> {
    let line = before_cursor.rsplit('\n').next().unwrap_or_default();
    line.trim().is_empty().then(|| " ".repeat(INDENT - line.chars().count() % INDENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_and_backspace_move_by_one_level_of_indentation() {
        assert_eq!(backspace("if x:\n        "), 4);
        assert_eq!(backspace("if x:\n    y"), 1);
        assert_eq!(backspace("     "), 1);
        assert_eq!(backspace(&marked("if x:\n    ", 8)), 4);
        assert_eq!(backspace(&marked("if x:\n", 8)), 9, "the prompt and the line break");
        assert_eq!(tab("if x:\n"), Some("    ".to_owned()));
        assert_eq!(tab("  "), Some("  ".to_owned()));
        assert_eq!(tab("impo"), None);
    }

    #[test]
    fn enter_goes_to_the_next_line_if_the_kernel_says_so() {
        let reply = |status, indent: &str| Some(IsCompleteReply { status, indent: indent.into() });
        let enter = |code: &str, answer| next_line(code, code.len(), |_| answer);
        let line = |indent: &str| Some(indent.to_owned());
        assert_eq!(enter("if x:", reply(Completeness::Incomplete, "    ")), line("    "));
        assert_eq!(enter("x", reply(Completeness::Complete, "")), None);
        assert_eq!(enter(")", reply(Completeness::Invalid, "")), None);
        assert_eq!(enter("if x:", None), None, "a kernel that does not answer");
        let forged = ["\x1b[2J", "  import os;", &" ".repeat(10_000)];
        for indent in forged {
            assert_eq!(enter("if x:", reply(Completeness::Incomplete, indent)), line(""));
        }
    }

    #[test]
    fn enter_within_the_input_breaks_the_line_there() {
        let incomplete = |code: &str| {
            assert_eq!(code, "if x:");
            Some(IsCompleteReply { status: Completeness::Incomplete, indent: "  ".into() })
        };
        assert_eq!(next_line("if x:\n  y", 5, incomplete), Some("  ".to_owned()));
        assert_eq!(next_line("x\ny", 1, |_| None), Some(String::new()));
    }

    #[test]
    fn enter_asks_the_kernel_only_about_code() {
        for input in ["", "  ", ":files", "?len", "len?"] {
            assert_eq!(next_line(input, input.len(), |_| panic!("asked")), None, "{input:?}");
        }
    }
}
