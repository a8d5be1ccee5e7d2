//! Executions that wait until somebody allows them.
//!
//! They keep their place in the queue: what waits for its turn behind one waits for the decision too.
//! Whatever ends one that waits, its call is withdrawn.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use vivarium_api_types::ApprovalState;
use vivarium_protocol::discard;
use vivarium_protocol::leaf::ContextNumber;
use vivarium_protocol::message::ExecutionNumber;
use vivarium_protocol::outcome::{Cause, State};

use super::{Actor, Step, commands};
use crate::approvals::{Asked, Decided, Waiting};
use crate::session::{Interrupted, QueuedExecution, question};

/// Why an execution did not run that a rule denies.
const DENIED_BY_RULE: &str = "nothing may run here (approval.executions)";

/// What became of an execution that waited: `None` if everybody went away for whom it was to run.
pub(super) type Outcome = (ExecutionNumber, Option<Decided>);

/// Dropped, nobody waits for the decision any more.
#[derive(Debug)]
pub struct AwaitedApproval(AbortHandle);

impl Drop for AwaitedApproval {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the next decision; for ever if none is awaited.
pub(super) async fn next_decided(awaited: &mut JoinSet<Outcome>) -> Outcome {
    loop {
        match awaited.join_next().await {
            Some(Ok(outcome)) => return outcome,
            // Withdrawn.
            Some(Err(error)) if error.is_cancelled() => {}
            Some(Err(error)) => tracing::error!(%error, "waiting for a decision"),
            None => std::future::pending().await,
        }
    }
}

impl Actor {
    /// Asks whether something may run that is about to be queued under this number.
    pub(super) fn ask_approval(&self, number: ExecutionNumber, queued: &QueuedExecution) -> Asked {
        let who = &self.session.identity;
        let question = || question::of_execution(who, number, &queued.spec);
        let at_least = question::at_least(who, &queued.spec);
        self.launch.approvals.ask(question, &who.tenant, at_least)
    }

    /// Has it wait until somebody decides.
    pub(super) fn await_approval(&mut self, queued: &mut QueuedExecution, waiting: Waiting) {
        let number = queued.number;
        let session = &self.session.identity.id;
        queued.writer.awaits_approval(number, session, &waiting.id, waiting.expires_at);
        let log = Arc::clone(queued.writer.log());
        let awaited = self.approvals.spawn(async move {
            tokio::select! {
                decided = waiting.decided() => (number, Some(decided)),
                () = log.abandoned() => (number, None),
            }
        });
        queued.awaited = Some(AwaitedApproval(awaited));
    }

    pub(super) fn denied_by_rule(&self, queued: QueuedExecution) {
        self.never_ran(queued, Cause::ApprovalDenied, DENIED_BY_RULE, State::Preserved);
    }

    /// Somebody decided, or it is too late, or nobody wants it any more.
    pub(super) fn on_decided(&mut self, (number, decided): Outcome) -> Step {
        let Some((context, at)) = self.find_awaiting(number) else { return Step::Continue(()) };
        if decided.as_ref().is_some_and(Decided::is_allowed) {
            let queue = self.contexts.get_mut(context).map(|context| &mut context.queue);
            if let Some(queued) = queue.and_then(|queue| queue.get_mut(at)) {
                queued.awaited = None;
                queued.queued_at = Instant::now();
                queued.writer.queued(number);
            }
            self.session.touch();
            return self.dispatch(context);
        }
        let (cause, detail) = match decided {
            None => (Cause::Interrupt, commands::CLIENT_GONE.to_owned()),
            Some(Decided { state: ApprovalState::TimedOut, .. }) => {
                let detail = "it needed approval, and nobody decided in time (approval.timeout)";
                (Cause::ApprovalTimeout, detail.to_owned())
            }
            Some(Decided { reason: Some(reason), .. }) => {
                (Cause::ApprovalDenied, format!("it needed approval, which was denied: {reason}"))
            }
            Some(Decided { reason: None, .. }) => {
                (Cause::ApprovalDenied, "it needed approval, which was denied".to_owned())
            }
        };
        self.withdraw((context, at), cause, &detail);
        self.dispatch(context)
    }

    /// Answers one that waits for approval, and is not to run.
    fn withdraw(&mut self, (context, at): (ContextNumber, usize), cause: Cause, detail: &str) {
        let queue = self.contexts.get_mut(context).map(|context| &mut context.queue);
        if let Some(queued) = queue.and_then(|queue| queue.remove(at)) {
            self.never_ran(*queued, cause, detail, State::Preserved);
        }
    }

    /// Interrupts one that waits for approval; whether there is such a one.
    pub(super) fn interrupt_awaiting(&mut self, number: ExecutionNumber) -> bool {
        let Some(found) = self.find_awaiting(number) else { return false };
        self.withdraw(found, Cause::Interrupt, "it was interrupted while it waited for approval");
        true
    }

    /// The same, for who asked for the interrupt.
    pub(super) fn interrupt_waiting_call(
        &mut self,
        number: Option<ExecutionNumber>,
        reply: oneshot::Sender<Option<Interrupted>>,
    ) -> Step {
        let execution = number.filter(|number| self.interrupt_awaiting(*number));
        let interrupted = execution.map(|execution| {
            let (ended, receiver) = oneshot::channel();
            discard(ended.send(()), "who asked may be gone");
            Interrupted { execution, ended: receiver }
        });
        let is_any = interrupted.is_some();
        discard(reply.send(interrupted), "who asked may be gone");
        if is_any { self.dispatch_all() } else { Step::Continue(()) }
    }

    /// The daemon drains: nobody is to wait for people.
    pub(super) fn end_awaiting(&mut self) {
        for context in self.contexts.numbers() {
            while let Some(at) = self.first_awaiting(context) {
                self.withdraw((context, at), Cause::Draining, "the daemon is draining");
            }
        }
    }

    /// The next of a context's queue, if that waits for approval.
    pub(super) fn next_awaiting(&self, context: ContextNumber) -> Option<ExecutionNumber> {
        let at = self.first_awaiting(context)?;
        self.contexts.get(context)?.queue.get(at).map(|queued| queued.number)
    }

    /// Where the first in a context's queue is that waits for approval.
    fn first_awaiting(&self, context: ContextNumber) -> Option<usize> {
        self.contexts.get(context)?.queue.iter().position(|queued| queued.awaited.is_some())
    }

    fn find_awaiting(&self, number: ExecutionNumber) -> Option<(ContextNumber, usize)> {
        let is_it = |queued: &QueuedExecution| queued.number == number && queued.awaited.is_some();
        self.contexts.iter().find_map(|(context, it)| {
            Some((context, it.queue.iter().position(|queued| is_it(queued))?))
        })
    }
}
