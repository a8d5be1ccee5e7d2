//! A session: its kernels, the executions that wait for them, and what is known about both.
//!
//! Each session is one tokio task (the actor), which alone holds the agent's socket and decides
//! what happens next; everybody else holds a [`Session`], sends it [`Command`]s and reads what
//! it last noted down. No thread, timer or buffer belongs to a session that is idle.
//!
//! It must never believe an agent that speaks out of turn, answer an execution twice or not at
//! all, or say that state was preserved when it was not.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use vivarium_api_types::{ApprovalSpec, SessionInfo, SessionSpec, SessionState, SessionUsage};
use vivarium_protocol::layer::Report;
use vivarium_protocol::message::{Failure, Origin};
use vivarium_protocol::outcome::Cause;
use vivarium_protocol::policy::{Limits, Network};

use crate::cgroup::Scope;
use crate::code_policy::HeldTo;
use crate::egress::SessionEgress;
use crate::latest::Latest;
use crate::settings::Settings;
use crate::template::memory::TemplateMemory;
use stores::SessionStores;

mod actor;
mod adjustable;
mod audited;
pub(crate) mod calls;
mod cause;
mod channel;
mod checkpointing;
mod command;
mod deadlines;
mod egress;
mod execution;
pub mod execution_log;
mod launch;
mod liveness;
mod output;
mod pooled;
pub mod port;
mod processes;
pub(crate) mod question;
pub mod registry;
mod results;
mod state;
mod stdin;
mod stores;
mod suspension;
#[cfg(test)]
pub(crate) mod tests;
pub mod transfer;
mod turns;

pub use actor::{AwaitedApproval, MAX_COMMANDS, MAX_CONTEXTS, from_pooled, spawn};
pub use adjustable::{Adjustable, Deadline};
pub(crate) use checkpointing::{LostState, Making};
pub use command::Command;
pub use execution::{ContextRefusal, Interrupted, QueuedExecution, Refusal, ResetDone, WorkSpec};
pub use launch::{LaunchContext, LaunchPlan};
pub use output::{mime_bundle, mime_sizes};
pub use pooled::PooledSession;
pub use results::Results;
pub use stdin::StdinPipe;
pub(crate) use suspension::Call;
pub use turns::Turns;

/// Commands that may wait for an actor that is busy with another; not the execution queue.
const COMMANDS: usize = 16;

/// What a session is, unchanging.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// Its id, checked to be a plain name.
    pub id: String,
    /// Whose it is, a plain name too.
    pub tenant: String,
    pub environment: String,
    pub network: Network,
    /// What somebody has to allow first, whatever the tenant's rule: its request said so.
    pub approval: ApprovalSpec,
}

/// The durations and bounds of a session, as they were configured when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time between SIGINT and SIGKILL.
    pub interrupt_grace: Duration,
    pub start_timeout: Duration,
    pub queue_depth: usize,
    /// How long the result of an execution can be asked for afterwards.
    pub results_kept: Duration,
}

/// What the actor publishes for others to read.
#[derive(Debug)]
pub(crate) struct SessionStatus {
    pub(crate) state: SessionState,
    pub(crate) protection: Arc<[Report]>,
    /// How its kernel came about, once there is one.
    pub(crate) origin: Option<Origin>,
    pub(crate) usage: SessionUsage,
    pub(crate) adjustable: Adjustable,
    pub(crate) last_used: Instant,
    pub(crate) last_used_at: Timestamp,
    /// Whether the reaper has taken it up.
    pub(crate) reaped: bool,
    /// Whether it is being suspended or resumed: nothing begins in it.
    pub(crate) suspended: bool,
    /// When it had been used last as it was to be suspended for want of use.
    tried_to_suspend: Option<Instant>,
    /// Commands that run and that somebody waits for, and contexts but the first that run code.
    pub(crate) running_beside: usize,
}

impl SessionStatus {
    /// The state of the session as a whole: that of its first context, unless only others run.
    pub(crate) fn state(&self) -> SessionState {
        match self.state {
            SessionState::Idle if self.running_beside > 0 => SessionState::Running,
            state => state,
        }
    }
}

/// Everybody's hold on a session.
#[derive(Debug)]
pub struct Session {
    pub identity: Identity,
    timing: Timing,
    created: Instant,
    pub(crate) created_at: Timestamp,
    commands: mpsc::Sender<Command>,
    status: Mutex<SessionStatus>,
    adjusting: tokio::sync::Mutex<()>,
    scope: OnceLock<Arc<Scope>>,
    /// What its kernels share with the template that they are forked from, if they can be saved.
    memory: OnceLock<Arc<TemplateMemory>>,
    stores: OnceLock<SessionStores>,
    spec: OnceLock<SessionSpec>,
    before: OnceLock<suspension::Before>,
    /// What its code is held to.
    held_to: OnceLock<HeldTo>,
    /// The settings that held when it was made.
    settings: OnceLock<Arc<Settings>>,
    started: Latest<Option<Result<(), Failure>>>,
    /// When it began to end, if it had started. Outlives the session.
    ended: Arc<OnceLock<Instant>>,
    gone: Latest<bool>,
    /// What it has of the egress, if its network is `trusted`.
    egress: OnceLock<Arc<SessionEgress>>,
    /// Held by each call that is to begin something in it, and by who keeps all of them from it.
    calls: Arc<tokio::sync::RwLock<()>>,
    checkpointing: checkpointing::Checkpointing,
    /// The right to each of its transfers.
    transfers: Arc<Semaphore>,
    /// The right to each of its watchers of files.
    watchers: Arc<Semaphore>,
    /// The right to each connection to its ports.
    ports: Arc<Semaphore>,
}

impl Session {
    fn new(
        identity: Identity,
        adjustable: Adjustable,
        timing: Timing,
    ) -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        let (created, created_at) = (Instant::now(), Timestamp::now());
        let status = SessionStatus {
            state: SessionState::Starting,
            protection: Arc::new([]),
            origin: None,
            usage: SessionUsage::default(),
            adjustable,
            last_used: created,
            last_used_at: created_at,
            reaped: false,
            suspended: false,
            tried_to_suspend: None,
            running_beside: 0,
        };
        let session = Self {
            identity,
            timing,
            created,
            created_at,
            commands,
            status: Mutex::new(status),
            adjusting: tokio::sync::Mutex::new(()),
            scope: OnceLock::new(),
            memory: OnceLock::new(),
            calls: Arc::default(),
            checkpointing: checkpointing::Checkpointing::default(),
            stores: OnceLock::new(),
            spec: OnceLock::new(),
            before: OnceLock::new(),
            held_to: OnceLock::new(),
            settings: OnceLock::new(),
            started: Latest::new(None),
            ended: Arc::default(),
            gone: Latest::new(false),
            egress: OnceLock::new(),
            transfers: Arc::new(Semaphore::new(transfer::MAX_TRANSFERS as usize)),
            watchers: Arc::new(Semaphore::new(transfer::MAX_WATCHERS as usize)),
            ports: Arc::new(Semaphore::new(port::MAX_CONNECTIONS)),
        };
        (session, receiver)
    }

    /// Keeps the scope, from which the usage is read, and the template's memory.
    fn set_scope(&self, processes: &processes::SessionProcesses) {
        if let Some(scope) = &processes.resources.scope {
            self.scope.get_or_init(|| Arc::clone(scope));
        }
        if let Some(memory) = &processes.resources.memory {
            self.memory.get_or_init(|| Arc::clone(memory));
        }
    }

    pub(crate) fn set_egress(&self, egress: Arc<SessionEgress>) {
        self.egress.get_or_init(|| egress);
    }

    pub(crate) fn egress(&self) -> Option<&Arc<SessionEgress>> {
        self.egress.get()
    }

    pub(crate) fn status(&self) -> std::sync::MutexGuard<'_, SessionStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the settings that its limits and times come from, and which it keeps.
    pub fn was_made_under(&self, settings: &Arc<Settings>) {
        self.settings.get_or_init(|| Arc::clone(settings));
    }

    pub(crate) fn is_held_to(&self, held_to: HeldTo) {
        self.held_to.get_or_init(|| held_to);
    }

    pub(crate) fn held_to(&self) -> Option<&HeldTo> {
        self.held_to.get()
    }

    pub fn settings(&self) -> Option<&Arc<Settings>> {
        self.settings.get()
    }

    /// Marks the session as used now.
    pub fn touch(&self) {
        let mut status = self.status();
        status.last_used = Instant::now();
        status.last_used_at = Timestamp::now();
    }

    /// Sends a command; `false` if the session is over.
    pub async fn send(&self, command: Command) -> bool {
        self.commands.send(command).await.is_ok()
    }

    /// Sends a command with a place for its answer; `None` if the session is over.
    pub async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        if !self.send(command(sender)).await {
            return None;
        }
        receiver.await.ok()
    }

    /// Whether it is over, or about to be.
    pub fn is_closed(&self) -> bool {
        self.commands.is_closed() || self.status().state == SessionState::Closed
    }

    /// Waits until its first kernel is ready.
    pub async fn started(&self) -> Result<(), Failure> {
        self.started.reached(Option::is_some).await.unwrap_or(Ok(()))
    }

    /// When it began to end, for those who do not keep the session itself. Never set of one that
    /// did not start.
    pub fn ended(&self) -> Arc<OnceLock<Instant>> {
        Arc::clone(&self.ended)
    }

    /// Ends it, and waits until nothing of it is left.
    pub async fn close(&self, cause: Cause) {
        self.send(Command::Close(cause)).await;
        self.gone().await;
    }

    /// Waits until nothing of it is left.
    pub async fn gone(&self) {
        self.gone.reached(|gone| *gone).await;
    }

    /// All that is known without asking the agent. What runs is the engine's to say.
    pub fn info(&self) -> SessionInfo {
        let expires_at = self.expires_at();
        let status = self.status();
        let Adjustable { limits, metadata, idle_timeout, deadline } = status.adjustable.clone();
        let mut usage = status.usage;
        if let Some(scope) = self.scope.get() {
            let used = scope.usage();
            usage.cpu_ms = used.cpu_us.map_or(usage.cpu_ms, millis);
            usage.memory_bytes = used.memory_bytes;
            let peak = used.memory_peak_bytes.unwrap_or(0);
            usage.memory_peak_bytes = usage.memory_peak_bytes.max(peak);
            usage.processes_peak = used.processes_peak;
            usage.io_read_bytes = used.io.map(|io| io.read_bytes);
            usage.io_write_bytes = used.io.map(|io| io.write_bytes);
        }
        let egress = self.egress();
        if let Some((bytes_in, bytes_out)) = egress.map(|egress| egress.bytes()) {
            usage.egress_in_bytes = Some(bytes_in);
            usage.egress_out_bytes = Some(bytes_out);
        }
        SessionInfo {
            id: self.identity.id.clone(),
            tenant: self.identity.tenant.clone(),
            environment: self.identity.environment.clone(),
            state: status.state(),
            kernel_origin: status.origin,
            protection: status.protection.to_vec(),
            limits: Limits::clone(&limits).into(),
            network: self.identity.network,
            home: self.home(),
            volumes: self.volumes(),
            egress_allow: egress.map(|egress| egress.allowed()),
            usage: self.with_before(usage),
            created_at: self.created_at(),
            last_used_at: status.last_used_at,
            expires_at,
            idle_timeout_ms: whole_millis(idle_timeout),
            deadline: deadline.map(|deadline| deadline.timestamp),
            running: Vec::new(),
            metadata,
            image: None,
            policy: Vec::new(),
        }
    }
}

/// Microseconds as milliseconds.
#[expect(clippy::cast_precision_loss, reason = "exact for the first 285 years")]
pub(crate) fn millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

/// A duration as it is shown.
pub(crate) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A failure that is a defect of ours.
pub fn internal_failure(reason: &str) -> Failure {
    launch::internal(reason)
}
