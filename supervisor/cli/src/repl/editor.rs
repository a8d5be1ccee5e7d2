//! The line editor, in a thread of its own: it waits for keys, and the rest of the program goes
//! on with what it waits for.

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

use super::helper::{Helper, Question};
use super::history::{History, MAX_ENTRIES};
use super::syntax;
use crate::exit::{Exit, Failure};

/// What the editor has to say.
#[derive(Debug)]
pub(super) enum Said {
    /// Something was typed.
    Code(String),
    /// Ctrl-C: what was being typed is thrown away.
    Nothing,
    /// Ctrl-D, or the terminal is gone.
    End,
    /// It cannot go on.
    Failed(String),
    /// It asks what could follow, and waits.
    Question(Question),
}

/// A prompt, without colours and with them.
type Prompt = (String, String);

/// The editor's thread.
#[derive(Debug)]
pub(super) struct Keyboard {
    prompts: mpsc::Sender<Prompt>,
    said: from_thread::UnboundedReceiver<Said>,
    _terminal: Saved,
}

impl Keyboard {
    /// Starts the thread. It reads keys only after [`Keyboard::ask`].
    pub(super) fn start(history: History, has_colour: bool) -> Result<Self, Failure> {
        let (prompts, asked) = mpsc::channel();
        let (tell, said) = from_thread::unbounded_channel();
        let terminal = Saved::of_stdin();
        let started = thread::Builder::new().name("editor".to_owned()).spawn(move || {
            if let Err(error) = edit(&asked, &tell, history, has_colour) {
                // If nobody listens any more it does not matter.
                tell.send(Said::Failed(error.to_string())).unwrap_or_default();
            }
        });
        started.map_err(|error| Failure::new(Exit::Error, &error))?;
        Ok(Self { prompts, said, _terminal: terminal })
    }

    /// Has the user type something; [`Keyboard::said`] gives it.
    pub(super) fn ask(&self, prompt: Prompt) {
        // A thread that is gone has said so.
        self.prompts.send(prompt).unwrap_or_default();
    }

    /// What comes next from the editor.
    pub(super) async fn said(&mut self) -> Said {
        self.said.recv().await.unwrap_or(Said::End)
    }
}

/// How the terminal was before us, and will be again even if the editor is still reading.
#[derive(Debug)]
struct Saved(Option<Termios>);

impl Saved {
    fn of_stdin() -> Self {
        Self(termios::tcgetattr(io::stdin()).ok())
    }
}

impl Drop for Saved {
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
    asked: &mpsc::Receiver<Prompt>,
    tell: &from_thread::UnboundedSender<Said>,
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
    let earlier = MemHistory::with_config(&config);
    let mut editor: Editor<Helper, MemHistory> = Editor::with_history(config, earlier)?;
    editor.set_helper(Some(Helper::new(tell.clone(), has_colour)));
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
    let given_up = Arc::new(AtomicBool::new(false));
    let ctrl_c = GiveUp(Arc::clone(&given_up));
    bind(KeyCode::Char('C'), Modifiers::CTRL, EventHandler::Conditional(Box::new(ctrl_c)));
    while let Ok(prompt) = asked.recv() {
        let said = match editor.readline(&prompt) {
            Ok(_) if given_up.swap(false, Ordering::Relaxed) => Said::Nothing,
            Ok(code) => {
                let code = code.trim_end();
                if !code.trim().is_empty() && editor.add_history_entry(code)? {
                    history.add(code);
                }
                Said::Code(code.to_owned())
            }
            Err(ReadlineError::Interrupted) => Said::Nothing,
            Err(ReadlineError::Eof) => Said::End,
            Err(ReadlineError::Io(error)) if is_gone(&error) => Said::End,
            Err(ReadlineError::Errno(nix::Error::EIO)) => Said::End,
            Err(error) => return Err(error),
        };
        if tell.send(said).is_err() {
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
        if after.contains('\n') || (is_python(before) && syntax::goes_on(context.line())) {
            let indent = " ".repeat(syntax::next_indent(before));
            return Some(Cmd::Insert(1, format!("\n{indent}")));
        }
        Some(Cmd::AcceptLine)
    }
}

/// Ctrl-C: the line ends like any other, and is then thrown away. rustyline's own `Cmd::Interrupt`
/// throws away with it what was typed behind it, if it has read that already.
struct GiveUp(Arc<AtomicBool>);

impl ConditionalEventHandler for GiveUp {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext) -> Option<Cmd> {
        self.0.store(true, Ordering::Relaxed);
        Some(Cmd::AcceptLine)
    }
}

/// Whether it is code, rather than a command of ours or a question.
fn is_python(line: &str) -> bool {
    !line.starts_with([':', '?']) && !line.ends_with('?')
}

/// Tab: indentation where nothing stands before it, else completion.
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
