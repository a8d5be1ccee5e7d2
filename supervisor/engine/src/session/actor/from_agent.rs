//! Handling the agent's messages.

use std::sync::Arc;

use vivarium_api_types::SessionState;
use vivarium_protocol::discard;
use vivarium_protocol::layer::Report;
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT};
use vivarium_protocol::message::{ExecutionNumber, FromAgent, Origin, ToAgent};
use vivarium_protocol::outcome::{Cause, KernelEnd, Usage};

use super::finish::with_kernel;
use super::{Actor, End, RunningExecution, Step, Stop};
use crate::budget::Reservation;
use crate::session::cause;
use crate::session::channel::ChannelError;
use crate::session::deadlines::Awaited;
use crate::session::execution::Kind;
use crate::session::liveness::{ANSWERS_WITHIN, Check};
use crate::session::state::Event;

impl Actor {
    pub(super) fn on_message(&mut self, message: Result<FromAgent, ChannelError>) -> Step {
        // Kept until what came is counted with the rest.
        let paid = self.channel.take_paid();
        let message = match message {
            Ok(message) => message,
            Err(error @ ChannelError::Frame(_)) => return protocol(error.to_string()),
            Err(error) => {
                let end = End::new(Cause::Agent, error.to_string());
                return Step::Break(End { is_silent: true, ..end });
            }
        };
        if let Err(error) = self.sequence.accept(&message) {
            return protocol(error.to_string());
        }
        self.liveness.answered();
        if let FromAgent::Done { execution, completion, account, .. } = &message
            && self
                .running(*execution)
                .is_some_and(|it| !it.collector.permits(*completion, account))
        {
            return protocol(format!("the agent told what execution {execution} is not asked for"));
        }
        if let Some(number) = message.execution()
            && self.commands.contains_key(&number)
        {
            return self.on_command_message(number, message, paid.as_ref());
        }
        match message {
            FromAgent::Pong => Step::Continue(()),
            FromAgent::KernelReady { context, origin, protection, .. } => {
                self.kernel_ready(context, origin, protection)
            }
            FromAgent::KernelExited { context, execution, ref end, usage, .. } => {
                let end = end.clone();
                self.fold(context, message, paid.as_ref())?;
                self.kernel_exited(context, execution.is_some(), &end, usage)
            }
            FromAgent::ContextClosed { context } => self.context_closed(context),
            FromAgent::Described(description) => {
                for asked in self.describes.drain(..) {
                    discard(asked.send(description.clone()), "who asked may be gone");
                }
                Step::Continue(())
            }
            FromAgent::Processes(count) => {
                if !self.counts.is_empty() {
                    discard(self.counts.remove(0).send(count), "who asked may be gone");
                }
                Step::Continue(())
            }
            FromAgent::FileDone { transfer, reply } => {
                if self.transfers.answer(transfer, reply) {
                    return Step::Continue(());
                }
                protocol("the agent answered a transfer that nobody had asked for".to_owned())
            }
            FromAgent::Failed(failure) => Step::Break(End {
                cause: Cause::Agent,
                detail: cause::bounded(&failure.to_string()),
                failure: Some(failure),
                is_silent: false,
            }),
            _ => {
                let number = message.execution();
                match number.and_then(|number| self.contexts.running(number)) {
                    Some(context) => self.on_execution_message(context, message, paid.as_ref()),
                    // Of what its context was closed around.
                    None => Step::Continue(()),
                }
            }
        }
    }

    fn running(&self, execution: ExecutionNumber) -> Option<&RunningExecution> {
        if let Some(command) = self.commands.get(&execution) {
            return Some(&command.execution);
        }
        self.contexts.get(self.contexts.running(execution)?)?.running.as_ref()
    }

    /// What the agent says of the code that a context runs.
    fn on_execution_message(
        &mut self,
        number: ContextNumber,
        message: FromAgent,
        paid: Option<&Reservation>,
    ) -> Step {
        match message {
            FromAgent::Started { at_us, .. } => self.started(number, at_us),
            FromAgent::FilesRefused { name, reason, .. } => {
                let detail = cause::bounded(&format!("input file {name:?}: {reason}"));
                self.over(number)?;
                if let Some(running) = self.take_running(number) {
                    self.reject(running, None, detail);
                }
                self.dispatch(number)
            }
            FromAgent::CpuLimitReached { used_us, .. } => {
                let running = self.contexts.get(number).and_then(|it| it.running.as_ref());
                // Unless it is being stopped for good already.
                match running.and_then(|running| running.stop) {
                    None | Some(Stop::User) => self.stop(number, Stop::CpuTime(used_us)),
                    Some(_) => Step::Continue(()),
                }
            }
            FromAgent::Done { completion, usage, .. } => {
                self.fold(number, message, paid)?;
                let forks_refused = self.refusals(number);
                self.over(number)?;
                self.finish_done(number, completion, usage, forks_refused);
                self.dispatch(number)
            }
            _ => self.fold(number, message, paid),
        }
    }

    /// Asks an agent that is silent whether it is there, and gives up one that does not answer.
    pub(super) fn look_at_agent(&mut self) -> Step {
        let is_wanted = !self.commands.is_empty()
            || !self.describes.is_empty()
            || !self.counts.is_empty()
            || self.contexts.iter().any(|(_, context)| context.awaits_agent())
            || self.session.is_transferring();
        let listens = self.budget_wait().is_zero() || self.launch.account.excess().is_none();
        match self.liveness.check(is_wanted, listens) {
            Check::Fine => Step::Continue(()),
            Check::Ask => self.send(&ToAgent::Ping),
            Check::Hangs => {
                let within = ANSWERS_WITHIN.as_secs();
                let why = format!("the agent did not answer within {within} s");
                Step::Break(End::new(Cause::Agent, why))
            }
        }
    }

    /// Takes in what came of an execution, or forgets it where the daemon has no room for it. Where
    /// who reads it is behind, its code is to wait.
    fn fold(
        &mut self,
        number: ContextNumber,
        message: FromAgent,
        paid: Option<&Reservation>,
    ) -> Step {
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        let Some(running) = &mut context.running else { return Step::Continue(()) };
        running.fold(message, paid, &self.launch.account);
        if !context.held && running.stop.is_none() && !running.writer.log().is_ready_for_events() {
            context.held = true;
            let execution = running.number;
            self.send(&ToAgent::Hold { execution, held: true })?;
        }
        Step::Continue(())
    }

    pub(super) fn take_running(&mut self, number: ContextNumber) -> Option<RunningExecution> {
        let context = self.contexts.get_mut(number)?;
        context.held = false;
        context.running.take()
    }

    fn kernel_ready(
        &mut self,
        number: ContextNumber,
        origin: Origin,
        protection: Vec<Report>,
    ) -> Step {
        let is_first = number == FIRST_CONTEXT;
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        if context.closing.is_some() {
            return Step::Continue(());
        }
        context.retried = false;
        context.origin = Some(origin);
        context.kernel_end = None;
        context.kernels.ready();
        self.session.is_at_checkpoint(None);
        self.resources.kernel_came(origin);
        if is_first {
            let mut status = self.session.status();
            status.protection = self.launch.usual(protection);
            status.origin = Some(origin);
        }
        self.launch.observer.kernel_started(origin);
        for reset in context.resets.drain(..) {
            discard(reset.reply.send(Some(reset.done)), "who asked may be gone");
        }
        if let Some(running) = &mut context.running {
            // It was on its way while the last kernel died, and runs in this one.
            running.stop = running.stop.filter(|stop| *stop != Stop::Reset);
            // The start of that is not its doing.
            (running.leaf, running.meter) = (context.leaf, Arc::clone(&context.accounting.meter));
            running.mark = running.meter.mark();
            self.set_state(number, Event::KernelResumed)?;
            self.wait_for(number, Awaited::Handover);
            return Step::Continue(());
        }
        context.deadline.clear();
        self.set_state(number, Event::KernelReady)?;
        if is_first {
            if self.session.started.lock().is_none() {
                self.session.started.set(Some(Ok(())));
                self.launch.observer.session_started(self.session.created.elapsed());
            }
        } else if let Some(context) = self.contexts.get_mut(number)
            && let Some(opening) = context.opening.take()
        {
            let info = context.info(&self.session.identity.id);
            discard(opening.send(Ok(info)), "who asked may be gone");
        }
        self.dispatch(number)
    }

    /// The code runs: its time begins.
    fn started(&mut self, number: ContextNumber, at_us: u64) -> Step {
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        let Some(running) = &mut context.running else { return Step::Continue(()) };
        let waited = running.start(&self.session.identity.id, at_us);
        running.kernel = Some((context.kernels.current(), context.kernels.unreported()));
        if running.kind == Kind::Code {
            context.kernels.code_began();
        }
        if !running.kind.is_question() {
            self.launch.observer.execution_started(waited);
        }
        if context.state == SessionState::Replacing || context.closing.is_some() {
            return Step::Continue(());
        }
        // An interrupt that there was no kernel for, or one that died before it began.
        let is_unheard = running.stop == Some(Stop::User) && context.state == SessionState::Running;
        self.wait_for(number, Awaited::Code);
        if is_unheard { self.send_interrupt(number) } else { Step::Continue(()) }
    }

    /// An execution is over, and the kernel still there unless it was told to go. Noted before
    /// anybody has the answer, so that a session is not shown as running which is known not to be.
    fn over(&mut self, number: ContextNumber) -> Step {
        self.set_state(number, Event::Ended)?;
        if let Some(context) = self.contexts.get_mut(number)
            && context.state == SessionState::Idle
            && context.closing.is_none()
        {
            context.deadline.clear();
        }
        Step::Continue(())
    }

    fn kernel_exited(
        &mut self,
        number: ContextNumber,
        took_execution: bool,
        end: &KernelEnd,
        usage: Usage,
    ) -> Step {
        let evidence = self.gather(number);
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        let is_starting = context.state == SessionState::Starting;
        let is_closing = context.closing.is_some();
        let by_agent = matches!(end, KernelEnd::Signaled { by_agent: true, .. });
        let by_order = by_agent && (context.state == SessionState::Replacing || is_closing);
        let (cause, detail) = match context.kernel_end.take().filter(|_| by_agent && !by_order) {
            Some((cause, of_other)) => (cause, with_kernel(&of_other)),
            None => cause::explain(end, &self.session.limits(), evidence),
        };
        if !is_starting && !is_closing {
            let order = context.running.as_ref().and_then(|running| running.stop);
            self.launch.observer.kernel_restarted(match order {
                _ if !by_order => cause,
                Some(Stop::WallTime) => Cause::WallTime,
                Some(Stop::CpuTime(_)) => Cause::CpuLimit,
                Some(Stop::User | Stop::Reset | Stop::ContextDeleted) | None => Cause::Reset,
            });
        }
        // One that is closed, or never ran anything, ends alone.
        let ends_alone = number != FIRST_CONTEXT && matches!(end, KernelEnd::NotStarted(_));
        if !is_closing && !ends_alone {
            self.ends_with_kernel(number, cause, &detail);
        }
        if took_execution {
            self.finish_killed(number, cause, &detail, usage, evidence.forks_refused);
        } else if let Some(context) = self.contexts.get_mut(number) {
            if !by_order && !is_starting {
                let (session, context) = (&self.session.identity.id, &*context.name);
                tracing::info!(session, context, detail, "a kernel died");
            }
            context.kernels.ended(cause, &detail, false);
        }
        if is_closing {
            return Step::Continue(());
        }
        self.set_state(number, Event::KernelGone)?;
        self.note_queues();
        if let KernelEnd::NotStarted(_) = end
            && let Some(context) = self.contexts.get_mut(number)
        {
            if context.retried && number == FIRST_CONTEXT {
                return Step::Break(End::new(Cause::KernelStart, detail));
            }
            if context.retried {
                return self.close_failed(number, &detail);
            }
            context.retried = true;
        }
        self.next_kernel(number, !matches!(end, KernelEnd::NotStarted(_)))
    }
}

fn protocol(detail: String) -> Step {
    Step::Break(End::new(Cause::Protocol, format!("{detail}; its session was killed for it")))
}
