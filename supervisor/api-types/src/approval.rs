//! Approvals: calls that wait until somebody allows or denies them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};
use utoipa::{IntoParams, ToSchema};
use vivarium_protocol::policy::Network;

use super::{ExecutionKind, schema};

/// The most bytes of code that an approval shows.
pub const MAX_SHOWN_BYTES: usize = 64 << 10;

/// How far an approval has come.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody has decided yet.
    Pending,
    Allowed,
    Denied,
    /// Nobody decided in time, which denies.
    TimedOut,
    /// Nobody waits for it any more: the session or its client is gone, or it was interrupted.
    Withdrawn,
}

/// What is remembered of an approval, in the order of how much that is.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantNames,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Remember {
    /// The next call asks again.
    #[default]
    Nothing,
    /// The same call of the same session is allowed.
    Session,
    /// The same call of any session of the tenant is allowed, for `approval.remember_for`.
    Tenant,
}

/// What becomes of a call, in the order of how tight that is.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ApprovalRule {
    #[default]
    Allow,
    /// Each waits until somebody decides.
    Ask,
    Deny,
}

/// Rules tighter than the tenant's: `ask` where that allows, `deny` where it allows or asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalSpec {
    /// Of code and commands; as the tenant's if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executions: Option<ApprovalRule>,
    /// Of destinations that are on no list, for a session of network `trusted`; as the tenant's if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<ApprovalRule>,
}

/// An execution that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalExecution {
    /// Its id in its session.
    pub id: String,
    pub kind: ExecutionKind,
    /// The code; null for a command, and in lists.
    #[serde(default)]
    pub code: Option<String>,
    /// The command; null for code, and in lists.
    #[serde(default)]
    pub argv: Option<Vec<String>>,
    /// Whether code or command are cut off after 64 KiB.
    pub truncated: bool,
    /// SHA-256 of the code, or of each argument followed by a zero byte, as in the audit log.
    pub code_sha256: String,
    /// Of code, or of all arguments together.
    pub code_bytes: u64,
    pub environment: String,
    #[schema(schema_with = schema::names::<Network>)]
    pub network: Network,
    /// The names of the variables that the request sets.
    pub env: Vec<String>,
    /// The names of the files that the request brings, at most 100.
    pub files: Vec<String>,
    /// The names of the client's functions that its code can call.
    #[serde(default)]
    pub tools: Vec<String>,
    /// How long it may run, in milliseconds.
    pub timeout_ms: u64,
}

/// A destination that is on no list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalEgress {
    /// A name, or an address.
    pub host: String,
    /// TCP.
    pub port: u16,
}

/// A call that waits until somebody decides, or what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalInfo {
    pub id: String,
    pub state: ApprovalState,
    pub tenant: String,
    pub session_id: String,
    /// What is to run; null where a destination is to be reached.
    pub execution: Option<ApprovalExecution>,
    /// What is to be reached; null where something is to run.
    pub egress: Option<ApprovalEgress>,
    /// When it began to wait.
    #[schema(value_type = String, format = DateTime)]
    pub asked_at: Timestamp,
    /// When it is denied if nobody decides.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// When it was decided, timed out or was withdrawn; null while it waits.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// Who decided: for tenants `administrator` and `webhook`, and the names of their own tokens.
    pub by: Option<String>,
    /// Why, in the words of whoever decided; the tenant sees it too.
    pub reason: Option<String>,
    /// What was remembered, or can be at most while it is pending.
    pub remember: Remember,
}

/// Part of a list of approvals, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalPage {
    /// Oldest first.
    pub approvals: Vec<ApprovalInfo>,
    /// The `after` of the next part; null at the end.
    pub next: Option<String>,
}

/// Which approvals to list.
#[derive(Debug, Clone, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ApprovalQuery {
    /// Those of this state alone; `pending` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ApprovalState>,
    /// Those of every state, of the last minutes.
    pub all: bool,
    /// The most in one part, from 1 to 1000.
    pub limit: usize,
    /// The `next` of the part before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Default for ApprovalQuery {
    fn default() -> Self {
        Self { state: None, all: false, limit: 100, after: None }
    }
}

/// What to do with a call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    Allow,
    Deny,
}

/// A decision about a call that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideRequest {
    /// Whether the call goes on.
    pub decision: ApprovalDecision,
    /// What to remember of an approval, at most what the tenant's rule says; that if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<Remember>,
    /// Why: at most 200 characters. The tenant sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub reason: Option<String>,
}

/// `awaiting_approval`: the execution waits until somebody allows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AwaitingApprovalEvent {
    /// Unique within the session.
    pub execution_id: String,
    pub session_id: String,
    /// Which approval it waits for.
    pub approval_id: String,
    /// When it is denied if nobody decides.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}
