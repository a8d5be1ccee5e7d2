//! The line editor, in a thread of its own, since it blocks on keys.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use nix::sys::termios::{self, SetArg, Termios};
use rustyline::config::{BellStyle, Builder};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{
    Cmd, ConditionalEventHandler, Editor, Event, EventContext, EventHandler, KeyCode, KeyEvent,
    Modifiers, Movement, RepeatCount,
};
use tokio::sync::mpsc as from_thread;
use vivarium_api_types::{CompleteReply, Completeness, IsCompleteReply, IsCompleteRequest};

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
        .build();
    let in_memory = MemHistory::with_config(&config);
    let mut editor: Editor<Helper, MemHistory> = Editor::with_history(config, in_memory)?;
    editor.set_helper(Some(Helper::new(events.clone(), has_colour)));
    for entry in history.entries.drain(..) {
        editor.add_history_entry(entry)?;
    }
    let mut bind = |key, modifiers, handler: EventHandler| {
        editor.bind_sequence(Event::from(KeyEvent(key, modifiers)), handler)
    };
    bind(
        KeyCode::Enter,
        Modifiers::NONE,
        EventHandler::Conditional(Box::new(Enter(events.clone()))),
    );
    bind(KeyCode::Tab, Modifiers::NONE, EventHandler::Conditional(Box::new(Tab)));
    bind(KeyCode::Backspace, Modifiers::NONE, EventHandler::Conditional(Box::new(Backspace)));
    bind(KeyCode::Enter, Modifiers::ALT, EventHandler::Simple(Cmd::Newline));
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let ctrl_c = CancelLine(Arc::clone(&is_cancelled));
    bind(KeyCode::Char('C'), Modifiers::CTRL, EventHandler::Conditional(Box::new(ctrl_c)));
    while let Ok(prompt) = prompts.recv() {
        let event = match editor.readline(&prompt) {
            Ok(_) if is_cancelled.swap(false, Ordering::Relaxed) => EditorEvent::Cancelled,
            Ok(code) => {
                let code = code.trim_end();
                if !code.trim().is_empty() && editor.add_history_entry(code)? {
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

/// Whether the terminal has been closed (tty_ioctl(4): reading a hung-up terminal).
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::libc::EIO) || error.kind() == io::ErrorKind::UnexpectedEof
}

/// Enter: the next line, with its indentation, or the end.
struct Enter(from_thread::UnboundedSender<EditorEvent>);

impl ConditionalEventHandler for Enter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let is_complete = |code: &str| {
            let request = IsCompleteRequest { code: code.to_owned() };
            ask(&self.0, EditorEvent::IsComplete, request)
        };
        next_line(context.line(), context.pos(), is_complete)
            .map_or(Some(Cmd::AcceptLine), |line| Some(Cmd::Insert(1, line)))
    }
}

/// What Enter inserts at the cursor; `None` if the input is over, also if nobody knows.
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
    Some(format!("\n{}", if is_blank { &indent } else { "" }))
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
        let before = context.line().get(..context.pos())?;
        Some(tab(before).map_or(Cmd::Complete, |indent| Cmd::Insert(1, indent)))
    }
}

/// Backspace: one character, or one level of indentation.
struct Backspace;

impl ConditionalEventHandler for Backspace {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let before = context.line().get(..context.pos())?;
        match backspace(before) {
            1 => None,
            count => Some(Cmd::Kill(Movement::BackwardChar(count))),
        }
    }
}

/// How many characters a backspace deletes: in the indentation of a line, one level.
fn backspace(before_cursor: &str) -> u16 {
    let line = before_cursor.rsplit('\n').next().unwrap_or_default();
    let is_indent = !line.is_empty() && line.bytes().all(|byte| byte == b' ');
    if is_indent && line.len().is_multiple_of(INDENT) { 4 } else { 1 }
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
        assert_eq!(tab("if x:\n"), Some("    ".to_owned()));
        assert_eq!(tab("  "), Some("  ".to_owned()));
        assert_eq!(tab("impo"), None);
    }

    #[test]
    fn enter_goes_to_the_next_line_if_the_kernel_says_so() {
        let reply = |status, indent: &str| Some(IsCompleteReply { status, indent: indent.into() });
        let enter = |code: &str, answer| next_line(code, code.len(), |_| answer);
        let line = |indent: &str| Some(format!("\n{indent}"));
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
        assert_eq!(next_line("if x:\n  y", 5, incomplete), Some("\n  ".to_owned()));
        assert_eq!(next_line("x\ny", 1, |_| None), Some("\n".to_owned()));
    }

    #[test]
    fn enter_asks_the_kernel_only_about_code() {
        for input in ["", "  ", ":files", "?len", "len?"] {
            assert_eq!(next_line(input, input.len(), |_| panic!("asked")), None, "{input:?}");
        }
    }
}
