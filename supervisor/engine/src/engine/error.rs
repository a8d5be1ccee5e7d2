//! Why the engine says no. Each variant is one stable `code` of the API.

use std::num::NonZeroU16;
use std::time::Duration;

use vivarium_api_types::ApprovalState;
use vivarium_protocol::message::{Failure, Transient};
use vivarium_protocol::units::Limit;

use crate::backend::LaunchError;
use crate::backend::inspect::InspectError;
use crate::budget::Full;
use crate::images::Obstacle;
use crate::memory::Shortage;
use crate::quotas::Exceeded;
use crate::stores::StoreError;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// No such session, or not this tenant's.
    #[error("there is no session {0:?}")]
    UnknownSession(String),
    #[error("there already is a session {0:?}")]
    Conflict(String),
    #[error("{field}: {reason}")]
    Invalid {
        /// Which, as `limits.max_procs`.
        field: String,
        reason: String,
    },
    /// A limit that is to be lowered below what the session uses.
    #[error("limits.{limit}: {reason}")]
    LimitInUse { limit: &'static str, reason: String },
    #[error("{field}: {reason}")]
    Missing { field: &'static str, reason: &'static str },
    #[error("{depth} executions wait in this session, as many as may")]
    QueueFull { depth: usize },
    #[error("{max} commands run in this session, as many as may")]
    TooManyCommands { max: usize },
    /// No such context in the session, or it is on its way out.
    #[error("there is no context {0:?} in this session")]
    UnknownContext(String),
    #[error("there already is a context {0:?} in this session")]
    ContextExists(String),
    #[error("the context \"main\" is as long as its session: delete that, or reset it")]
    MainContext,
    #[error("there are {max} contexts in this session, as many as may")]
    TooManyContexts { max: usize },
    #[error("the context's kernel could not be started: {0}")]
    ContextNotStarted(String),
    #[error("execution {0:?} is no command that is running")]
    NotRunning(String),
    /// It was not started with its standard input open, has closed it, or is over.
    #[error(
        "nothing can be written to its standard input: it was not left open (stdin_open), was \
             closed, or the command is over"
    )]
    NoStdin,
    #[error("execution {0:?} has no terminal: a command is given one with pty")]
    NoTerminal(String),
    /// The command does not read what is written to it.
    #[error("{0}")]
    StdinFull(String),
    /// Requests, executions and results take what they may take together, of the tenant or of all.
    #[error("{0}")]
    NoRoom(Full),
    #[error("there are as many sessions as there may be ({max})")]
    TooManySessions { max: u64 },
    #[error("there are as many sessions of this tenant as there may be ({max})")]
    TooManyOfTenant { max: u64 },
    /// One of the tenant's quotas is used up.
    #[error("the tenant's quota {} is used up; try again in {} s", .0.quota.name(), .0.retry_after_secs())]
    QuotaExceeded(Exceeded),
    /// The rule for executions is `deny`: the tenant's, the session's or the request's own.
    #[error("nothing may run here (approval.executions)")]
    ExecutionsDenied,
    /// No such approval, or another tenant's, or it is not kept any more.
    #[error("there is no approval {0:?}")]
    UnknownApproval(String),
    #[error("this call waits no more: {}", <&'static str>::from(.0))]
    ApprovalEnded(ApprovalState),
    #[error("there is no room for one more session: {0}")]
    NoCapacity(Shortage),
    #[error("the daemon has no file descriptor left for this")]
    NoDescriptors,
    /// Something runs or waits in this session, and the request waits for nobody; or the session
    /// was interrupted or reset meanwhile.
    #[error("an execution runs or waits in this session, or it was interrupted or reset meanwhile")]
    Busy,
    /// The session is suspended, or is being suspended or resumed, and what was asked does not resume it.
    #[error("the session {0:?} is suspended: resume it first")]
    Suspended(String),
    #[error("the session {0:?} is not suspended, and so has no image: suspend it first")]
    NotSuspended(String),
    #[error("this session cannot be suspended: {}", texts(.0))]
    NotImageable(Vec<Obstacle>),
    #[error("this session has no checkpoint {0:?}")]
    UnknownCheckpoint(String),
    #[error("this session has a checkpoint {0:?} already: delete it first")]
    CheckpointExists(String),
    #[error("the session has no checkpoints: it was made so, or images.checkpoint says so")]
    CheckpointsOff,
    /// The tenant has as many images as it may, or as many bytes of them.
    #[error("the tenant's suspended sessions and checkpoints fill their room ({key} = {max})")]
    ImagesFull { key: &'static str, max: u64 },
    /// An image could not be written, or put into a kernel.
    #[error("{0}")]
    Image(String),
    /// No such execution, or not this tenant's, or its result is not kept any more.
    #[error("there is no execution {0:?} in this session, or its result is not kept any more")]
    UnknownExecution(String),
    /// A server of tools does not say what it has.
    #[error("tool server {0:?} cannot be used: {1}")]
    ToolServer(String, String),
    #[error("there is no call {0:?} in this execution")]
    UnknownCall(String),
    #[error("call {0:?} was answered, with another answer")]
    CallAnswered(String),
    /// Its time is up, its code was interrupted or has withdrawn it, or its execution is over.
    #[error("call {0:?} waits no more: late, given up by its code, or its execution is over")]
    CallOver(String),
    #[error("events are not kept for ever: the first that is there is {first}")]
    EventsGone { first: u64 },
    #[error("this Idempotency-Key was used for another request: another path or body")]
    KeyReused,
    /// The request was carried out, and its result had to make room for others, or its session is
    /// over.
    #[error(
        "this request was carried out; its result is not kept any more, or its session is over"
    )]
    ResultGone,
    #[error("the kernel did not answer: {0}")]
    NoAnswer(String),
    #[error("as many operations on files are under way as may be ({max} in a session)")]
    TooManyTransfers { max: u32 },
    /// A path that can not name anything beneath the workdir, or leads through a symbolic link.
    #[error("{path:?}: {reason}")]
    BadPath { path: String, reason: String },
    #[error("there is no file {0:?}")]
    UnknownFile(String),
    /// Something is there that can not be used as a file, or as a directory where one is needed.
    #[error("{path:?}: {detail}")]
    NotAFile { path: String, detail: String },
    #[error("a file of this session may have {max_mb} MiB (limits.max_file_size_mb)")]
    FileTooLarge { max_mb: Limit },
    /// The session's disk or inodes are used up.
    #[error("{path:?}: {detail}")]
    NoSpace { path: String, detail: String },
    #[error("{0}")]
    BadArchive(String),
    #[error("{path:?}: {detail}")]
    FileRefused { path: String, detail: String },
    #[error("{path:?}: {detail}")]
    FileExists { path: String, detail: String },
    /// Its network is the host's, or none: nothing in it listens on ports of its own.
    #[error("session {session:?} has no ports of its own: its network is {network}")]
    NoPorts { session: String, network: &'static str },
    #[error("nothing in the session listens on port {0}, on 127.0.0.1 or ::1")]
    PortClosed(NonZeroU16),
    #[error("port {0} of the session did not accept a connection in time")]
    PortTimedOut(NonZeroU16),
    #[error("as many connections to the session's ports are open as may be ({max})")]
    TooManyPortConnections { max: usize },
    #[error("{what} not available in runtime {runtime}: use an environment with runtime cpython")]
    NotInRuntime { what: &'static str, runtime: &'static str },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No such environment was built, or it is not this tenant's.
    #[error("there is no built environment {0:?}")]
    UnknownEnvironment(String),
    #[error("environment {0:?} is being built: wait for that, or follow it")]
    BuildRunning(String),
    #[error("{max} environments are being built, as many as may ({key})")]
    TooManyBuilds { max: u64, key: &'static str },
    #[error(
        "there are {max} environments of this tenant, as many as may (tenant.max_environments)"
    )]
    TooManyEnvironments { max: u64 },
    #[error(
        "the tenant's environments take {used_mb} MiB of {max_mb} (tenant.max_environments_mb): remove \
         some, and end the sessions that have them"
    )]
    EnvironmentsFull { used_mb: u64, max_mb: u64 },
    #[error("the operator does not let this tenant build environments (tenant.may_build)")]
    MayNotBuild,
    #[error("no environment can be built: {0}")]
    NoUv(String),
    #[error("{0}")]
    EnvironmentsUnavailable(String),
    /// The session's network is `trusted`, and there is no egress gate.
    #[error("no way out for the session: {0}")]
    EgressUnavailable(String),
    /// `audit.on_full` is `stop`.
    #[error("the audit log cannot be written, so nothing new is run")]
    AuditUnavailable,
    #[error("the daemon is draining: it takes no new work until it is started again")]
    Draining,
    /// An administrator takes no new work for now.
    #[error("the daemon is paused: it takes no new work until it is resumed{}", because(.0))]
    Paused(Option<String>),
    #[error("this tenant is paused: its new work is refused until it is resumed{}", because(.0))]
    TenantPaused(Option<String>),
    /// A defect of ours, or the daemon has run out of something.
    #[error("{0}")]
    Internal(String),
    /// The session's processes could not be started or confined, or not now: `transient`.
    #[error("the session could not be started: {0}")]
    NotStarted(Failure),
}

fn texts(obstacles: &[Obstacle]) -> String {
    obstacles.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl EngineError {
    pub(super) fn invalid(field: impl Into<String>, reason: impl ToString) -> Self {
        Self::Invalid { field: field.into(), reason: reason.to_string() }
    }

    /// The name that clients may rely on.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownSession(_) => "unknown_session",
            Self::Conflict(_) => "session_exists",
            Self::Invalid { .. } => "invalid_field",
            Self::LimitInUse { .. } => "limit_in_use",
            Self::Missing { .. } => "missing_field",
            Self::QueueFull { .. } => "queue_full",
            Self::TooManyCommands { .. } => "too_many_commands",
            Self::UnknownContext(_) => "unknown_context",
            Self::ContextExists(_) => "context_exists",
            Self::MainContext => "main_context",
            Self::TooManyContexts { .. } => "too_many_contexts",
            Self::ContextNotStarted(_) => "context_not_started",
            Self::NotRunning(_) => "not_running",
            Self::NoStdin => "no_stdin",
            Self::NoTerminal(_) => "no_terminal",
            Self::StdinFull(_) => "stdin_full",
            Self::NoRoom(Full::Tenant { .. }) => "no_room",
            Self::NoRoom(Full::Daemon { .. }) => "overloaded",
            Self::TooManySessions { .. } | Self::TooManyOfTenant { .. } => "too_many_sessions",
            Self::QuotaExceeded(_) => "quota_exceeded",
            Self::ExecutionsDenied => "executions_denied",
            Self::UnknownApproval(_) => "unknown_approval",
            Self::ApprovalEnded(_) => "approval_ended",
            Self::NoCapacity(_) => "no_capacity",
            Self::NoDescriptors => "no_descriptors",
            Self::Busy => "busy",
            Self::Suspended(_) => "suspended",
            Self::NotSuspended(_) => "not_suspended",
            Self::NotImageable(_) => "not_imageable",
            Self::UnknownCheckpoint(_) => "unknown_checkpoint",
            Self::CheckpointExists(_) => "checkpoint_exists",
            Self::CheckpointsOff => "checkpoints_off",
            Self::ImagesFull { .. } => "images_full",
            Self::Image(_) => "image_failed",
            Self::UnknownExecution(_) => "unknown_execution",
            Self::ToolServer(..) => "tool_server_unavailable",
            Self::UnknownCall(_) => "unknown_call",
            Self::CallAnswered(_) => "call_answered",
            Self::CallOver(_) => "call_over",
            Self::EventsGone { .. } => "events_gone",
            Self::KeyReused => "idempotency_key_reused",
            Self::ResultGone => "result_gone",
            Self::NoAnswer(_) => "no_answer",
            Self::TooManyTransfers { .. } => "too_many_transfers",
            Self::BadPath { .. } => "bad_path",
            Self::UnknownFile(_) => "unknown_file",
            Self::NotAFile { .. } => "not_a_file",
            Self::FileTooLarge { .. } => "file_too_large",
            Self::NoSpace { .. } => "no_space",
            Self::BadArchive(_) => "bad_archive",
            Self::FileRefused { .. } => "file_refused",
            Self::FileExists { .. } => "file_exists",
            Self::NoPorts { .. } => "no_ports",
            Self::PortClosed(_) => "port_closed",
            Self::PortTimedOut(_) => "port_timed_out",
            Self::TooManyPortConnections { .. } => "too_many_port_connections",
            Self::NotInRuntime { .. } => "not_in_runtime",
            Self::Store(error) => error.code(),
            Self::UnknownEnvironment(_) => "unknown_environment",
            Self::BuildRunning(_) => "build_running",
            Self::TooManyBuilds { .. } => "too_many_builds",
            Self::TooManyEnvironments { .. } => "too_many_environments",
            Self::EnvironmentsFull { .. } => "environments_full",
            Self::MayNotBuild => "may_not_build",
            Self::NoUv(_) => "uv_missing",
            Self::EnvironmentsUnavailable(_) => "environments_unavailable",
            Self::EgressUnavailable(_) => "egress_unavailable",
            Self::AuditUnavailable => "audit_unavailable",
            Self::Draining => "draining",
            Self::Paused(_) => "paused",
            Self::TenantPaused(_) => "tenant_paused",
            Self::Internal(_) => "internal",
            Self::NotStarted(failure) => match failure.transient {
                Some(Transient::Descriptors) => "no_descriptors",
                Some(Transient::Memory | Transient::Processes) => "no_capacity",
                Some(Transient::Killed) => "start_interrupted",
                None => "session_not_started",
            },
        }
    }

    /// When it may be worth trying again, where waiting can help.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::QueueFull { .. }
            | Self::TooManyCommands { .. }
            | Self::TooManyContexts { .. }
            | Self::StdinFull(_)
            | Self::NoRoom(_)
            | Self::Busy
            | Self::Store(StoreError::Busy)
            | Self::NoDescriptors
            | Self::TooManyTransfers { .. }
            | Self::TooManyPortConnections { .. }
            | Self::EgressUnavailable(_) => Some(Duration::from_secs(1)),
            Self::TooManySessions { .. }
            | Self::TooManyOfTenant { .. }
            | Self::TooManyBuilds { .. }
            | Self::EnvironmentsUnavailable(_)
            | Self::AuditUnavailable
            | Self::Draining => Some(Duration::from_secs(5)),
            Self::QuotaExceeded(exceeded) => Some(exceeded.retry_after),
            Self::Paused(_) | Self::TenantPaused(_) => Some(Duration::from_secs(30)),
            Self::NoCapacity(shortage) => Some(shortage.retry_after()),
            Self::NotStarted(failure) if failure.transient.is_some() => {
                Some(Duration::from_secs(1))
            }
            _ => None,
        }
    }
}

fn because(reason: &Option<String>) -> String {
    reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default()
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the agent can not be used")]
    Agent(#[source] LaunchError),
    #[error("environments.{environment}")]
    Interpreter {
        environment: String,
        #[source]
        source: InspectError,
    },
    #[error("environments.{environment}: keep its kernel program")]
    Program {
        environment: String,
        #[source]
        source: std::io::Error,
    },
    #[error("sandbox.mode is \"on\", and {}", .0.iter().map(|missing| format!(
        "the {} layer is {}: {} (fix: {})",
        missing.layer, missing.status, missing.detail, missing.fix
    )).collect::<Vec<_>>().join("; "))]
    LayersMissing(Vec<vivarium_protocol::layer::Report>),
    #[error("sandbox.require has {}; to start without, at the risk of what docs/threat-model.md \
             says of it, say --sandbox-require {rest}", .missing.iter().map(|missing| format!(
        "the {} layer, which is {} in environment {environment}: {} (fix: {})",
        missing.layer, missing.status, missing.detail, missing.fix
    )).collect::<Vec<_>>().join("; "))]
    RequiredMissing {
        environment: String,
        /// The layers, as a trial session reported them.
        missing: Vec<vivarium_protocol::layer::Report>,
        /// What would be required without them.
        rest: String,
    },
    /// Others than this host can reach the API, and must not.
    #[error("the API listens on {address}, which can be reached from other hosts, and {why}")]
    OpenToOthers { address: String, why: &'static str },
    #[error("set the ceilings of tenant {tenant}")]
    Ceilings {
        tenant: String,
        #[source]
        source: crate::cgroup::CgroupError,
    },
    /// Not even a session without the missing layers starts.
    #[error("a trial session of environment {environment} did not start: {failure}{}", fix_of(.failure))]
    Trial { environment: String, failure: Failure },
    #[error("egress.passt: environment {environment}")]
    Passt {
        environment: String,
        #[source]
        source: crate::passt::NoPasta,
    },
    #[error("prepare the metrics")]
    Metrics(#[source] vivarium_metrics::MetricsError),
    #[error(transparent)]
    Audit(#[from] vivarium_audit::OpenError),
    #[error("make a directory for workdirs")]
    Workdirs(#[from] crate::recover::WorkdirError),
}

fn fix_of(failure: &Failure) -> String {
    if failure.fix.is_empty() { String::new() } else { format!(" (fix: {})", failure.fix) }
}
