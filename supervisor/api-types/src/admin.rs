//! The administration of a daemon.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use vivarium_protocol::units::Limit;

use super::{MemoryCapacity, Scope, TemplateInfo, schema};

/// The most characters of a reason.
pub const MAX_REASON_CHARS: usize = 200;

/// How the daemon does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdminStatus {
    pub version: String,
    /// Its process on the host.
    pub pid: u32,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    pub uptime_seconds: u64,
    /// `auto`, `on` or `off`
    pub mode: String,
    /// Whether it takes no new work any more, and ends when its sessions have.
    pub draining: bool,
    /// Why no tenant's new work is taken; null if it is.
    pub paused: Option<PauseInfo>,
    /// The tenants that are paused by themselves.
    pub paused_tenants: BTreeMap<String, PauseInfo>,
    /// Sessions by state; a state without any is left out.
    pub sessions: BTreeMap<String, u64>,
    /// Executions that wait in them.
    pub queued: u64,
    /// How many tenants there are.
    pub tenants: usize,
    /// The last reload of the configuration, if it failed; null after one that did not.
    pub failed_reload: Option<FailedReload>,
    /// Tenants from a directory or a command; null if they are all in the configuration file.
    pub tenant_sources: Option<TenantSourcesInfo>,
    pub environments: Vec<EnvironmentStatus>,
    pub memory: MemoryCapacity,
    /// What the daemon holds of requests and results.
    pub buffered_bytes: u64,
    pub max_buffered_bytes: u64,
    pub usage: LedgerInfo,
}

/// A reload that was refused: the configuration that was there before still holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedReload {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What is wrong, with file and line.
    pub error: String,
}

/// Tenants from elsewhere, when they were last read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantSourcesInfo {
    /// `ok`, or `failing`: the tenants that there are stay, and it is tried again.
    pub state: String,
    /// When they were last read.
    #[schema(value_type = String, format = DateTime)]
    pub read_at: Timestamp,
    /// What is wrong, with file and line.
    pub error: Option<String>,
}

/// An environment as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentStatus {
    pub name: String,
    pub template: TemplateInfo,
    /// Sessions ready in the pools of all tenants.
    pub pooled: usize,
    /// Layers of the sandbox by status: `enforced`, `partial`, `unavailable`, `off`.
    pub layers: BTreeMap<String, Vec<String>>,
}

/// Since when new work is refused, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseInfo {
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// For people; tenants see it too.
    pub reason: Option<String>,
}

/// The ledger of what tenants used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerInfo {
    /// `kept`, `failing` (it cannot be written, and is tried again) or `off`
    pub state: String,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub flushed_at: Option<Timestamp>,
    /// Why it fails or is off.
    pub error: Option<String>,
    /// Files that were put aside at start, as they were damaged.
    pub damaged: Vec<String>,
}

/// Whom to pause or resume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PauseRequest {
    /// A tenant; all if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// At most 200 characters, for people. Tenants see it too. Without meaning for a resume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What is paused now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseReply {
    pub paused: Option<PauseInfo>,
    pub paused_tenants: BTreeMap<String, PauseInfo>,
    /// Whether the daemon drains, so that it takes no new work until it is started again.
    pub draining: bool,
    /// Whether this is on disk, so that it outlasts a restart.
    pub persistent: bool,
}

/// How to drain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DrainRequest {
    /// End the daemon after that, as SIGTERM does.
    pub exit: bool,
}

/// A drain has begun, or had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainReply {
    /// Sessions that are left.
    pub sessions: usize,
    pub exit: bool,
}

/// Every tenant that is configured or has sessions, ordered by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdminTenantList {
    pub tenants: Vec<AdminTenant>,
}

/// A tenant. A figure is null without the cgroup controller it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdminTenant {
    pub name: String,
    /// False if it was removed and still has sessions.
    pub configured: bool,
    pub sessions: u64,
    #[schema(schema_with = schema::limit)]
    pub max_sessions: Limit,
    /// Sessions that are running code now.
    pub running: u64,
    /// Executions that are waiting now.
    pub queued: u64,
    /// CPU time since the daemon started, in seconds.
    pub cpu_seconds: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub paused: Option<PauseInfo>,
    pub tokens: Vec<TokenInfo>,
}

/// A token as it is configured. The token itself is known to nobody here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenInfo {
    /// The first digits of its hash.
    pub hash_prefix: String,
    pub name: Option<String>,
    pub scopes: Vec<Scope>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<Timestamp>,
    pub expired: bool,
}

/// What is added up in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsagePeriod {
    Hour,
    #[default]
    Day,
    Month,
    Total,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageFormat {
    #[default]
    Json,
    Csv,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// The beginning, by default 30 days ago. The hour that it is in counts.
    #[param(value_type = Option<String>, format = DateTime)]
    pub from: Option<String>,
    /// The end, by default now. The hour that it is in counts.
    #[param(value_type = Option<String>, format = DateTime)]
    pub to: Option<String>,
    /// What is added up in a row: `hour`, `day` (the default), `month` (UTC) or `total`
    #[param(inline)]
    pub period: UsagePeriod,
    /// Only of this tenant.
    pub tenant: Option<String>,
    /// `json` or `csv`
    #[param(inline)]
    pub format: UsageFormat,
}

/// What tenants used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageReport {
    #[schema(value_type = String, format = DateTime)]
    pub from: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub to: Timestamp,
    /// In order of time and then of name; a tenant that used nothing in a period has no row there.
    pub rows: Vec<UsageRow>,
}

/// What a tenant used in a period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageRow {
    pub tenant: String,
    #[schema(value_type = String, format = DateTime)]
    pub start: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub end: Timestamp,
    pub cpu_seconds: f64,
    /// Memory times time, in bytes times seconds.
    pub memory_byte_seconds: u64,
    /// Executions that ran.
    pub executions: u64,
    /// Sessions that were made.
    pub sessions: u64,
    /// Bytes through the egress gate, both ways.
    pub egress_bytes: u64,
    /// Null if nothing was measured.
    pub cpu_source: Option<UsageSource>,
    /// Null if nothing was measured.
    pub memory_source: Option<UsageSource>,
}

/// How a figure is measured: from the tenant's cgroup, which knows of every process; from what
/// executions report (for memory their peak, for as long as they ran); or from one and then the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageSource {
    Cgroup,
    Executions,
    Mixed,
}

impl UsageSource {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Executions => "executions",
            Self::Mixed => "mixed",
        }
    }
}

impl UsageRow {
    /// The columns of the CSV.
    pub const COLUMNS: &str = "tenant,start,end,cpu_seconds,memory_byte_seconds,executions,sessions,\
                               egress_bytes,cpu_source,memory_source";

    /// A line of the CSV (RFC 4180). No value needs quotes: tenants are called by letters, digits,
    /// `_` and `-`.
    #[must_use]
    pub fn csv(&self) -> String {
        let source = |source: Option<UsageSource>| source.map_or("", UsageSource::name);
        format!(
            "{},{},{},{:.6},{},{},{},{},{},{}",
            self.tenant,
            self.start,
            self.end,
            self.cpu_seconds,
            self.memory_byte_seconds,
            self.executions,
            self.sessions,
            self.egress_bytes,
            source(self.cpu_source),
            source(self.memory_source)
        )
    }
}
