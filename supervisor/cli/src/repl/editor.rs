//! The line editor, in a thread of its own: it blocks on keys while the rest of the program goes
//! on.

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

use super::helper::{CompletionRequest, Helper};
use super::history::{History, MAX_ENTRIES};
use super::syntax;
use crate::exit::{Exit, Failure};

/// What happens in the editor.
#[derive(Debug)]
pub(super) enum EditorEvent {
    /// A complete input.
    Line(String),
    /// Ctrl-C: what was being typed is thrown away.
    Cancelled,
    /// Ctrl-D, or the terminal is gone.
    Eof,
    /// The editor cannot go on.
    Failed(String),
    /// Tab: the editor waits for the answer.
    Completion(CompletionRequest),
}

/// A prompt, without colours and with them.
type Prompt = (String, String);

/// The editor's thread.
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
                // If nobody listens any more it does not matter.
                sender.send(EditorEvent::Failed(error.to_string())).unwrap_or_default();
            }
        });
        started.map_err(|error| Failure::new(Exit::Error, &error))?;
        Ok(Self { prompts, events, _terminal_mode: terminal_mode })
    }

    /// Has the user type something; [`LineEditor::next_event`] gives it.
    pub(super) fn prompt(&self, prompt: Prompt) {
        // A thread that is gone has said so.
        self.prompts.send(prompt).unwrap_or_default();
    }

    /// The next event.
    pub(super) async fn next_event(&mut self) -> EditorEvent {
        self.events.recv().await.unwrap_or(EditorEvent::Eof)
    }
}

/// The terminal's mode before us, which is restored even if the editor is still reading.
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
            // A terminal that is gone needs nothing any more.
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
    bind(KeyCode::Enter, Modifiers::NONE, EventHandler::Conditional(Box::new(Enter)));
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
struct Enter;

impl ConditionalEventHandler for Enter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let (before, after) = context.line().split_at_checked(context.pos())?;
        if after.contains('\n') || (is_python(before) && syntax::is_incomplete(context.line())) {
            let indent = " ".repeat(syntax::next_indent(before));
            return Some(Cmd::Insert(1, format!("\n{indent}")));
        }
        Some(Cmd::AcceptLine)
    }
}

/// Ctrl-C: the line ends like any other, and is then thrown away. rustyline's own `Cmd::Interrupt`
/// also throws away what was typed after it, if it has read that already.
struct CancelLine(Arc<AtomicBool>);

impl ConditionalEventHandler for CancelLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext) -> Option<Cmd> {
        self.0.store(true, Ordering::Relaxed);
        Some(Cmd::AcceptLine)
    }
}

/// Whether it is code, rather than one of our commands or a `?NAME`.
fn is_python(line: &str) -> bool {
    !line.starts_with([':', '?']) && !line.ends_with('?')
}

/// Tab: indentation at the beginning of a line, else completion.
struct Tab;

impl ConditionalEventHandler for Tab {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let before = context.line().get(..context.pos())?;
        Some(syntax::tab(before).map_or(Cmd::Complete, |indent| Cmd::Insert(1, indent)))
    }
}

/// Backspace: one character, or one level of indentation.
struct Backspace;

impl ConditionalEventHandler for Backspace {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext) -> Option<Cmd> {
        let before = context.line().get(..context.pos())?;
        match syntax::backspace(before) {
            1 => None,
            count => Some(Cmd::Kill(Movement::BackwardChar(count))),
        }
    }
}
