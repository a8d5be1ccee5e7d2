//! Handling the agent's messages.

use tokio::time::Instant;
use vivarium_api_types::SessionState;
use vivarium_protocol::discard;
use vivarium_protocol::layer::Report;
use vivarium_protocol::message::{FromAgent, Origin, ToAgent};
use vivarium_protocol::outcome::{Cause, KernelEnd, Usage};

use super::{Actor, End, Step, Stop};
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
        if let Some(number) = message.execution()
            && self.commands.contains_key(&number)
        {
            return self.on_command_message(number, message, paid.as_ref());
        }
        match message {
            FromAgent::Pong => Step::Continue(()),
            FromAgent::Failed(failure) => Step::Break(End {
                cause: Cause::Agent,
                detail: cause::bounded(&failure.to_string()),
                failure: Some(failure),
                is_silent: false,
            }),
            FromAgent::KernelReady { origin, protection, .. } => {
                self.kernel_ready(origin, protection)
            }
            FromAgent::Started { .. } => self.started(),
            FromAgent::FilesRefused { name, reason, .. } => {
                let detail = cause::bounded(&format!("input file {name:?}: {reason}"));
                self.over()?;
                if let Some(running) = self.running.take() {
                    self.reject(running, None, detail);
                }
                self.dispatch()
            }
            FromAgent::CpuLimitReached { used_us, .. } => {
                // Unless it is being stopped for good already.
                match self.running.as_ref().and_then(|running| running.stop) {
                    None | Some(Stop::User) => self.stop(Stop::CpuTime(used_us)),
                    Some(_) => Step::Continue(()),
                }
            }
            FromAgent::Described(description) => {
                for asked in self.describes.drain(..) {
                    discard(asked.send(description.clone()), "who asked may be gone");
                }
                Step::Continue(())
            }
            FromAgent::Done { completion, usage, .. } => {
                self.fold(message, paid.as_ref());
                let forks_refused = self.refusals();
                self.over()?;
                self.finish_done(completion, usage, forks_refused);
                self.dispatch()
            }
            FromAgent::KernelExited { execution, ref end, usage, .. } => {
                let end = end.clone();
                self.fold(message, paid.as_ref());
                self.kernel_exited(execution.is_some(), &end, usage)
            }
            FromAgent::Output { .. }
            | FromAgent::Value { .. }
            | FromAgent::Exception { .. }
            | FromAgent::Display { .. }
            | FromAgent::File { .. } => {
                self.fold(message, paid.as_ref());
                Step::Continue(())
            }
            FromAgent::FileDone { transfer, reply } => {
                if self.transfers.answer(transfer, reply) {
                    return Step::Continue(());
                }
                protocol("the agent answered a transfer that nobody had asked for".to_owned())
            }
        }
    }

    /// Asks an agent that is silent whether it is there, and gives up one that does not answer.
    pub(super) fn look_at_agent(&mut self) -> Step {
        let is_wanted = self.running.is_some()
            || !self.commands.is_empty()
            || !self.describes.is_empty()
            || self.state == SessionState::Replacing
            || self.session.is_transferring();
        let listens = self.running.as_ref().is_none_or(|running| {
            let has_room = || {
                running.writer.log().is_ready_for_events()
                    && self.context.account.excess().is_none()
            };
            running.stop.is_some() || has_room()
        });
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

    /// Takes in what came of the execution, or forgets it where the daemon has no room for it.
    fn fold(&mut self, message: FromAgent, paid: Option<&Reservation>) {
        if let Some(running) = &mut self.running {
            running.fold(message, paid, &self.context.account);
        }
    }

    fn kernel_ready(&mut self, origin: Origin, protection: Vec<Report>) -> Step {
        self.retried = false;
        self.resources.kernel_came(origin);
        {
            let mut status = self.session.status();
            status.protection = self.context.usual(protection);
            status.origin = Some(origin);
        }
        self.context.observer.kernel_started(origin);
        self.kernels.ready();
        for reset in self.resets.drain(..) {
            discard(reset.reply.send(reset.ended), "who asked may be gone");
        }
        if let Some(running) = &mut self.running {
            // It was on its way while the last kernel died, and runs in this one.
            running.stop = running.stop.filter(|stop| *stop != Stop::Reset);
            // The start of that is not its doing.
            running.mark = self.meter.mark();
            self.set_state(Event::KernelResumed)?;
            return self.wait_for(Awaited::Handover);
        }
        self.deadline.clear();
        self.set_state(Event::KernelReady)?;
        let first = self.session.started.send_if_modified(|started| {
            let first = started.is_none();
            started.get_or_insert(Ok(()));
            first
        });
        if first {
            self.context.observer.session_started(self.session.created.elapsed());
        }
        self.dispatch()
    }

    /// The code runs: its time begins.
    fn started(&mut self) -> Step {
        let Some(running) = &mut self.running else { return Step::Continue(()) };
        let now = Instant::now();
        running.started = Some(now);
        running.kernel = Some((self.kernels.current(), self.kernels.unreported()));
        if running.kind == Kind::Code {
            self.kernels.code_began();
        }
        running.writer.started(running.number, &self.session.identity.id);
        if running.kind != Kind::Assist {
            self.context.observer.execution_started(now - running.queued_at);
        }
        if self.state == SessionState::Replacing {
            return Step::Continue(());
        }
        // An interrupt that there was no kernel for, or one that died before it began.
        let is_unheard = running.stop == Some(Stop::User) && self.state == SessionState::Running;
        self.wait_for(Awaited::Code)?;
        if is_unheard { self.send_interrupt() } else { Step::Continue(()) }
    }

    /// An execution is over, and the kernel still there unless it was told to go. Noted before
    /// anybody has the answer, so that a session is not shown as running which is known not to be.
    fn over(&mut self) -> Step {
        self.set_state(Event::Ended)?;
        if self.state == SessionState::Idle {
            self.deadline.clear();
        }
        Step::Continue(())
    }

    fn kernel_exited(&mut self, took_execution: bool, end: &KernelEnd, usage: Usage) -> Step {
        let evidence = self.gather();
        let (cause, detail) = cause::explain(end, &self.session.limits(), evidence);
        let by_order = matches!(end, KernelEnd::Signaled { by_agent: true, .. })
            && self.state == SessionState::Replacing;
        if self.state != SessionState::Starting {
            let order = self.running.as_ref().and_then(|running| running.stop);
            self.context.observer.kernel_restarted(match order {
                _ if !by_order => cause,
                Some(Stop::WallTime) => Cause::WallTime,
                Some(Stop::CpuTime(_)) => Cause::CpuLimit,
                Some(Stop::User | Stop::Reset) | None => Cause::Reset,
            });
        }
        self.commands_end_with_kernel(cause, &detail);
        if took_execution {
            self.finish_killed(cause, &detail, usage, evidence.forks_refused);
        } else {
            if !by_order && self.state != SessionState::Starting {
                tracing::info!(session = self.session.identity.id, detail, "a kernel died");
            }
            self.kernels.ended(cause, &detail, false);
        }
        self.set_state(Event::KernelGone)?;
        self.note_queue();
        if let KernelEnd::NotStarted(_) = end {
            if self.retried {
                return Step::Break(End::new(Cause::KernelStart, detail));
            }
            self.retried = true;
            self.send(&ToAgent::Replace)?;
        }
        self.wait_for(Awaited::Kernel)
    }
}

fn protocol(detail: String) -> Step {
    Step::Break(End::new(Cause::Protocol, format!("{detail}; its session was killed for it")))
}
