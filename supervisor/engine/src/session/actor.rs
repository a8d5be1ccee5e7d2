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

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use vivarium_api_types::SessionState;
use vivarium_protocol::leaf::ContextNumber;
use vivarium_protocol::message::{Description, ExecutionNumber, Failure, ToAgent, WindowSize};
use vivarium_protocol::outcome::Cause;
use vivarium_protocol::sequence::Sequence;

use super::channel::Channel;
use super::checkpointing::Progress;
use super::deadlines::Awaited;
use super::launch::{LaunchContext, Resources};
use super::liveness::Liveness;
use super::processes::SessionProcesses;
use super::state::{self, Event};
use super::transfer::Transfers;
use super::{Command, Session};
use crate::cgroup::Scope;

mod approval;
mod beside;
mod calling;
mod cgroup_events;
mod commands;
mod context;
mod contexts;
mod dispatch;
mod end;
mod finish;
mod from_agent;
mod kernels;
mod leaves;
mod publish;
mod running;
mod signals;
mod start;
mod verdict;

pub use approval::AwaitedApproval;
pub use beside::MAX_COMMANDS;
use beside::RunningCommand;
pub(super) use cgroup_events::Accounting;
use context::{Context, Contexts, reached};
pub use contexts::MAX_CONTEXTS;
use leaves::MadeLeaf;
pub(crate) use publish::Publishing;
use running::{RunningExecution, Stop};
pub use start::{from_pooled, spawn};

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
    /// Commands that some of these leaves are for, and whether they are to have a terminal.
    arriving: BTreeMap<ExecutionNumber, bool>,
    /// Signals for commands that have not been handed to the agent.
    early_signals: BTreeSet<(ExecutionNumber, i32)>,
    /// The size that the terminal of a command is to have that the agent has not been sent yet.
    early_sizes: BTreeMap<ExecutionNumber, WindowSize>,
    /// How often it was reset.
    resets: u64,
    last_number: ExecutionNumber,
    /// Of questions about code, which are numbered apart: executions count up by one.
    last_question: ExecutionNumber,
    describes: Vec<oneshot::Sender<Description>>,
    /// Who asked how many processes there are, in the order of the answers.
    counts: Vec<oneshot::Sender<u32>>,
    idle_waiters: Vec<oneshot::Sender<()>>,
    transfers: Transfers,
    /// How far it is with its own checkpoints, for which everything else may have to wait.
    checkpoints: watch::Receiver<Progress>,
}

impl Actor {
    fn new(session: Arc<Session>, processes: SessionProcesses, launch: LaunchContext) -> Self {
        let SessionProcesses { channel, resources, sequence, mut accounting } = processes;
        // From now on: what happened to others while it waited in a pool is not its doing.
        accounting.oom = resources.scope.as_deref().map(Scope::oom_attribution).unwrap_or_default();
        let checkpoints = session.checkpoint_progress();
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
            arriving: BTreeMap::new(),
            early_signals: BTreeSet::new(),
            early_sizes: BTreeMap::new(),
            resets: 0,
            last_number: 0,
            last_question: FIRST_QUESTION,
            describes: Vec::new(),
            counts: Vec::new(),
            idle_waiters: Vec::new(),
            transfers: Transfers::default(),
            checkpoints,
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
                _ = self.checkpoints.changed() => self.dispatch_all(),
            };
            if let Step::Break(end) = step {
                break end;
            }
        };
        // Boxed, as all futures here that are rare and large: each session's task would have room for them all the time.
        Box::pin(self.end(end, commands)).await;
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
        let timeout = context.running.as_ref().map_or(Duration::ZERO, RunningExecution::time_left);
        context.deadline.set(awaited, &self.session.timing, timeout);
    }

    fn note_queues(&self) {
        let queued = self.contexts.iter().map(|(_, context)| context.queue.len() as u64);
        self.session.status().usage.queued = queued.sum();
    }
}
