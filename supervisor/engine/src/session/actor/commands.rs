//! Handling the commands that others send to the session.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use tokio::time::Instant;
use vivarium_api_types::SessionState;
use vivarium_protocol::discard;
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT};
use vivarium_protocol::message::{ExecutionNumber, ToAgent};
use vivarium_protocol::outcome::{Cause, State};

use super::beside::MAX_COMMANDS;
use super::{Actor, Context, End, Step, Stop};
use crate::approvals::Asked;
use crate::quotas::{Exceeded, Quota, RETRY_AFTER};
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
            Command::Execute(execution) => self.enqueue(execution),
            Command::Interrupt { execution, context, reply } => {
                self.interrupt(self.target(execution, context.as_deref()), reply)
            }
            Command::Signal(execution, signal, reply) => {
                self.signal_command(execution, signal, reply)
            }
            Command::Resize(execution, size, reply) => self.resize_command(execution, size, reply),
            Command::Reset { context, reply } => self.reset(context.as_deref(), reply),
            Command::OpenContext { name, reply } => self.open(&name, reply),
            Command::CloseContext { name, reply } => self.close(&name, reply),
            Command::Contexts(reply) => {
                discard(reply.send(self.list_contexts()), "who asked may be gone");
                Step::Continue(())
            }
            Command::Describe(reply) => {
                self.describes.push(reply);
                // One question answers all who ask meanwhile.
                if self.describes.len() == 1 {
                    self.send(&ToAgent::Describe)?;
                }
                Step::Continue(())
            }
            Command::CountProcesses(reply) => {
                self.counts.push(reply);
                self.send(&ToAgent::CountProcesses)
            }
            Command::File(command) => self.file(*command),
            Command::Connect(ConnectCommand { request, reply }) => {
                match self.channel.send_connect(request, reply) {
                    Ok(()) => Step::Continue(()),
                    Err(error) => Step::Break(End::new(Cause::Agent, error.to_string())),
                }
            }
            Command::Egress(reply) => match self.channel.send_egress(reply) {
                Ok(()) => Step::Continue(()),
                Err(error) => Step::Break(End::new(Cause::Agent, error.to_string())),
            },
            Command::CountFrom(last, reply) => {
                self.last_number = self.last_number.max(last);
                discard(reply.send(self.last_number), "who asked may be gone");
                Step::Continue(())
            }
            Command::WhenIdle(reply) => {
                self.end_awaiting();
                self.idle_waiters.push(reply);
                self.dispatch_all()
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

    fn enqueue(&mut self, mut execution: Box<QueuedExecution>) -> Step {
        self.forget_abandoned();
        let Some(context) = self.open_context(execution.spec.context.as_deref()) else {
            execution.writer.refuse(Refusal::UnknownContext);
            return Step::Continue(());
        };
        if let Some(refusal) = self.refusal(context, &execution) {
            execution.writer.refuse(refusal);
            return Step::Continue(());
        }
        let kind = execution.spec.kind();
        if !kind.is_question() && self.has_to_wait(context, &execution) {
            execution.waiting = self.launch.quotas.queued();
            if execution.waiting.is_none() {
                let exceeded = Exceeded { quota: Quota::MaxQueued, retry_after: RETRY_AFTER };
                execution.writer.refuse(Refusal::OverQuota(exceeded));
                return Step::Continue(());
            }
        }
        let asked = match kind.is_question() {
            true => Asked::Allowed,
            false => self.ask_approval(self.last_number + 1, &execution),
        };
        if matches!(asked, Asked::TooMany) {
            let exceeded = Exceeded { quota: Quota::MaxWaiting, retry_after: RETRY_AFTER };
            execution.writer.refuse(Refusal::OverQuota(exceeded));
            return Step::Continue(());
        }
        let last = if kind.is_question() { &mut self.last_question } else { &mut self.last_number };
        *last += 1;
        let number = *last;
        if !kind.is_question() {
            self.launch.results.add(&self.session.identity, number, execution.writer.log());
        }
        (execution.number, execution.queued_at) = (number, Instant::now());
        match asked {
            Asked::Waiting(waiting) => self.await_approval(&mut execution, waiting),
            Asked::Denied => {
                self.denied_by_rule(*execution);
                return Step::Continue(());
            }
            Asked::Allowed | Asked::TooMany => execution.writer.queued(number),
        }
        if let Some(context) = self.contexts.get_mut(context) {
            context.queue.push_back(execution);
        }
        if kind != Kind::Image {
            self.session.touch();
        }
        self.dispatch(context)
    }

    /// Whether others have their turn before it.
    fn has_to_wait(&self, number: ContextNumber, execution: &QueuedExecution) -> bool {
        let is_before = |queued: &QueuedExecution| queued.spec.waits_for_turn();
        execution.spec.waits_for_turn()
            && self.contexts.get(number).is_some_and(|context| {
                self.has_turn(number, context)
                    || context.queue.iter().any(|queued| is_before(queued))
            })
    }

    /// Whether something has its turn in a context.
    fn has_turn(&self, number: ContextNumber, context: &Context) -> bool {
        context.running.is_some()
            || (number == FIRST_CONTEXT && self.commands.values().any(|it| it.has_turn))
    }

    /// Why something is not even queued, if it is not.
    fn refusal(&self, number: ContextNumber, execution: &QueuedExecution) -> Option<Refusal> {
        let context = self.contexts.get(number)?;
        let kind = execution.spec.kind();
        if self.session.is_asleep() && kind != Kind::Image {
            return Some(Refusal::Suspended);
        }
        if execution.spec.survives_reset && !self.has_leaves() {
            return Some(Refusal::NotSurvivable);
        }
        let queued = context.queue.iter().filter(|queued| queued.spec.waits_for_turn()).count();
        let has_turn = self.has_turn(number, context);
        // What waits for a checkpoint does not keep that from being made.
        let is_next = kind == Kind::Image && self.session.is_taking_checkpoint();
        let has_others = queued > 0 && !is_next;
        if kind.is_question() && (has_turn || has_others || context.state != SessionState::Idle) {
            return Some(Refusal::Busy);
        }
        // The one that runs, or is the next to, does not count as waiting.
        let waits_for_turn = execution.spec.waits_for_turn();
        if waits_for_turn && queued + usize::from(has_turn) > self.session.timing.queue_depth {
            return Some(Refusal::QueueFull);
        }
        let commands = self.commands.len() + self.making.len() + context.queue.len() - queued;
        (!waits_for_turn && commands >= MAX_COMMANDS).then_some(Refusal::TooManyCommands)
    }

    /// Answers those in the queues that nobody waits for any more, and that are not to run then.
    fn forget_abandoned(&mut self) {
        let is_abandoned = |queued: &QueuedExecution| queued.writer.log().is_abandoned();
        let mut abandoned = Vec::new();
        for (_, context) in self.contexts.iter_mut() {
            let (gone, waiting): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut context.queue)
                .into_iter()
                .partition(|queued| is_abandoned(queued));
            context.queue = waiting;
            abandoned.extend(gone);
        }
        for queued in abandoned {
            self.never_ran(*queued, Cause::Interrupt, CLIENT_GONE, State::Preserved);
        }
    }

    /// Everybody went away for whom this runs.
    pub(super) fn interrupt_abandoned(&mut self, number: ContextNumber) -> Step {
        match self.contexts.get_mut(number).and_then(|context| context.running.as_mut()) {
            Some(running) => running.stop = Some(Stop::User),
            None => return Step::Continue(()),
        }
        self.send_interrupt(number)
    }

    /// Interrupts code or a command that runs.
    fn interrupt(
        &mut self,
        execution: Option<ExecutionNumber>,
        reply: oneshot::Sender<Option<Interrupted>>,
    ) -> Step {
        let context = execution.and_then(|execution| self.contexts.running(execution));
        let (sender, ended) = oneshot::channel();
        let found = match (execution, context) {
            (Some(_), Some(number)) => {
                self.contexts.get_mut(number).and_then(|context| context.running.as_mut())
            }
            (Some(execution), None) => {
                self.commands.get_mut(&execution).map(|command| &mut command.execution)
            }
            (None, _) => None,
        };
        let Some(running) = found else { return self.interrupt_waiting_call(execution, reply) };
        running.interrupts.push(sender);
        running.stop.get_or_insert(Stop::User);
        let execution = running.number;
        discard(reply.send(Some(Interrupted { execution, ended })), "who asked may be gone");
        match context {
            Some(number) => self.send_interrupt(number),
            None => self.interrupt_command(execution),
        }
    }

    /// Sends SIGINT to what runs. The deadline stays: code that ignores it is not killed for it.
    pub(super) fn send_interrupt(&mut self, number: ContextNumber) -> Step {
        self.let_context_print(number)?;
        if let Some(context) = self.contexts.get(number)
            && let Some(running) = &context.running
            && matches!(context.state, SessionState::Running | SessionState::Interrupting)
        {
            let execution = running.number;
            self.set_state(number, Event::Interrupted)?;
            self.send(&ToAgent::Interrupt { execution })?;
        }
        Step::Continue(())
    }

    /// Why the session ends that somebody wanted to end.
    fn closing(&self, cause: Cause) -> String {
        match cause {
            Cause::Draining => "the daemon is draining".to_owned(),
            Cause::Expired => self.session.why_expired(),
            Cause::Suspended => "the session was suspended".to_owned(),
            _ => "the session was deleted".to_owned(),
        }
    }
}
