//! The loop of a session at the keyboard: a prompt, what is typed, what comes of it.

use tokio::signal::unix::{Signal, SignalKind, signal};
use vivarium_api_types::{CompleteReply, ExecuteRequest, ProbeRequest};
use vivarium_client::Event;
use vivarium_protocol::outcome::Exception;

use super::command::{HELP, Input, parse};
use super::editor::{Keyboard, Said};
use super::screen::Screen;
use crate::exit::{Exit, Failure};
use crate::target::{EventStream, ExecutionRequest, Target, UploadKind};
use crate::{files, outcome, transfer};

/// A session at the keyboard.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    target: &'a Target,
    session: String,
    keyboard: Keyboard,
    screen: Screen,
    signals: Signals,
    timeout_ms: Option<u64>,
    /// Of the next input.
    number: u64,
    /// Whether the session stays when we end.
    pub(super) is_kept: bool,
}

#[derive(Debug)]
struct Signals {
    interrupts: Signal,
    terminations: Signal,
    hangups: Signal,
}

/// Whether to go on.
enum Next {
    Prompt,
    End,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(
        target: &'a Target,
        session: String,
        keyboard: Keyboard,
        screen: Screen,
        timeout_ms: Option<u64>,
        is_kept: bool,
    ) -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::new(Exit::Error, &error));
        let signals = Signals {
            interrupts: listen(SignalKind::interrupt())?,
            terminations: listen(SignalKind::terminate())?,
            hangups: listen(SignalKind::hangup())?,
        };
        Ok(Self { target, session, keyboard, screen, signals, timeout_ms, number: 1, is_kept })
    }

    /// Goes on until the user ends it.
    pub(super) async fn hold(&mut self) -> Result<(), Failure> {
        loop {
            self.screen.start_line()?;
            self.keyboard.ask(self.screen.prompt(self.number));
            let typed = loop {
                let said = tokio::select! {
                    said = self.keyboard.said() => said,
                    _ = self.signals.terminations.recv() => return Ok(()),
                    _ = self.signals.hangups.recv() => return Ok(()),
                };
                match said {
                    Said::Code(code) => break code,
                    Said::Nothing => break String::new(),
                    Said::End => return Ok(()),
                    Said::Failed(why) => return Err(Failure::says(Exit::Error, why)),
                    Said::Question(question) => {
                        let reply = self.complete(question.code, question.cursor).await;
                        // The editor has waited long enough if it is not there any more.
                        question.answer.send(reply).unwrap_or_default();
                    }
                }
            };
            match self.take(&typed).await {
                Ok(Next::Prompt) => {}
                Ok(Next::End) => return Ok(()),
                Err(failure) if failure.is_quiet() => return Err(failure),
                Err(failure) => self.screen.note(failure.message())?,
            }
        }
    }

    async fn take(&mut self, typed: &str) -> Result<Next, Failure> {
        match parse(typed) {
            Input::Nothing => {}
            Input::Code(code) => {
                self.execute(code).await?;
                self.number += 1;
            }
            Input::Inspect { name, wants_source } => {
                let request = ProbeRequest { code: name.to_owned(), cursor: None };
                let reply = self.target.inspect(&self.session, request).await?;
                self.screen.inspected(name, &reply, wants_source)?;
            }
            Input::Files(dir) => {
                let found = self.target.list_files(&self.session, dir, false).await?;
                self.screen.write(&files::table(&found, true))?;
            }
            Input::Put { file, name } => {
                let put =
                    transfer::put(self.target, &self.session, file, name, UploadKind::File).await?;
                self.screen.note(&format!("put {put}"))?;
            }
            Input::Get { name, file } => {
                let got = transfer::get(self.target, &self.session, name, file, false).await?;
                if let Some((path, size_bytes)) = got {
                    let path = path.display();
                    self.screen.note(&format!("wrote {path} ({size_bytes} bytes)"))?;
                }
            }
            Input::Reset => {
                self.target.reset(&self.session).await?;
                self.screen.was_reset();
                self.screen.note("reset: variables are gone, files are there")?;
            }
            Input::Session => self.describe().await?,
            Input::Keep => {
                self.is_kept = true;
                let session = &self.session;
                self.screen.note(&format!("session {session} stays when you leave"))?;
            }
            Input::Help => self.screen.write(HELP)?,
            Input::Quit => return Ok(Next::End),
            Input::Unknown(text) => {
                self.screen.note(&format!("{text}: no such command, or not so: see :help"))?;
            }
        }
        Ok(Next::Prompt)
    }

    async fn complete(&self, code: String, cursor: u32) -> CompleteReply {
        let request = ProbeRequest { code, cursor: Some(cursor) };
        let answer = self.target.complete(&self.session, request).await;
        answer.unwrap_or_else(|failure| {
            tracing::debug!(why = failure.message(), "no completion");
            CompleteReply::default()
        })
    }

    async fn describe(&mut self) -> Result<(), Failure> {
        let Some(info) = self.target.find(&self.session).await? else {
            return self.screen.note("the session is gone");
        };
        let mebibytes =
            |bytes: Option<u64>| bytes.map_or("?".to_owned(), |b| b.div_ceil(1 << 20).to_string());
        self.screen.write(&format!(
            "session {}, environment {}\nCPU {:.1} ms, memory {} MiB, disk {} MiB, {} executions\n",
            info.id,
            info.environment,
            info.usage.cpu_ms,
            mebibytes(info.usage.memory_bytes),
            mebibytes(info.usage.disk_bytes),
            info.usage.executions,
        ))
    }

    /// Runs code and shows what comes of it. Ctrl-C interrupts it; if it does not give way, the
    /// next one resets the session.
    async fn execute(&mut self, code: &str) -> Result<(), Failure> {
        // What was pressed before the code ran is not for the code.
        while pressed(&mut self.signals.interrupts).await {}
        let request = ExecuteRequest {
            code: code.to_owned(),
            timeout_ms: self.timeout_ms,
            ..Default::default()
        };
        let events =
            self.target.start(&self.session, ExecutionRequest::Code(request), false).await?;
        let mut running = Running { events, exception: None };
        let (target, session, number) = (self.target, self.session.clone(), self.number);
        let mut presses = 0;
        loop {
            tokio::select! {
                shown = running.show(&mut self.screen, number) => return shown,
                _ = self.signals.interrupts.recv() => presses += 1,
                _ = self.signals.terminations.recv() => return Err(left()),
                _ = self.signals.hangups.recv() => return Err(left()),
            }
            // The terminal has shown it as ^C.
            self.screen.leave_line();
            // Beside the execution, which goes on for the interrupt to reach it.
            let stop = async {
                match presses {
                    1 => target.interrupt(&session).await,
                    _ => target.reset(&session).await.map(|()| true),
                }
            };
            let stopped = tokio::select! {
                shown = running.show(&mut self.screen, number) => return shown,
                stopped = stop => stopped,
                _ = self.signals.interrupts.recv(), if presses > 1 => return Err(left()),
                _ = self.signals.terminations.recv() => return Err(left()),
                _ = self.signals.hangups.recv() => return Err(left()),
            };
            match stopped {
                Ok(true) => {}
                Ok(false) => self.screen.note(STUBBORN)?,
                Err(failure) => self.screen.note(failure.message())?,
            }
        }
    }
}

/// Said of code that ignores an interrupt.
const STUBBORN: &str = "still running: Ctrl-C again resets the session, and its variables are lost";

/// We end while code runs.
const fn left() -> Failure {
    Failure::quiet(Exit::Interrupted)
}

/// An execution that is shown.
#[derive(Debug)]
struct Running {
    events: EventStream,
    exception: Option<Exception>,
}

impl Running {
    /// Shows events up to the last. May be dropped, and be called again, without losing any.
    async fn show(&mut self, screen: &mut Screen, number: u64) -> Result<(), Failure> {
        while let Some(event) = self.events.next().await? {
            match event {
                Event::Started(_) => {}
                Event::Stdout(text) => screen.print(&text)?,
                Event::Stderr(text) => screen.print_error(&text)?,
                Event::Display(shown) => screen.shown(&shown)?,
                Event::Result(value) => screen.value(number, &value)?,
                Event::Error(error) => self.exception = Some(error),
                Event::Gap => screen.note(outcome::EVENTS_MISSING)?,
                Event::Done(done) => return screen.end(&done, self.exception.as_ref()),
            }
        }
        Err(outcome::missing())
    }
}

/// Whether a signal is there already.
async fn pressed(signal: &mut Signal) -> bool {
    tokio::select! {
        biased;
        _ = signal.recv() => true,
        () = std::future::ready(()) => false,
    }
}
