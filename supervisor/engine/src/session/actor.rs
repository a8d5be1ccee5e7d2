//! The task that is a session.
//!
//! It waits for what the agent says ([`from_agent`]), what others want ([`commands`]), what the
//! kernel counts against it ([`cgroup_events`]), what becomes of its contexts ([`contexts`]) and commands
//! ([`beside`]) without anybody's saying anything, and for leaves of its cgroup ([`leaves`]). Whatever
//! ends it, [`end`] answers everybody who still waits and returns only when the last process and
//! directory of the session are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use vivarium_api_types::SessionState;
use vivarium_protocol::discard;
use vivarium_protocol::leaf::{ContextNumber, FIRST_CONTEXT, Leaf};
use vivarium_protocol::message::{Description, Execute, ExecutionNumber, Failure, ToAgent};
use vivarium_protocol::outcome::{Cause, State};
use vivarium_protocol::policy::Limits;
use vivarium_protocol::sequence::Sequence;
use vivarium_protocol::units::Limit;

use super::audited::{self, Audited};
use super::channel::Channel;
use super::deadlines::Awaited;
use super::execution::{Kind, WorkSpec};
use super::launch::{LaunchContext, LaunchPlan, Resources, ScopeName};
use super::liveness::Liveness;
use super::output::Collector;
use super::pooled::PooledSession;
use super::processes::SessionProcesses;
use super::state::{self, Event};
use super::transfer::Transfers;
use super::{Adjustable, Command, Identity, QueuedExecution, Session, Timing};
use crate::cgroup::{Meter, Scope};

mod approval;
mod beside;
mod cgroup_events;
mod commands;
mod context;
mod contexts;
mod end;
mod finish;
mod from_agent;
mod kernels;
mod leaves;
mod running;
mod signals;
mod verdict;

pub use approval::AwaitedApproval;
pub use beside::MAX_COMMANDS;
use beside::RunningCommand;
pub(super) use cgroup_events::Accounting;
use context::{Context, Contexts, reached};
pub use contexts::MAX_CONTEXTS;
use leaves::MadeLeaf;
use running::{Overlap, RunningExecution, Stop};

/// How long an execution is held back where the daemon has no room for what it prints or shows.
/// What it prints and shows after that is dropped, so that those which wait for one another's room
/// come to an end.
const MAX_BUDGET_WAIT: Duration = Duration::from_secs(5);

/// More than there are executions in a session.
const FIRST_QUESTION: ExecutionNumber = 1 << 63;

#[derive(Debug)]
struct End {
    cause: Cause,
    detail: String,
    /// What the agent, or the launch, said about it.
    failure: Option<Failure>,
    /// Whether nobody said anything: its processes were gone.
    is_silent: bool,
}

impl End {
    fn new(cause: Cause, detail: impl Into<String>) -> Self {
        Self { cause, detail: detail.into(), failure: None, is_silent: false }
    }
}

type Step = ControlFlow<End>;

struct Actor {
    session: Arc<Session>,
    channel: Channel,
    resources: Resources,
    launch: LaunchContext,
    sequence: Sequence,
    liveness: Liveness,
    contexts: Contexts,
    /// Commands, which run beside the kernels and one another.
    commands: BTreeMap<ExecutionNumber, RunningCommand>,
    /// Decisions about executions that wait for approval.
    approvals: JoinSet<approval::Outcome>,
    /// Leaves for who is to start next.
    making: JoinSet<MadeLeaf>,
    /// Leaves that go. Their paths are those of the next session's that has this id.
    removing: JoinSet<()>,
    /// Commands that some of these leaves are for.
    arriving: BTreeSet<ExecutionNumber>,
    /// Signals for commands that have not been handed to the agent.
    early_signals: BTreeSet<(ExecutionNumber, i32)>,
    /// How often it was reset.
    resets: u64,
    last_number: ExecutionNumber,
    /// Of questions about code, which are numbered apart: executions count up by one.
    last_question: ExecutionNumber,
    describes: Vec<oneshot::Sender<Description>>,
    idle_waiters: Vec<oneshot::Sender<()>>,
    transfers: Transfers,
}

impl Actor {
    fn new(session: Arc<Session>, processes: SessionProcesses, launch: LaunchContext) -> Self {
        let SessionProcesses { channel, resources, sequence, mut accounting } = processes;
        // From now on: what happened to others while it waited in a pool is not its doing.
        accounting.oom = resources.scope.as_deref().map(Scope::oom_attribution).unwrap_or_default();
        Self {
            session,
            channel,
            resources,
            launch,
            sequence,
            liveness: Liveness::default(),
            contexts: Contexts::new(accounting),
            commands: BTreeMap::new(),
            approvals: JoinSet::new(),
            making: JoinSet::new(),
            removing: JoinSet::new(),
            arriving: BTreeSet::new(),
            early_signals: BTreeSet::new(),
            resets: 0,
            last_number: 0,
            last_question: FIRST_QUESTION,
            describes: Vec::new(),
            idle_waiters: Vec::new(),
            transfers: Transfers::default(),
        }
    }

    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let end = loop {
            let look = self.liveness.due();
            let max_wait = self.budget_wait();
            let step = tokio::select! {
                message = self.channel.next_within(&self.launch.account, max_wait) => {
                    self.on_message(message)
                }
                command = commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => Step::Break(End::new(Cause::Deleted, "nobody holds the session")),
                },
                (number, event) = self.contexts.next_event() => self.on_context_event(number, event),
                () = reached(look) => self.look_at_agent(),
                event = beside::next_event(&self.commands) => self.on_command_event(event),
                decided = approval::next_decided(&mut self.approvals) => self.on_decided(decided),
                made = leaves::next_made(&mut self.making) => self.on_made_leaf(made),
            };
            if let Step::Break(end) = step {
                break end;
            }
        };
        self.end(end, commands).await;
    }

    /// How long what the agent says next may wait for room in the daemon. What is being stopped is to
    /// be seen to obey.
    fn budget_wait(&self) -> Duration {
        let mut running = self.contexts.iter().filter_map(|(_, context)| context.running.as_ref());
        if !self.commands.is_empty() || running.any(|running| running.stop.is_none()) {
            MAX_BUDGET_WAIT
        } else {
            Duration::ZERO
        }
    }

    /// Hands the agent what can run now: of each context the next of its queue if nothing has its
    /// turn there, and commands that wait for no turn if there is a kernel, whose session they are to
    /// run in.
    fn dispatch_all(&mut self) -> Step {
        for number in self.contexts.numbers() {
            self.dispatch(number)?;
        }
        Step::Continue(())
    }

    /// The same of one context. Commands are in the queue of the first.
    fn dispatch(&mut self, number: ContextNumber) -> Step {
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
                let is_allowed = queued.awaited.is_none();
                if !queued.spec.waits_for_turn() {
                    return is_allowed && has_kernel;
                }
                // One that waits for approval keeps its turn.
                std::mem::replace(&mut is_turn, false) && is_allowed
            };
            let next = context.queue.iter().position(&mut can_run);
            let Some(queued) = next.and_then(|next| context.queue.remove(next)) else { break };
            if queued.writer.log().is_abandoned() {
                self.never_ran(queued, Cause::Interrupt, commands::CLIENT_GONE, State::Preserved);
                continue;
            }
            if queued.spec.kind() == Kind::Command {
                self.take_up_command(queued)?;
                continue;
            }
            let execution = queued.number;
            let (leaf, meter) = (context.leaf, Arc::clone(&context.accounting.meter));
            let (running, message) = self.take_up(queued, number, leaf, meter);
            if let Err(error) = self.channel.send(&message) {
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
    fn take_up(
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
        let QueuedExecution { spec, streamed, session_created, writer, .. } = queued;
        let QueuedExecution { reservation, number, queued_at, .. } = queued;
        let WorkSpec { work, files, outputs, timeout, .. } = spec;
        let observer = &self.launch.observer;
        let mut audited = Audited::of(&work, &self.session.limits(), timeout, observer);
        if let (Some(audited), Some(audit)) = (&mut audited, observer.audit()) {
            audited.begins(&self.session);
            audited.started(&self.session.identity, number, &work, audit);
        }
        let names = outputs.iter().map(|output| output.name.clone()).collect();
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
            collector: Collector::new(&limits, outputs, streamed || prints_on),
            writer,
            session_created,
            audited,
            kernel: None,
            interrupts: Vec::new(),
            request_bytes: reservation.bytes(),
            reservation,
        };
        let execute = Execute { execution: number, context, work, files, outputs: names };
        (running, ToAgent::Execute(execute))
    }

    fn send(&mut self, message: &ToAgent) -> Step {
        self.send_with(message, Vec::new())
    }

    fn send_with(&mut self, message: &ToAgent, descriptors: Vec<OwnedFd>) -> Step {
        self.liveness.wanted();
        match self.channel.send_with(message, descriptors) {
            Ok(()) => Step::Continue(()),
            Err(error) => Step::Break(End::new(Cause::Agent, error.to_string())),
        }
    }

    fn set_state(&mut self, number: ContextNumber, event: Event) -> Step {
        let Some(context) = self.contexts.get_mut(number) else { return Step::Continue(()) };
        match state::next(context.state, event) {
            Ok(state) => {
                context.state = state;
                self.note_state();
                Step::Continue(())
            }
            Err(error) => {
                let detail = format!("a defect of the supervisor: {error}");
                Step::Break(End::new(Cause::Agent, detail))
            }
        }
    }

    /// Has everybody see what the session does.
    fn note_state(&self) {
        let first = self.contexts.first().state;
        let runs = |context: &Context| {
            matches!(context.state, SessionState::Running | SessionState::Interrupting)
        };
        let contexts = self.contexts.iter().skip(1).filter(|(_, context)| runs(context)).count();
        let mut status = self.session.status();
        status.state = first;
        status.running_beside = self.foreground_commands() + contexts;
    }

    fn wait_for(&mut self, number: ContextNumber, awaited: Awaited) {
        let Some(context) = self.contexts.get_mut(number) else { return };
        let timeout = context.running.as_ref().map_or(Duration::ZERO, |running| running.timeout);
        context.deadline.set(awaited, &self.session.timing, timeout);
    }

    fn note_queues(&self) {
        let queued = self.contexts.iter().map(|(_, context)| context.queue.len() as u64);
        self.session.status().usage.queued = queued.sum();
    }
}

/// Starts a session. `on_gone` is called when nothing of it is left.
pub fn spawn(
    identity: Identity,
    adjustable: Adjustable,
    timing: Timing,
    plan: LaunchPlan,
    on_gone: impl FnOnce(&Session) + Send + 'static,
) -> Arc<Session> {
    let (session, commands) = Session::new(identity, adjustable, timing);
    let session = Arc::new(session);
    let own = Arc::clone(&session);
    tokio::spawn(async move {
        let LaunchPlan { policy, context } = plan;
        own.set_stores(context.stores.as_ref());
        audited::created(&own, &context.observer);
        let Identity { tenant, id, .. } = &own.identity;
        match SessionProcesses::launch(ScopeName { tenant, name: id }, policy, &context).await {
            Ok(processes) => {
                own.set_scope(&processes);
                let mut actor = Actor::new(Arc::clone(&own), processes, context);
                actor.wait_for(FIRST_CONTEXT, Awaited::Kernel);
                // Boxed: the future would otherwise be part of this one twice.
                Box::pin(actor.run(commands)).await;
            }
            Err(why) => end::stillborn(&own, why, commands, context).await,
        }
        on_gone(&own);
        own.gone.send_replace(true);
    });
    session
}

/// Makes one that was started before somebody's session: idle from the beginning. `on_gone` is
/// called when nothing of it is left.
pub fn from_pooled(
    identity: Identity,
    adjustable: Adjustable,
    timing: Timing,
    pooled: PooledSession,
    on_gone: impl FnOnce(&Session) + Send + 'static,
) -> Arc<Session> {
    let PooledSession { mut processes, context, origin, protection } = pooled;
    let (session, commands) = Session::new(identity, adjustable, timing);
    let session = Arc::new(session);
    tracing::debug!(
        session = session.identity.id,
        was = processes.resources.name,
        "taken from a pool"
    );
    processes.resources.name.clone_from(&session.identity.id);
    session.set_scope(&processes);
    {
        let mut status = session.status();
        status.state = SessionState::Idle;
        status.protection = protection;
        status.origin = Some(origin);
    }
    session.started.send_replace(Some(Ok(())));
    audited::created(&session, &context.observer);
    context.observer.session_started(session.created.elapsed());
    context.observer.kernel_started(origin);
    let own = Arc::clone(&session);
    tokio::spawn(async move {
        let mut actor = Actor::new(Arc::clone(&own), processes, context);
        let first = actor.contexts.first_mut();
        first.state = SessionState::Idle;
        first.origin = Some(origin);
        first.kernels.ready();
        Box::pin(actor.run(commands)).await;
        on_gone(&own);
        own.gone.send_replace(true);
    });
    session
}
