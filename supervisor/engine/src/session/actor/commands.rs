//! Handling the commands that others send to the session.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use tokio::time::Instant;
use vivarium_api_types::SessionState;
use vivarium_protocol::discard;
use vivarium_protocol::message::{ExecutionNumber, ToAgent};
use vivarium_protocol::outcome::{Cause, State};

use super::beside::MAX_COMMANDS;
use super::{Actor, End, Reset, Step, Stop};
use crate::session::execution::Kind;
use crate::session::port::ConnectCommand;
use crate::session::state::Event;
use crate::session::transfer::FileCommand;
use crate::session::{Command, Interrupted, QueuedExecution, Refusal};

/// Why an execution did not run that its client did not wait for.
pub(super) const CLIENT_GONE: &str = "its client went away before its turn came";

impl Actor {
    pub(super) fn on_command(&mut self, command: Command) -> Step {
        match command {
            Command::Execute(execution) => self.enqueue(*execution),
            Command::Interrupt(execution, reply) => self.interrupt(execution, reply),
            Command::Signal(execution, signal, reply) => {
                self.signal_command(execution, signal, reply)
            }
            Command::Resize(execution, size, reply) => {
                self.tell_command(execution, &ToAgent::Resize { execution, size }, reply)
            }
            Command::Reset(reply) => self.reset(reply),
            Command::Describe(reply) => {
                self.describes.push(reply);
                // One question answers all who ask meanwhile.
                if self.describes.len() == 1 {
                    self.send(&ToAgent::Describe)?;
                }
                Step::Continue(())
            }
            Command::File(command) => self.file(command),
            Command::Connect(ConnectCommand { request, reply }) => {
                match self.channel.send_connect(request, reply) {
                    Ok(()) => Step::Continue(()),
                    Err(error) => Step::Break(End::new(Cause::Agent, error.to_string())),
                }
            }
            Command::WhenIdle(reply) => {
                self.idle_waiters.push(reply);
                self.dispatch()
            }
            Command::Close(cause) => Step::Break(End::new(cause, self.closing(cause))),
        }
    }

    /// Only hands it over: what becomes of it is between the agent and who asked.
    fn file(&mut self, command: FileCommand) -> Step {
        let FileCommand { operation, socket, waiting } = command;
        let transfer = self.transfers.begin(waiting);
        self.liveness.wanted();
        match self.channel.send_file(transfer, operation, socket) {
            Ok(()) => Step::Continue(()),
            Err(error) => Step::Break(End::new(Cause::Agent, error.to_string())),
        }
    }

    fn enqueue(&mut self, mut execution: QueuedExecution) -> Step {
        self.forget_abandoned();
        let is_assist = execution.spec.kind() == Kind::Assist;
        let queued = self.queue.iter().filter(|queued| queued.spec.waits_for_turn()).count();
        let has_turn = self.running.is_some() || self.commands.values().any(|it| it.has_turn);
        if is_assist && (has_turn || queued > 0 || self.state != SessionState::Idle) {
            execution.writer.refuse(Refusal::Busy);
            return Step::Continue(());
        }
        // The one that runs, or is the next to, does not count as waiting.
        let waits_for_turn = execution.spec.waits_for_turn();
        if waits_for_turn && queued + usize::from(has_turn) > self.session.timing.queue_depth {
            execution.writer.refuse(Refusal::QueueFull);
            return Step::Continue(());
        }
        let commands = self.commands.len() + self.queue.len() - queued;
        if !waits_for_turn && commands >= MAX_COMMANDS {
            execution.writer.refuse(Refusal::TooManyCommands);
            return Step::Continue(());
        }
        let last = if is_assist { &mut self.last_question } else { &mut self.last_number };
        *last += 1;
        let number = *last;
        if !is_assist {
            self.context.results.add(&self.session.identity, number, execution.writer.log());
        }
        execution.writer.queued(number);
        (execution.number, execution.queued_at) = (number, Instant::now());
        self.queue.push_back(execution);
        self.session.touch();
        self.dispatch()
    }

    /// Answers those in the queue that nobody waits for any more, and that are not to run then.
    fn forget_abandoned(&mut self) {
        let is_abandoned = |queued: &QueuedExecution| queued.writer.log().is_abandoned();
        let (abandoned, waiting): (VecDeque<_>, _) =
            std::mem::take(&mut self.queue).into_iter().partition(is_abandoned);
        self.queue = waiting;
        for queued in abandoned {
            self.never_ran(queued, Cause::Interrupt, CLIENT_GONE, State::Preserved);
        }
    }

    /// Everybody went away for whom this runs.
    pub(super) fn interrupt_abandoned(&mut self) -> Step {
        match &mut self.running {
            Some(running) => running.stop = Some(Stop::User),
            None => return Step::Continue(()),
        }
        self.send_interrupt()
    }

    /// Interrupts this execution; without one the code that runs, or else the command that was
    /// started last and that somebody waits for.
    fn interrupt(
        &mut self,
        execution: Option<ExecutionNumber>,
        reply: oneshot::Sender<Option<Interrupted>>,
    ) -> Step {
        let code = self.running.as_ref().map(|running| running.number);
        let execution = execution.or(code).or_else(|| self.last_foreground_command());
        let Some(execution) = execution.filter(|execution| Some(*execution) != code) else {
            return self.interrupt_code(reply);
        };
        let Some(command) = self.commands.get_mut(&execution) else {
            discard(reply.send(None), "who asked may be gone");
            return Step::Continue(());
        };
        let (sender, ended) = oneshot::channel();
        command.execution.interrupts.push(sender);
        discard(reply.send(Some(Interrupted { execution, ended })), "who asked may be gone");
        self.interrupt_command(execution)
    }

    fn interrupt_code(&mut self, reply: oneshot::Sender<Option<Interrupted>>) -> Step {
        let Some(running) = &mut self.running else {
            discard(reply.send(None), "who asked may be gone");
            return Step::Continue(());
        };
        let (sender, ended) = oneshot::channel();
        running.interrupts.push(sender);
        running.stop.get_or_insert(Stop::User);
        let execution = running.number;
        discard(reply.send(Some(Interrupted { execution, ended })), "who asked may be gone");
        self.send_interrupt()
    }

    /// Sends SIGINT to what runs. The deadline stays: code that ignores it is not killed for it.
    pub(super) fn send_interrupt(&mut self) -> Step {
        if let Some(running) = &self.running
            && matches!(self.state, SessionState::Running | SessionState::Interrupting)
        {
            let execution = running.number;
            self.set_state(Event::Interrupted)?;
            self.send(&ToAgent::Interrupt { execution })?;
        }
        Step::Continue(())
    }

    /// Does not wait behind the queue: what is queued runs in the fresh kernel.
    fn reset(&mut self, reply: oneshot::Sender<Option<ExecutionNumber>>) -> Step {
        let ended = self.running.as_ref().map(|running| running.number);
        self.resets.push(Reset { ended, reply });
        if matches!(self.state, SessionState::Starting | SessionState::Replacing) {
            // The kernel that is on its way is a fresh one.
            return Step::Continue(());
        }
        if let Some(running) = &mut self.running {
            running.stop = Some(Stop::Reset);
        }
        self.replace()
    }

    /// Why the session ends that somebody wanted to end.
    fn closing(&self, cause: Cause) -> String {
        match cause {
            Cause::Draining => "the daemon is shutting down".to_owned(),
            Cause::Expired => self.session.why_expired(),
            _ => "the session was deleted".to_owned(),
        }
    }
}
