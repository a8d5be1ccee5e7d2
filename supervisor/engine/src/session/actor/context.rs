//! The contexts of a session: kernels, each with a queue of its own, a state and a clock.

use std::collections::{BTreeMap, VecDeque};
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use vivarium_api_types::{ContextInfo, MAIN_CONTEXT, SessionState};
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT, Leaf};
use vivarium_protocol::message::{ExecutionNumber, Origin};
use vivarium_protocol::outcome::Cause;

use super::RunningExecution;
use super::cgroup_events::Accounting;
use super::kernels::Kernels;
use crate::session::calls::channel::Calls;
use crate::session::deadlines::Deadline;
use crate::session::execution_log::ExecutionLog;
use crate::session::{ContextRefusal, QueuedExecution, ResetDone};

/// A reset that waits for the fresh kernel.
pub(super) struct Reset {
    pub(super) done: ResetDone,
    pub(super) reply: oneshot::Sender<Option<ResetDone>>,
}

pub(super) type Opened = oneshot::Sender<Result<ContextInfo, ContextRefusal>>;

pub(super) struct Context {
    pub(super) name: Arc<str>,
    pub(super) state: SessionState,
    pub(super) deadline: Deadline,
    pub(super) queue: VecDeque<Box<QueuedExecution>>,
    /// What its kernel runs.
    pub(super) running: Option<RunningExecution>,
    /// Whether what it prints waits for who reads it.
    pub(super) held: bool,
    pub(super) resets: Vec<Reset>,
    pub(super) kernels: Kernels,
    /// Where its kernel starts, if there are leaves.
    pub(super) leaf: Leaf,
    pub(super) origin: Option<Origin>,
    /// Whether a kernel that would not start has been tried once more.
    pub(super) retried: bool,
    pub(super) accounting: Accounting,
    /// Why its kernel is killed, where that is for another's: without cgroups.
    pub(super) kernel_end: Option<(Cause, String)>,
    /// Who has asked for it and waits for its first kernel.
    pub(super) opening: Option<Opened>,
    /// Who waits for its end, once that has begun.
    pub(super) closing: Option<Vec<oneshot::Sender<bool>>>,
}

impl Context {
    pub(super) fn new(name: &str, leaf: Leaf, accounting: Accounting) -> Self {
        Self {
            name: name.into(),
            state: SessionState::Starting,
            deadline: Deadline::default(),
            queue: VecDeque::new(),
            running: None,
            held: false,
            resets: Vec::new(),
            kernels: Kernels::of(name),
            leaf,
            origin: None,
            retried: false,
            accounting,
            kernel_end: None,
            opening: None,
            closing: None,
        }
    }

    /// Whether it takes new work.
    pub(super) const fn is_open(&self) -> bool {
        self.closing.is_none() && self.opening.is_none()
    }

    /// Whether something is wanted of the agent for it.
    pub(super) const fn awaits_agent(&self) -> bool {
        self.running.is_some()
            || self.closing.is_some()
            || matches!(self.state, SessionState::Replacing)
    }

    pub(super) fn info(&self, session_id: &str) -> ContextInfo {
        ContextInfo {
            id: self.name.to_string(),
            session_id: session_id.to_owned(),
            state: self.state,
            kernel_origin: self.origin,
            generation: self.kernels.current().map(|kernel| kernel.generation),
            running: self.running.as_ref().map(|running| running.number.to_string()),
            queued: self.queue.len() as u64,
        }
    }
}

/// Those that are not over. The first is as long as its session.
pub(super) struct Contexts {
    first: Context,
    others: BTreeMap<ContextNumber, Context>,
    last: ContextNumber,
}

impl Contexts {
    pub(super) fn new(accounting: Accounting) -> Self {
        let first = Context::new(MAIN_CONTEXT, Leaf::FIRST, accounting);
        Self { first, others: BTreeMap::new(), last: FIRST_CONTEXT }
    }

    pub(super) const fn first(&self) -> &Context {
        &self.first
    }

    pub(super) const fn first_mut(&mut self) -> &mut Context {
        &mut self.first
    }

    pub(super) fn get(&self, number: ContextNumber) -> Option<&Context> {
        if number == FIRST_CONTEXT { Some(&self.first) } else { self.others.get(&number) }
    }

    pub(super) fn get_mut(&mut self, number: ContextNumber) -> Option<&mut Context> {
        if number == FIRST_CONTEXT { Some(&mut self.first) } else { self.others.get_mut(&number) }
    }

    pub(super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ContextNumber, &Context)> {
        let others = self.others.iter().map(|(number, context)| (*number, context));
        std::iter::once((FIRST_CONTEXT, &self.first)).chain(others)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ContextNumber, &mut Context)> {
        let others = self.others.iter_mut().map(|(number, context)| (*number, context));
        std::iter::once((FIRST_CONTEXT, &mut self.first)).chain(others)
    }

    pub(super) fn numbers(&self) -> Vec<ContextNumber> {
        self.iter().map(|(number, _)| number).collect()
    }

    pub(super) fn by_name(&self, name: &str) -> Option<ContextNumber> {
        self.iter().find(|(_, context)| &*context.name == name).map(|(number, _)| number)
    }

    /// The one whose kernel runs this execution.
    pub(super) fn running(&self, execution: ExecutionNumber) -> Option<ContextNumber> {
        let runs = |context: &Context| {
            context.running.as_ref().is_some_and(|running| running.number == execution)
        };
        self.iter().find(|(_, context)| runs(context)).map(|(number, _)| number)
    }

    /// The one that something in this leaf belongs to: commands to the first.
    pub(super) fn running_in(&self, leaf: Leaf) -> &Context {
        match leaf {
            Leaf::Kernel { context, .. } => self.get(context).unwrap_or(&self.first),
            Leaf::Command(_) => &self.first,
        }
    }

    pub(super) fn add(&mut self, name: &str, opening: Opened) -> (ContextNumber, Leaf) {
        self.last += 1;
        let leaf = Leaf::first_of(self.last);
        let context = Context::new(name, leaf, Accounting::default());
        self.others.insert(self.last, Context { opening: Some(opening), ..context });
        (self.last, leaf)
    }

    pub(super) fn remove(&mut self, number: ContextNumber) -> Option<Context> {
        self.others.remove(&number)
    }

    /// What happens next in one of them without the agent's saying anything.
    pub(super) async fn next_event(&self) -> (ContextNumber, ContextEvent) {
        if self.others.is_empty() {
            return (FIRST_CONTEXT, self.first.next_event().await);
        }
        let mut events: Vec<_> =
            self.iter().map(|(number, context)| (number, Box::pin(context.next_event()))).collect();
        poll_fn(|cx| {
            let happened =
                events.iter_mut().find_map(|(number, event)| match event.as_mut().poll(cx) {
                    Poll::Ready(event) => Some((*number, event)),
                    Poll::Pending => None,
                });
            happened.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ContextEvent {
    /// What it waited for did not come in time.
    Late,
    /// Who reads what runs has caught up.
    Read,
    /// Everybody went away for whom it runs.
    Abandoned,
    /// The kernel of the system has counted something against its leaf.
    Counted,
    /// A call is made, or is to be answered.
    Called,
}

impl Context {
    async fn next_event(&self) -> ContextEvent {
        let log = self.running.as_ref().map(|running| running.writer.log());
        // None before the agent says that its code has begun.
        let begun = self.running.as_ref().filter(|running| running.started.is_some());
        let calls = begun.and_then(|running| running.calls.as_deref());
        let may_be_abandoned = self.running.as_ref().is_some_and(|running| running.stop.is_none());
        tokio::select! {
            () = self.accounting.counter.changed() => ContextEvent::Counted,
            () = async {
                match log {
                    Some(log) => log.abandoned().await,
                    None => pending().await,
                }
            }, if may_be_abandoned => ContextEvent::Abandoned,
            () = async {
                match (calls, log) {
                    (Some(calls), Some(log)) => next_call(calls, log).await,
                    _ => pending().await,
                }
            } => ContextEvent::Called,
            () = reached(self.deadline.at()) => ContextEvent::Late,
            () = async {
                match log {
                    Some(log) => log.ready_for_events().await,
                    None => pending().await,
                }
            }, if self.held => ContextEvent::Read,
        }
    }
}

/// Resolves when something is to be done about calls. They are read only while there is room for their
/// events.
async fn next_call(calls: &Calls, log: &ExecutionLog) {
    if log.is_ready_for_events() {
        return calls.next_event(true).await;
    }
    tokio::select! {
        () = calls.next_event(false) => {}
        () = log.ready_for_events() => {}
    }
}

/// Resolves at this time; never if there is none.
pub(super) async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
