//! What of the queues can run now, and its way to the agent.

use std::sync::Arc;

use vivarium_api_types::SessionState;
use vivarium_protocol::discard;
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT, Leaf};
use vivarium_protocol::message::{Execute, Noted, ToAgent, Work};
use vivarium_protocol::outcome::{Cause, State};
use vivarium_protocol::policy::Limits;
use vivarium_protocol::units::Limit;

use super::context::Context;
use super::running::{Overlap, RunningExecution};
use super::{Actor, Step, commands};
use crate::cgroup::Meter;
use crate::session::QueuedExecution;
use crate::session::audited::Audited;
use crate::session::deadlines::Awaited;
use crate::session::execution::{Kind, WorkSpec};
use crate::session::output::Collector;
use crate::session::state::Event;

impl Actor {
    /// Hands the agent what can run now: of each context the next of its queue if nothing has its
    /// turn there, and commands that wait for no turn if there is a kernel, whose session they are to
    /// run in.
    pub(super) fn dispatch_all(&mut self) -> Step {
        for number in self.contexts.numbers() {
            self.dispatch(number)?;
        }
        Step::Continue(())
    }

    /// The same of one context. Commands are in the queue of the first.
    pub(super) fn dispatch(&mut self, number: ContextNumber) -> Step {
        let is_held = self.session.is_held();
        while let Some(context) = self.contexts.get_mut(number) {
            let is_free = context.state == SessionState::Idle
                && context.closing.is_none()
                && self.sequence.is_ready(number)
                && (number != FIRST_CONTEXT
                    || !self.commands.values().any(|command| command.has_turn));
            let has_kernel = !matches!(
                context.state,
                SessionState::Starting | SessionState::Replacing | SessionState::Closed
            );
            let mut is_turn = is_free;
            let mut can_run = |queued: &QueuedExecution| {
                if is_held && queued.spec.kind() != Kind::Image {
                    return false;
                }
                let is_allowed = queued.awaited.is_none();
                if !queued.spec.waits_for_turn() {
                    return is_allowed && has_kernel;
                }
                // One that waits for approval keeps its turn.
                std::mem::replace(&mut is_turn, false) && is_allowed
            };
            let next = context.queue.iter().position(|queued| can_run(queued));
            let Some(mut queued) = next.and_then(|next| context.queue.remove(next)) else { break };
            if queued.writer.log().is_abandoned() {
                self.never_ran(*queued, Cause::Interrupt, commands::CLIENT_GONE, State::Preserved);
                continue;
            }
            if queued.spec.kind() == Kind::Command {
                self.take_up_command(*queued)?;
                continue;
            }
            let execution = queued.number;
            let (leaf, meter) = (context.leaf, Arc::clone(&context.accounting.meter));
            let mut descriptors: Vec<_> = queued.spec.descriptor.take().into_iter().collect();
            let tools = queued.spec.tools.take();
            let (mut running, message) = self.take_up(*queued, number, leaf, meter);
            match self.open_calls(&mut running, tools) {
                Ok(pipes) => descriptors.extend(pipes.into_iter().flatten()),
                Err(error) => {
                    self.reject(running, None, format!("make the pipes of its calls: {error}"));
                    continue;
                }
            }
            if let Err(error) = self.channel.send_with(&message, descriptors) {
                self.reject(running, None, error.to_string());
                continue;
            }
            if let Some(context) = self.contexts.get_mut(number) {
                context.running = Some(running);
            }
            self.liveness.wanted();
            self.sequence.sent(number, execution);
            self.set_state(number, Event::Sent)?;
            self.wait_for(number, Awaited::Handover);
        }
        if self.is_idle() {
            for waiter in self.idle_waiters.drain(..) {
                discard(waiter.send(()), "nobody waits any more");
            }
        }
        self.note_queues();
        Step::Continue(())
    }

    /// Whether nothing runs or waits that somebody waits for.
    fn is_idle(&self) -> bool {
        let is_idle = |context: &Context| context.running.is_none() && context.queue.is_empty();
        self.contexts.iter().all(|(_, context)| is_idle(context)) && self.foreground_commands() == 0
    }

    /// Makes a running execution of a queued one, and the message that hands it to the agent.
    pub(super) fn take_up(
        &mut self,
        queued: QueuedExecution,
        context: ContextNumber,
        leaf: Leaf,
        meter: Arc<Meter>,
    ) -> (RunningExecution, ToAgent) {
        let kind = queued.spec.kind();
        let prints_on = queued.spec.prints_on();
        let mut others: Vec<_> =
            self.contexts.iter_mut().filter_map(|(_, context)| context.running.as_mut()).collect();
        others.extend(self.commands.values_mut().map(|command| &mut command.execution));
        let mut overlap = Overlap::None;
        for other in &mut others {
            let with_other = if other.leaf == leaf { Overlap::InLeaf } else { Overlap::InSession };
            other.overlap = other.overlap.max(with_other);
            overlap = overlap.max(with_other);
        }
        let mut limits = Limits::clone(&self.session.limits());
        if prints_on {
            limits.max_output_bytes = Limit::Unlimited;
        }
        if matches!(queued.spec.work, Work::Image(_) | Work::Assist { .. }) {
            // What a kernel says of its image, or of code, is no result of code. The agent bounds it.
            limits.max_result_bytes = Limit::Unlimited;
        }
        let QueuedExecution { spec, streamed, session_created, writer, .. } = queued;
        let QueuedExecution { reservation, number, queued_at, .. } = queued;
        let WorkSpec { work, files, outputs, timeout, .. } = spec;
        let observer = &self.launch.observer;
        let mut audited = Audited::of(&work, &self.session.limits(), timeout, observer);
        if let (Some(audited), Some(audit)) = (&mut audited, observer.audit()) {
            audited.begins(&self.session);
            audited.started(&self.session.identity, number, &work, audit);
        }
        let noted = Noted::of(&work);
        let names = outputs.iter().map(|output| output.name.clone()).collect();
        let before = if kind.is_question() { None } else { self.session.leave_checkpoint() };
        let running = RunningExecution {
            number,
            kind,
            timeout,
            queued_at,
            started: None,
            leaf,
            mark: meter.mark(),
            meter,
            overlap,
            stop: None,
            killed: false,
            collector: Collector::new(&limits, outputs, streamed || prints_on).noting(noted),
            writer,
            session_created,
            before,
            audited,
            kernel: None,
            calls: None,
            interrupts: Vec::new(),
            request_bytes: reservation.bytes(),
            reservation,
        };
        let execute = Execute { execution: number, context, work, files, outputs: names };
        (running, ToAgent::Execute(execute))
    }
}
