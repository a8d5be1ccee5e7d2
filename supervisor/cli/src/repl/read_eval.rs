//! The loop of the prompt: reads an input, evaluates it, and shows the outcome.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use vivarium_api_types::{AssistReply, ExecuteRequest, InspectReply, ProbeRequest, ResetScope};
use vivarium_client::{Event, UploadKind};
use vivarium_protocol::outcome::Exception;

use super::editor::{EditorEvent, LineEditor};
use super::helper::Question;
use super::input::{HELP, Input, parse};
use super::screen::Screen;
use crate::exit::{Exit, Failure};
use crate::inputs::milliseconds;
use crate::target::{EventStream, ExecutionRequest, Target};
use crate::{files, human, outcome, transfer};

#[derive(Debug)]
pub(super) struct ReadEvalLoop<'a> {
    pub(super) target: &'a Target,
    pub(super) session: String,
    /// The context that runs code, if not the main one.
    pub(super) context: Option<String>,
    pub(super) screen: Screen,
    pub(super) signals: Signals,
    pub(super) timeout: Option<Duration>,
    /// The directory that the program was started in, if it is in another.
    pub(super) started_in: Option<PathBuf>,
    /// The number of the next prompt: that of the execution, which tracebacks, `In` and `Out` show.
    pub(super) number: u64,
    /// Whether the session stays when the program ends.
    pub(super) is_kept: bool,
}

#[derive(Debug)]
pub(super) struct Signals {
    interrupts: Signal,
    terminations: Signal,
    hangups: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::new(Exit::Error, &error));
        Ok(Self {
            interrupts: listen(SignalKind::interrupt())?,
            terminations: listen(SignalKind::terminate())?,
            hangups: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for any of them.
    pub(super) async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupts.recv() => {}
            _ = self.terminations.recv() => {}
            _ = self.hangups.recv() => {}
        }
    }
}

pub(super) enum Next {
    Prompt,
    End,
}

impl ReadEvalLoop<'_> {
    /// Runs until the user ends it.
    pub(super) async fn run(&mut self, mut editor: LineEditor) -> Result<(), Failure> {
        loop {
            self.screen.start_line()?;
            editor.prompt(self.screen.prompt(self.number));
            let line = loop {
                let event = tokio::select! {
                    event = editor.next_event() => event,
                    _ = self.signals.terminations.recv() => return Ok(()),
                    _ = self.signals.hangups.recv() => return Ok(()),
                };
                match event {
                    EditorEvent::Line(line) => break line,
                    EditorEvent::Cancelled => break String::new(),
                    EditorEvent::Eof => return Ok(()),
                    EditorEvent::Failed(why) => return Err(Failure::says(Exit::Error, why)),
                    EditorEvent::Completion(mut question) => {
                        question.request.context.clone_from(&self.context);
                        self.answer(question).await;
                    }
                    EditorEvent::IsComplete(mut question) => {
                        question.request.context.clone_from(&self.context);
                        self.answer(question).await;
                    }
                }
            };
            match self.interpret(&line).await {
                Ok(Next::Prompt) => {}
                Ok(Next::End) => return Ok(()),
                Err(failure) if failure.message().is_empty() => return Err(failure),
                Err(failure) => self.screen.note(failure.message())?,
            }
        }
    }

    pub(super) async fn interpret(&mut self, line: &str) -> Result<Next, Failure> {
        match parse(line) {
            Input::Empty => {}
            Input::Code(code) => {
                self.execute(code).await?;
            }
            Input::Inspect { name, wants_source } => {
                let (code, context) = (name.to_owned(), self.context.clone());
                let request = ProbeRequest { code, context, cursor: None };
                let reply: InspectReply = self.target.assist(&self.session, request).await?;
                self.screen.show_inspection(name, &reply, wants_source)?;
            }
            Input::Files(dir) => {
                let found = self.target.list_files(&self.session, dir, false).await?;
                self.screen.write(&files::table(&found, true))?;
            }
            Input::Put { file, name } => {
                let file = self.local(file)?;
                let (target, session) = (self.target, &self.session);
                let put = transfer::put(target, session, &file, name, UploadKind::File).await?;
                self.screen.note(&format!("put {put}"))?;
            }
            Input::Get { name, file } => {
                let file = self.local(file.unwrap_or(""))?;
                let file = Some(&*file).filter(|file| !file.is_empty());
                let got = transfer::get(self.target, &self.session, name, file, false).await?;
                if let Some((path, size_bytes)) = got {
                    let (path, size) = (path.display(), human::size(size_bytes));
                    self.screen.note(&format!("wrote {path} ({size})"))?;
                }
            }
            Input::Reset => {
                let reply = self.target.reset(&self.session, self.context.as_deref()).await?;
                self.screen.expect_loss();
                self.screen.note(match reply.scope {
                    ResetScope::Context => "reset: variables are gone, files are there",
                    ResetScope::Session => {
                        "reset: variables are gone, of every context of the session; files are there"
                    }
                })?;
            }
            Input::Session => self.describe().await?,
            Input::Keep => {
                self.is_kept = true;
                let session = &self.session;
                self.screen.note(&format!("session {session} stays when you leave"))?;
            }
            Input::Branch { count } => {
                let branches = self.target.branch(&self.session, count).await?;
                for branch in branches {
                    self.screen.write(&format!("{}\n", branch.id))?;
                }
            }
            Input::Checkpoint { name } => self.make_checkpoint(name).await?,
            Input::Checkpoints => self.list_checkpoints().await?,
            Input::Rollback { name } => self.roll_back(name).await?,
            Input::Suspend => {
                let image = self.target.suspend(&self.session).await?.image;
                self.is_kept = true;
                let size = image.map(|image| format!(" ({})", human::size(image.size_bytes)));
                self.screen.note(&format!("suspended{}", size.unwrap_or_default()))?;
                return Ok(Next::End);
            }
            Input::Help => self.screen.write(HELP)?,
            Input::Quit => return Ok(Next::End),
            Input::Unknown(text) => {
                let why = format!("{text}: no such command, or not so: see :help");
                return Err(Failure::says(Exit::Usage, why));
            }
        }
        Ok(Next::Prompt)
    }

    async fn answer<T: AssistReply>(&self, Question { request, answer }: Question<T>) {
        match self.target.assist(&self.session, request).await {
            // An editor that is gone has waited long enough.
            Ok(reply) => answer.send(reply).unwrap_or_default(),
            Err(failure) => tracing::debug!(why = failure.message(), "no answer of the kernel"),
        }
    }

    /// The path of a file on this host, relative to the directory that the program was started in:
    /// one that was started as root has left it.
    fn local<'f>(&self, file: &'f str) -> Result<Cow<'f, str>, Failure> {
        let Some(start) = self.started_in.as_ref().filter(|_| file != "-") else {
            return Ok(file.into());
        };
        let path = start.join(file).into_os_string().into_string();
        let path = path
            .map_err(|path| Failure::says(Exit::Usage, format!("{}: not UTF-8", path.display())))?;
        Ok(path.into())
    }

    async fn describe(&mut self) -> Result<(), Failure> {
        let Some(info) = self.target.find(&self.session).await? else {
            return self.screen.note("the session is gone");
        };
        self.screen.write(&format!(
            "session {}, environment {}\nCPU {:.1} ms, memory {}, disk {}, {} executions\n",
            info.id,
            info.environment,
            info.usage.cpu_ms,
            human::size_or_dash(info.usage.memory_bytes),
            human::size_or_dash(info.usage.disk_bytes),
            info.usage.executions,
        ))
    }

    /// What executes code.
    pub(super) fn request(&self, code: &str) -> ExecutionRequest {
        ExecutionRequest::Code(Box::new(ExecuteRequest {
            code: code.to_owned(),
            context: self.context.clone(),
            timeout_ms: self.timeout.map(milliseconds),
            ..Default::default()
        }))
    }

    /// Runs code and shows its events. Ctrl-C interrupts the code; if that goes on, the next Ctrl-C
    /// resets the context.
    async fn execute(&mut self, code: &str) -> Result<(), Failure> {
        // Ctrl-C that was pressed before the code ran is not for the code.
        while is_pending(&mut self.signals.interrupts).await {}
        let events = self.target.start(&self.session, self.request(code), false).await?;
        let mut evaluation = Evaluation { events, exception: None, number: &mut self.number };
        let (target, session) = (self.target, self.session.clone());
        let context = self.context.clone();
        let context = context.as_deref();
        let mut presses = 0;
        loop {
            tokio::select! {
                shown = evaluation.show(&mut self.screen) => return shown,
                _ = self.signals.interrupts.recv() => presses += 1,
                _ = self.signals.terminations.recv() => return Err(interrupted()),
                _ = self.signals.hangups.recv() => return Err(interrupted()),
            }
            // The terminal has shown it as ^C.
            self.screen.mark_mid_line();
            // Events are shown meanwhile: the code must go on for the interrupt to reach it.
            let stop = async {
                match presses {
                    1 => target.interrupt(&session, context).await,
                    _ => target.reset(&session, context).await.map(|_| true),
                }
            };
            let stopped = tokio::select! {
                shown = evaluation.show(&mut self.screen) => return shown,
                stopped = stop => stopped,
                _ = self.signals.interrupts.recv(), if presses > 1 => return Err(interrupted()),
                _ = self.signals.terminations.recv() => return Err(interrupted()),
                _ = self.signals.hangups.recv() => return Err(interrupted()),
            };
            match stopped {
                Ok(true) => {}
                Ok(false) => self.screen.note(STILL_RUNNING)?,
                Err(failure) => self.screen.note(failure.message())?,
            }
        }
    }
}

const STILL_RUNNING: &str =
    "still running: Ctrl-C again resets the kernel, and its variables are lost";

/// The program ends while code runs.
pub(super) const fn interrupted() -> Failure {
    Failure::quiet(Exit::Interrupted)
}

/// An execution under way.
#[derive(Debug)]
struct Evaluation<'a> {
    events: EventStream,
    exception: Option<Exception>,
    /// Of the next prompt.
    number: &'a mut u64,
}

impl Evaluation<'_> {
    /// Shows events up to the last. Dropping the future loses none: call this again.
    async fn show(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        while let Some(event) = self.events.next().await? {
            match event {
                // The number in tracebacks. Others may run code in the session too.
                Event::Started(started) => {
                    *self.number = started.execution_id.parse().unwrap_or(*self.number) + 1;
                }
                Event::AwaitingApproval(awaiting) => {
                    screen.note(&outcome::awaiting(&awaiting))?;
                }
                Event::Stdout(text) => screen.print(&text)?,
                Event::Stderr(text) => screen.print_error(&text)?,
                Event::Display(shown) => screen.show_display(&shown)?,
                Event::Result(value) => screen.show_value(self.number.saturating_sub(1), &value)?,
                Event::Error(error) => self.exception = Some(error),
                // Whoever has declared the tools answers them.
                Event::Call(_) | Event::CallEnded(_) => {}
                Event::Gap => screen.note(outcome::EVENTS_MISSING)?,
                Event::Done(done) => return screen.show_end(&done, self.exception.as_ref()),
            }
        }
        Err(outcome::missing())
    }
}

/// Whether a signal has come already.
async fn is_pending(signal: &mut Signal) -> bool {
    tokio::select! {
        biased;
        _ = signal.recv() => true,
        () = std::future::ready(()) => false,
    }
}
