//! What is audited. Each event becomes one line; a field that is `None` is left out.
//!
//! Strings are escaped when a line is written: any text may stand here, except a secret.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vivarium_api_types::{LimitsInfo, VolumeMount};
use vivarium_protocol::outcome::{Cause, State, Status};
use vivarium_protocol::policy::Network;

use crate::Hash;

/// The most bytes that are kept of code, and of each of stdout and stderr.
pub const CAPTURE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first line of each file.
    FileOpened {
        file: String,
        /// The file before it, and its last line; none at the beginning of a chain.
        previous: Option<Previous>,
        /// Breaks of the chain before, for which this one begins anew.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        broken: Vec<BreakRecord>,
    },
    /// The oldest file is removed, because there are more than `keep`.
    FileRemoved {
        file: String,
        seq: u64,
        head: Hash,
    },
    /// The last line was not complete when the log was opened: what there was of it.
    TornLineCut {
        file: String,
        bytes: u64,
        sha256: Hash,
    },
    /// The log could not be written for some time, or not everything fitted.
    Gap {
        lost: u64,
        since: Option<Timestamp>,
        reason: String,
    },
    DaemonStarted {
        version: &'static str,
    },
    DaemonStopped,
    ConfigReloaded {
        changed: Vec<String>,
        needs_restart: Vec<String>,
    },
    /// A request whose token is missing or unknown. Of many only some are written; `suppressed`
    /// counts the others.
    AuthFailed {
        peer: String,
        reason: Cow<'static, str>,
        suppressed: u64,
    },
    SessionCreated(Box<SessionCreated>),
    SessionEnded(Box<SessionEnded>),
    ExecutionStarted(Box<ExecutionStarted>),
    ExecutionEnded(Box<ExecutionEnded>),
    Egress(Box<EgressDecision>),
    ToolCall(Box<ToolCall>),
    ApprovalAsked(Box<ApprovalAsked>),
    ApprovalEnded(Box<ApprovalEnded>),
    Admin(Box<AdminAct>),
    Environment(Box<EnvironmentChange>),
    Home(Box<StoreChange>),
    Volume(Box<StoreChange>),
    Image(Box<ImageChange>),
}

/// A home or volume was made or removed.
#[derive(Debug, Clone, Serialize)]
pub struct StoreChange {
    pub tenant: String,
    /// A volume's name; a home's id: that of its sessions, or `@tenant`.
    pub name: String,
    /// `created`, `removed` or `expired`.
    pub change: &'static str,
}

/// A session was suspended or resumed, or something was done with its image or a checkpoint.
#[derive(Debug, Clone, Serialize)]
pub struct ImageChange {
    pub tenant: String,
    pub session: String,
    /// `suspended`, `resumed`, `checkpointed`, `rolled_back`, `branched`, `exported`, `imported`, `deleted` or
    /// `expired`.
    pub change: &'static str,
    /// The image's UUID, which goes with it to other hosts.
    pub image: String,
    /// The checkpoint's name, where it was of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// The session that the image was of, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// A build of an environment that ended, or the removal of one.
#[derive(Debug, Clone, Serialize)]
pub struct EnvironmentChange {
    /// Whose it is; none if it is the operator's, for all.
    pub tenant: Option<String>,
    pub name: String,
    /// `built` or `removed`.
    pub change: &'static str,
    /// SHA-256 of what was built.
    pub artefact: Option<String>,
    /// Why nothing was built.
    pub error: Option<String>,
}

/// A file and its last line.
#[derive(Debug, Clone, Serialize)]
pub struct Previous {
    pub file: String,
    pub seq: u64,
    pub head: Hash,
}

/// A line where the chain is broken.
#[derive(Debug, Clone, Serialize)]
pub struct BreakRecord {
    pub file: String,
    /// From 1.
    pub line: u64,
    pub reason: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct SessionCreated {
    pub tenant: String,
    pub session: String,
    pub environment: String,
    pub network: Network,
    pub limits: LimitsInfo,
    /// The id of its home.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The volumes that it sees, and where.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeMount>,
}

#[derive(Debug, Clone, Serialize)]
pub struct SessionEnded {
    pub tenant: String,
    pub session: String,
    pub cause: Cause,
    /// Whether its first kernel was ever ready.
    pub started: bool,
    pub duration_ms: u64,
    pub executions: u64,
    pub cpu_ms: u64,
    pub memory_peak_bytes: u64,
}

/// What was given to be executed: the SHA-256 of the code as UTF-8, or of each argument of a command
/// followed by a zero byte.
#[derive(Debug, Clone, Serialize)]
pub struct WorkHash {
    /// `code` or `command`.
    pub kind: &'static str,
    pub code_sha256: Hash,
    pub code_bytes: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct ExecutionStarted {
    pub tenant: String,
    pub session: String,
    pub execution: u64,
    #[serde(flatten)]
    pub work: WorkHash,
    pub limits: LimitsInfo,
    pub timeout_ms: u64,
    /// The code, with `capture_code`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Captured>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ExecutionEnded {
    pub tenant: String,
    pub session: String,
    pub execution: u64,
    #[serde(flatten)]
    pub work: WorkHash,
    pub limits: LimitsInfo,
    pub timeout_ms: u64,
    pub status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    pub state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    pub usage: Usage,
    /// How often it raised each audit event of Python, of the first 64 by name, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_events: Option<BTreeMap<String, u64>>,
    /// What went through the egress gate while it ran, if its session has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressCounts>,
    /// What it printed, with `capture_output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Captured>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Captured>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Usage {
    pub cpu_ms: u64,
    pub memory_peak_bytes: u64,
    /// Ticks of its work, if they were limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<u64>,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EgressCounts {
    pub allowed: u64,
    pub denied: u64,
    /// To the session, of connections that were open while it ran.
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// A call of a tool, which is over or did not reach whoever was to answer it. Its arguments and its result are never
/// written.
#[derive(Debug, Clone, Serialize)]
pub struct ToolCall {
    pub tenant: String,
    pub session: String,
    pub execution: u64,
    /// Its number in the execution; none if it reached nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// The tool's name; the beginning of what code gave for it, if there is none such.
    pub tool: String,
    /// The tool server that it was for; none if its client answers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    pub arguments_bytes: u64,
    /// `result`, `error`, `refused`, `timeout`, `withdrawn` or `ended`.
    pub outcome: &'static str,
    /// How long it waited.
    pub duration_ms: u64,
}

/// A decision about one connection or request.
#[derive(Debug, Clone, Serialize)]
pub struct EgressDecision {
    pub tenant: String,
    pub session: String,
    pub host: String,
    pub port: u16,
    /// Where requests are seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// `allow` or `deny`.
    pub decision: Cow<'static, str>,
    pub reason: Cow<'static, str>,
    /// The address connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// A call begins to wait until somebody allows or denies it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ApprovalAsked {
    pub tenant: String,
    pub session: String,
    /// The approval's id.
    pub approval: String,
    /// `execution` or `egress`.
    pub subject: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A call waits no more, or did not have to.
#[derive(Debug, Clone, Serialize)]
pub struct ApprovalEnded {
    #[serde(flatten)]
    pub asked: ApprovalAsked,
    /// `allowed`, `denied`, `timed_out`, `withdrawn`; `interrupted` if the daemon was killed meanwhile; or
    /// `remembered`: then the approval is the one that allows it.
    pub outcome: &'static str,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is remembered of it.
    pub remember: &'static str,
}

/// What an administrator did, or tried to.
#[derive(Debug, Clone, Serialize)]
pub struct AdminAct {
    /// Who: the name of a token, or `uid:N` of a Unix socket's peer. Never a token.
    pub actor: String,
    /// Such as `tenant.pause`.
    pub action: Cow<'static, str>,
    /// What it was done to, such as the name of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// `ok` or the stable code of the refusal.
    pub result: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A text, as far as it is kept.
#[derive(Debug, Clone, Serialize)]
pub struct Captured {
    pub text: String,
    pub truncated: bool,
}

impl Captured {
    /// The beginning of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let end = text.floor_char_boundary(CAPTURE_BYTES);
        let kept = text.get(..end).unwrap_or_default();
        Self { text: kept.to_owned(), truncated: kept.len() < text.len() }
    }
}

impl Event {
    /// About how many bytes it takes until it is written.
    pub(crate) fn bytes(&self) -> usize {
        let captured = |text: &Option<Captured>| text.as_ref().map_or(0, |it| it.text.len());
        size_of::<ExecutionEnded>()
            + match self {
                Self::ExecutionStarted(started) => captured(&started.code),
                Self::ExecutionEnded(ended) => captured(&ended.stdout) + captured(&ended.stderr),
                _ => 0,
            }
    }
}
