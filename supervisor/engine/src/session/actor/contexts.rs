//! Opening, stopping, resetting and closing contexts.
//!
//! With cgroups a context's kernel ends alone, by its leaf. Without them its end is that of every
//! process of the session: nothing else tells its processes from those of others.

use tokio::sync::oneshot;
use tokio::time::Instant;
use vivarium_protocol::discard;
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT, Leaf};
use vivarium_protocol::message::{ExecutionNumber, ToAgent};
use vivarium_protocol::outcome::{Cause, State};

use super::cgroup_events::Accounting;
use super::context::{ContextEvent, Opened, Reset};
use super::leaves::{Starting, descriptors};
use super::{Actor, End, Step, Stop};
use crate::cgroup::LeafFiles;
use crate::session::deadlines::{Awaited, Overdue};
use crate::session::state::Event;
use crate::session::{ContextRefusal, ResetDone, SessionState};

/// The most contexts of a session at a time.
pub const MAX_CONTEXTS: usize = 16;

impl Actor {
    pub(super) fn on_context_event(&mut self, number: ContextNumber, event: ContextEvent) -> Step {
        match event {
            ContextEvent::Late => self.late(number),
            ContextEvent::Read => self.let_context_print(number),
            ContextEvent::Abandoned => self.interrupt_abandoned(number),
            ContextEvent::Called => self.step_calls(number),
            ContextEvent::Counted => {
                self.count(number);
                Step::Continue(())
            }
        }
    }

    fn late(&mut self, number: ContextNumber) -> Step {
        let deadline = self.contexts.get(number).map(|context| context.deadline);
        let Some(awaited) = deadline.and_then(|deadline| deadline.passed_by(Instant::now())) else {
            return Step::Continue(());
        };
        match awaited.overdue() {
            Overdue::Interrupt => self.stop(number, Stop::WallTime),
            Overdue::Kill => self.replace(number),
            Overdue::GiveUp(cause, why) => Step::Break(End::new(cause, why)),
        }
    }

    /// Sends SIGINT to what a context runs, and waits for it to give way.
    pub(super) fn stop(&mut self, number: ContextNumber, stop: Stop) -> Step {
        let running = self.contexts.get_mut(number).and_then(|context| context.running.as_mut());
        let Some(running) = running else { return Step::Continue(()) };
        running.stop = Some(stop);
        let execution = running.number;
        self.let_context_print(number)?;
        self.set_state(number, Event::Interrupted)?;
        self.send(&ToAgent::Interrupt { execution })?;
        self.wait_for(number, Awaited::GivingWay);
        Step::Continue(())
    }

    /// Lets code that waits for its readers go on: they have caught up, or it is to be seen to end.
    pub(super) fn let_context_print(&mut self, number: ContextNumber) -> Step {
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        if std::mem::take(&mut context.held)
            && let Some(running) = &context.running
        {
            let execution = running.number;
            self.send(&ToAgent::Hold { execution, held: false })?;
        }
        Step::Continue(())
    }

    pub(super) const fn has_leaves(&self) -> bool {
        self.resources.scope.is_some()
    }

    /// Has a context's kernel killed, with all that ends with it, and waits for the next one.
    pub(super) fn replace(&mut self, number: ContextNumber) -> Step {
        let (cause, detail) = self.kill_reason(number);
        self.ends_with_kernel(number, cause, &detail);
        self.let_context_print(number)?;
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        // Nobody reads the answer to a question.
        let is_reported = !context
            .running
            .as_ref()
            .is_some_and(|running| running.kind.is_question() && running.stop != Some(Stop::Reset));
        context.kernels.ended(cause, &detail, is_reported);
        self.set_state(number, Event::KernelGone)?;
        self.send(&ToAgent::Replace { context: number })?;
        self.wait_for(number, Awaited::Kernel);
        Step::Continue(())
    }

    /// The kernel of a context is gone, or is to go, and with it what is in its leaf; without leaves,
    /// every process of the session.
    pub(super) fn ends_with_kernel(&mut self, number: ContextNumber, cause: Cause, detail: &str) {
        if self.has_leaves() {
            if number == FIRST_CONTEXT {
                self.commands_end_with_kernel(cause, detail);
            }
            return;
        }
        self.commands_end_with_kernel(cause, detail);
        for (other, context) in self.contexts.iter_mut() {
            let has_kernel = matches!(
                context.state,
                SessionState::Idle | SessionState::Running | SessionState::Interrupting
            );
            if other != number && has_kernel {
                context.kernel_end.get_or_insert_with(|| (cause, detail.to_owned()));
            }
        }
    }

    /// Does not wait behind the queue: what is queued runs in the fresh kernel.
    pub(super) fn reset(
        &mut self,
        context: Option<&str>,
        reply: oneshot::Sender<Option<ResetDone>>,
    ) -> Step {
        let number = self.open_context(context);
        let has_leaves = self.has_leaves();
        let Some((number, context)) =
            number.and_then(|number| Some((number, self.contexts.get_mut(number)?)))
        else {
            discard(reply.send(None), "who asked may be gone");
            return Step::Continue(());
        };
        let ended = context.running.as_ref().map(|running| running.number);
        let done = ResetDone { ended, is_of_session: !has_leaves };
        context.resets.push(Reset { done, reply });
        let is_fresh = matches!(context.state, SessionState::Starting | SessionState::Replacing);
        if let Some(running) = &mut context.running
            && !is_fresh
        {
            running.stop = Some(Stop::Reset);
        }
        if number == FIRST_CONTEXT {
            self.end_background()?;
        }
        // The kernel that is on its way is a fresh one.
        if is_fresh { Step::Continue(()) } else { self.replace(number) }
    }

    /// The context of this name, if it takes work; without a name the first.
    pub(super) fn open_context(&self, name: Option<&str>) -> Option<ContextNumber> {
        let Some(name) = name else { return Some(FIRST_CONTEXT) };
        let number = self.contexts.by_name(name)?;
        self.contexts.get(number).filter(|context| context.is_open()).map(|_| number)
    }

    /// Opens a context; `reply` hears of it when its kernel is ready.
    pub(super) fn open(&mut self, name: &str, reply: Opened) -> Step {
        let refusal = if self.contexts.by_name(name).is_some() {
            Some(ContextRefusal::Exists)
        } else if self.contexts.len() >= MAX_CONTEXTS {
            Some(ContextRefusal::TooMany)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            discard(reply.send(Err(refusal)), "who asked may be gone");
            return Step::Continue(());
        }
        let (number, leaf) = self.contexts.add(name, reply);
        self.session.touch();
        match self.resources.scope.clone() {
            Some(scope) => {
                self.make_leaf(scope, leaf, Starting::Context(number));
                Step::Continue(())
            }
            None => self.start_context(number, None),
        }
    }

    /// The kernel of a context has ended: with leaves the next one starts in a fresh one. Without, the
    /// agent starts it by itself, unless this one was not even started.
    pub(super) fn next_kernel(&mut self, number: ContextNumber, was_started: bool) -> Step {
        self.wait_for(number, Awaited::Kernel);
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        match (self.resources.scope.clone(), context.leaf) {
            (Some(scope), Leaf::Kernel { before, .. }) => {
                let ended = context.leaf;
                context.leaf = Leaf::Kernel { context: number, before: before.wrapping_add(1) };
                let leaf = context.leaf;
                self.make_leaf(scope, leaf, Starting::Kernel(number));
                self.remove_leaf(ended);
                Step::Continue(())
            }
            _ if was_started => Step::Continue(()),
            _ => self.send(&ToAgent::Replace { context: number }),
        }
    }

    /// Has the agent start the next kernel of a context, in the leaf that was made for it.
    pub(super) fn start_kernel(
        &mut self,
        number: ContextNumber,
        leaf: Leaf,
        (files, mut accounting): (LeafFiles, Accounting),
    ) -> Step {
        let context = self.contexts.get_mut(number);
        let Some(context) = context.filter(|context| context.closing.is_none()) else {
            // It was closed meanwhile.
            self.remove_leaf(leaf);
            return Step::Continue(());
        };
        accounting.follow(&context.accounting);
        context.accounting = accounting;
        let message = ToAgent::StartKernel { context: number, leaf };
        self.send_with(&message, descriptors(files).into())
    }

    /// Has the agent start the kernel of a context, in the leaf that was made for it.
    pub(super) fn start_context(
        &mut self,
        number: ContextNumber,
        leaf: Option<(LeafFiles, Accounting)>,
    ) -> Step {
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        let mut alongside = Vec::new();
        if let Some((files, accounting)) = leaf {
            alongside.extend(descriptors(files));
            context.accounting = accounting;
        }
        self.sequence.open(number);
        self.wait_for(number, Awaited::Kernel);
        self.send_with(&ToAgent::OpenContext { context: number }, alongside)
    }

    /// Closes a context; `reply` hears whether there is one, when nothing of it is left.
    pub(super) fn close(&mut self, name: &str, reply: oneshot::Sender<bool>) -> Step {
        let number = self.contexts.by_name(name).filter(|number| *number != FIRST_CONTEXT);
        let found = number.and_then(|number| Some((number, self.contexts.get_mut(number)?)));
        let Some((number, context)) = found.filter(|(_, context)| context.opening.is_none()) else {
            discard(reply.send(false), "who asked may be gone");
            return Step::Continue(());
        };
        if let Some(waiting) = &mut context.closing {
            waiting.push(reply);
            return Step::Continue(());
        }
        context.closing = Some(vec![reply]);
        self.close_context(number)
    }

    /// Has the agent end a context, which takes no more work.
    fn close_context(&mut self, number: ContextNumber) -> Step {
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        if let Some(running) = &mut context.running {
            running.stop = Some(Stop::ContextDeleted);
        }
        context.resets.clear();
        let queue = std::mem::take(&mut context.queue);
        for queued in queue {
            self.never_ran(*queued, Cause::Deleted, "its context was deleted", State::Lost);
        }
        self.let_context_print(number)?;
        self.note_queues();
        self.sequence.close(number);
        self.send(&ToAgent::CloseContext { context: number })?;
        self.wait_for(number, Awaited::ContextsEnd);
        Step::Continue(())
    }

    /// Nothing of a context is left.
    pub(super) fn context_closed(&mut self, number: ContextNumber) -> Step {
        if let Some(context) = self.contexts.get_mut(number)
            && context.running.is_some()
        {
            self.finish_killed(
                number,
                Cause::Deleted,
                "its context was deleted",
                Default::default(),
                0,
            );
        }
        self.count(number);
        self.session.is_at_checkpoint(None);
        if let Some(context) = self.contexts.remove(number) {
            for waiting in context.closing.into_iter().flatten() {
                discard(waiting.send(true), "who asked may be gone");
            }
            self.remove_leaf(context.leaf);
        }
        self.note_state();
        self.dispatch_all()
    }

    /// A context's first kernel does not start. Its session goes on.
    pub(super) fn context_failed(&mut self, number: ContextNumber, why: &str) {
        if let Some(context) = self.contexts.remove(number)
            && let Some(waiting) = context.opening
        {
            let refusal = ContextRefusal::NotStarted(why.to_owned());
            discard(waiting.send(Err(refusal)), "who asked may be gone");
        }
        self.note_state();
    }

    /// The same, where the agent has begun with it.
    pub(super) fn close_failed(&mut self, number: ContextNumber, why: &str) -> Step {
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        if let Some(waiting) = context.opening.take() {
            let refusal = ContextRefusal::NotStarted(why.to_owned());
            discard(waiting.send(Err(refusal)), "who asked may be gone");
        }
        context.closing.get_or_insert_default();
        self.close_context(number)
    }

    /// Interrupts this execution; without one the code that a context runs, or else, in the first, the
    /// command that was started last and that somebody waits for; and else what waits for approval.
    pub(super) fn target(
        &self,
        execution: Option<ExecutionNumber>,
        context: Option<&str>,
    ) -> Option<ExecutionNumber> {
        if execution.is_some() {
            return execution;
        }
        let number = self.open_context(context)?;
        let running = self.contexts.get(number)?.running.as_ref().map(|running| running.number);
        running
            .or_else(|| if context.is_none() { self.last_foreground_command() } else { None })
            .or_else(|| self.next_awaiting(number))
    }

    pub(super) fn list_contexts(&self) -> Vec<vivarium_api_types::ContextInfo> {
        let id = &self.session.identity.id;
        let open = self.contexts.iter().filter(|(_, context)| context.is_open());
        open.map(|(_, context)| context.info(id)).collect()
    }
}
