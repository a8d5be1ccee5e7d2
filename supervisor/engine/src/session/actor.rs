//! The task that is a session.
//!
//! It waits for what the agent says ([`from_agent`]), what others want ([`commands`]), what the
//! kernel counts against it ([`cgroup_events`]), what becomes of commands ([`beside`]), and the time
//! ([`Actor::late`]). Whatever ends it,
//! [`end`] answers everybody who still waits and returns only when the last process and
//! directory of the session are gone.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use vivarium_api_types::SessionState;
use vivarium_protocol::discard;
use vivarium_protocol::message::{
    Description, Execute, ExecutionNumber, Failure, FromAgent, ToAgent,
};
use vivarium_protocol::outcome::{Cause, State};
use vivarium_protocol::policy::Limits;
use vivarium_protocol::sequence::Sequence;
use vivarium_protocol::units::Limit;

use super::channel::{Channel, ChannelError};
use super::deadlines::{Awaited, Deadline, Overdue};
use super::execution::{Kind, WorkSpec};
use super::launch::{LaunchContext, LaunchPlan, Resources, ScopeName};
use super::liveness::Liveness;
use super::output::Collector;
use super::pooled::PooledSession;
use super::processes::SessionProcesses;
use super::state::{self, Event};
use super::transfer::Transfers;
use super::{Adjustable, Command, Identity, QueuedExecution, Session, Timing};
use crate::budget::Account;
use crate::cgroup::{Meter, OomAttribution, Scope};

mod beside;
mod cgroup_events;
mod commands;
mod end;
mod finish;
mod from_agent;
mod kernels;
mod running;
mod verdict;

pub use beside::MAX_COMMANDS;
use beside::RunningCommand;
pub(super) use cgroup_events::CgroupEventCounter;
use kernels::Kernels;
use running::{RunningExecution, Stop};

/// How long an execution is held back where the daemon has no room for what it prints or shows.
/// What it prints and shows after that is dropped, so that those which wait for one another's room
/// come to an end.
const MAX_BUDGET_WAIT: Duration = Duration::from_secs(5);

/// More than there are executions in a session.
const FIRST_QUESTION: ExecutionNumber = 1 << 63;

/// A reset that waits for the fresh kernel.
struct Reset {
    ended: Option<ExecutionNumber>,
    reply: oneshot::Sender<Option<ExecutionNumber>>,
}

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
    context: LaunchContext,
    sequence: Sequence,
    state: SessionState,
    deadline: Deadline,
    liveness: Liveness,
    queue: VecDeque<QueuedExecution>,
    /// What the kernel runs.
    running: Option<RunningExecution>,
    /// Commands, which run beside it and one another.
    commands: BTreeMap<ExecutionNumber, RunningCommand>,
    last_number: ExecutionNumber,
    /// Of questions about code, which are numbered apart: executions count up by one.
    last_question: ExecutionNumber,
    resets: Vec<Reset>,
    describes: Vec<oneshot::Sender<Description>>,
    idle_waiters: Vec<oneshot::Sender<()>>,
    kernels: Kernels,
    /// Whether a kernel that would not start has been tried once more.
    retried: bool,
    event_counter: CgroupEventCounter,
    oom: OomAttribution,
    meter: Meter,
    transfers: Transfers,
}

impl Actor {
    fn new(session: Arc<Session>, processes: SessionProcesses, context: LaunchContext) -> Self {
        let SessionProcesses { channel, resources, sequence, event_counter, meter } = processes;
        // From now on: what happened to others while it waited in a pool is not its doing.
        let oom = resources.scope.as_deref().map(Scope::oom_attribution).unwrap_or_default();
        Self {
            session,
            channel,
            resources,
            context,
            sequence,
            state: SessionState::Starting,
            deadline: Deadline::default(),
            liveness: Liveness::default(),
            queue: VecDeque::new(),
            running: None,
            commands: BTreeMap::new(),
            last_number: 0,
            last_question: FIRST_QUESTION,
            resets: Vec::new(),
            describes: Vec::new(),
            idle_waiters: Vec::new(),
            kernels: Kernels::default(),
            retried: false,
            event_counter,
            oom,
            meter,
            transfers: Transfers::default(),
        }
    }

    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let end = loop {
            let (deadline, look) = (self.deadline, self.liveness.due());
            let step = tokio::select! {
                message = recv(
                    &mut self.channel,
                    self.running.as_ref(),
                    !self.commands.is_empty(),
                    &self.context.account,
                ) => {
                    self.on_message(message)
                }
                command = commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => Step::Break(End::new(Cause::Deleted, "nobody holds the session")),
                },
                () = self.event_counter.changed() => self.notified(),
                () = abandoned(self.running.as_ref()) => self.interrupt_abandoned(),
                awaited = deadline.passed() => self.late(awaited),
                () = reached(look) => self.look_at_agent(),
                event = beside::next_event(&self.commands) => self.on_command_event(event),
            };
            if let Step::Break(end) = step {
                break end;
            }
        };
        self.end(end, commands).await;
    }

    /// The time for `awaited` is up.
    fn late(&mut self, awaited: Awaited) -> Step {
        match awaited.overdue() {
            Overdue::Interrupt => self.stop(Stop::WallTime),
            Overdue::Kill => self.replace(),
            Overdue::GiveUp(cause, why) => Step::Break(End::new(cause, why)),
        }
    }

    /// Sends SIGINT to what is running, and waits for it to give way.
    fn stop(&mut self, stop: Stop) -> Step {
        let Some(running) = &mut self.running else { return Step::Continue(()) };
        running.stop = Some(stop);
        let execution = running.number;
        self.set_state(Event::Interrupted)?;
        self.send(&ToAgent::Interrupt { execution })?;
        self.wait_for(Awaited::GivingWay)
    }

    /// Has the kernel killed, with all processes of the session, and waits for the next one.
    fn replace(&mut self) -> Step {
        let (cause, detail) = self.kill_reason();
        self.commands_end_with_kernel(cause, &detail);
        // Nobody reads the answer to a question.
        let is_reported = !self.running.as_ref().is_some_and(|running| {
            running.kind == Kind::Assist && running.stop != Some(Stop::Reset)
        });
        self.kernels.ended(cause, &detail, is_reported);
        self.set_state(Event::KernelGone)?;
        self.send(&ToAgent::Replace)?;
        self.wait_for(Awaited::Kernel)
    }

    /// Hands the agent what can run now: the next of the queue if nothing has its turn, and commands
    /// that wait for no turn if there is a kernel, whose session they are to run in.
    fn dispatch(&mut self) -> Step {
        loop {
            let is_free = self.state == SessionState::Idle
                && self.sequence.is_ready()
                && !self.commands.values().any(|command| command.has_turn);
            let has_kernel = !matches!(
                self.state,
                SessionState::Starting | SessionState::Replacing | SessionState::Closed
            );
            let can_run = |queued: &QueuedExecution| {
                if queued.spec.waits_for_turn() { is_free } else { has_kernel }
            };
            let next = self.queue.iter().position(can_run);
            let Some(queued) = next.and_then(|next| self.queue.remove(next)) else { break };
            if queued.writer.log().is_abandoned() {
                self.never_ran(queued, Cause::Interrupt, commands::CLIENT_GONE, State::Preserved);
                continue;
            }
            if queued.spec.kind() == Kind::Command {
                self.start_command(queued);
                continue;
            }
            let number = queued.number;
            let (running, message) = self.take_up(queued);
            if let Err(error) = self.channel.send(&message) {
                self.reject(running, None, error.to_string());
                continue;
            }
            self.running = Some(running);
            self.liveness.wanted();
            self.sequence.sent(number);
            self.set_state(Event::Sent)?;
            self.wait_for(Awaited::Handover)?;
        }
        if self.running.is_none() && self.queue.is_empty() && self.foreground_commands() == 0 {
            for waiter in self.idle_waiters.drain(..) {
                discard(waiter.send(()), "nobody waits any more");
            }
        }
        self.note_queue();
        Step::Continue(())
    }

    /// Makes a running execution of a queued one, and the message that hands it to the agent.
    fn take_up(&mut self, queued: QueuedExecution) -> (RunningExecution, ToAgent) {
        let kind = queued.spec.kind();
        let prints_on = queued.spec.prints_on();
        let mut others: Vec<_> = self.running.iter_mut().collect();
        others.extend(self.commands.values_mut().map(|command| &mut command.execution));
        others.iter_mut().for_each(|other| other.overlapped = true);
        let overlapped = !others.is_empty();
        let mut limits = Limits::clone(&self.session.limits());
        if prints_on {
            limits.max_output_bytes = Limit::Unlimited;
        }
        let QueuedExecution { spec, streamed, session_created, writer, .. } = queued;
        let QueuedExecution { reservation, number, queued_at, .. } = queued;
        let WorkSpec { work, files, outputs, timeout, .. } = spec;
        let names = outputs.iter().map(|output| output.name.clone()).collect();
        let running = RunningExecution {
            number,
            kind,
            timeout,
            queued_at,
            started: None,
            mark: self.meter.mark(),
            overlapped,
            stop: None,
            killed: false,
            collector: Collector::new(&limits, outputs, streamed || prints_on),
            writer,
            session_created,
            kernel: None,
            interrupts: Vec::new(),
            request_bytes: reservation.bytes(),
            reservation,
        };
        (running, ToAgent::Execute(Execute { execution: number, work, files, outputs: names }))
    }

    fn send(&mut self, message: &ToAgent) -> Step {
        self.liveness.wanted();
        match self.channel.send(message) {
            Ok(()) => Step::Continue(()),
            Err(error) => Step::Break(End::new(Cause::Agent, error.to_string())),
        }
    }

    fn set_state(&mut self, event: Event) -> Step {
        match state::next(self.state, event) {
            Ok(state) => {
                self.state = state;
                self.session.status().state = state;
                Step::Continue(())
            }
            Err(error) => {
                let detail = format!("a defect of the supervisor: {error}");
                Step::Break(End::new(Cause::Agent, detail))
            }
        }
    }

    fn wait_for(&mut self, awaited: Awaited) -> Step {
        let timeout = self.running.as_ref().map_or(Duration::ZERO, |running| running.timeout);
        self.deadline.set(awaited, &self.session.timing, timeout);
        Step::Continue(())
    }

    fn note_queue(&self) {
        self.session.status().usage.queued = self.queue.len() as u64;
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
        let Identity { tenant, id, .. } = &own.identity;
        match SessionProcesses::launch(ScopeName { tenant, name: id }, policy, &context).await {
            Ok(processes) => {
                own.set_scope(&processes);
                let mut actor = Actor::new(Arc::clone(&own), processes, context);
                actor.deadline.set(Awaited::Kernel, &own.timing, Duration::ZERO);
                // Boxed: the future would otherwise be part of this one twice.
                Box::pin(actor.run(commands)).await;
            }
            Err(why) => end::stillborn(&own, why, commands, &context.observer).await,
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
    context.observer.session_started(session.created.elapsed());
    context.observer.kernel_started(origin);
    let own = Arc::clone(&session);
    tokio::spawn(async move {
        let mut actor = Actor::new(Arc::clone(&own), processes, context);
        actor.state = SessionState::Idle;
        actor.kernels.ready();
        Box::pin(actor.run(commands)).await;
        on_gone(&own);
        own.gone.send_replace(true);
    });
    session
}

/// What the agent says next. It is not listened to while who follows the execution is behind by
/// all that is kept, nor while the daemon has no room for more, so that the code waits; unless the
/// code is being stopped, which it has to be seen to obey. Who follows a command holds up that alone
/// ([`beside`]). Safe to cancel: nothing is lost.
async fn recv(
    channel: &mut Channel,
    running: Option<&RunningExecution>,
    has_commands: bool,
    account: &Account,
) -> Result<FromAgent, ChannelError> {
    let max_wait = match running.filter(|running| running.stop.is_none()) {
        Some(running) => {
            running.writer.log().ready_for_events().await;
            MAX_BUDGET_WAIT
        }
        None if has_commands => MAX_BUDGET_WAIT,
        None => Duration::ZERO,
    };
    channel.next_within(account, max_wait).await
}

/// Resolves when everybody went away for whom this runs, if it is to stop then.
async fn abandoned(running: Option<&RunningExecution>) {
    match running.filter(|running| running.stop.is_none()) {
        Some(running) => running.writer.log().abandoned().await,
        None => std::future::pending().await,
    }
}

/// Resolves at this time; never if there is none.
async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
