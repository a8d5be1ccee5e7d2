//! The daemon and its host.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::layer::Report;
use vivarium_protocol::units::Limit;

use crate::schema;

/// What this host offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostInfo {
    pub version: String,
    /// Release of the Linux kernel.
    pub kernel: String,
    /// `auto`, `on` or `off`
    pub mode: String,
    /// Every layer of the sandbox, as a trial session of the default environment reported it.
    #[schema(schema_with = schema::protection)]
    pub layers: Vec<Report>,
    /// What the tenant's sessions can have by name: configured environments, the operator's built ones and
    /// the tenant's own.
    pub environments: Vec<EnvironmentInfo>,
    pub capacity: Capacity,
    /// Whether a session that asks for no other network can install packages through the egress gate.
    #[serde(default)]
    pub installs_packages: bool,
}

/// An interpreter that sessions can use, and the packages that are built on top of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentInfo {
    pub name: String,
    /// The configured environment that a built one is on top of; null if it is a configured one itself.
    #[serde(default)]
    pub base: Option<String>,
    /// `cpython`, or `wasm`: CPython in a WebAssembly engine
    #[serde(default)]
    pub runtime: String,
    /// Path on the host; of a built environment its base's, and of runtime `wasm` the engine's program.
    pub interpreter: String,
    /// Such as `3.11.2`.
    pub python_version: String,
    pub template: TemplateInfo,
    /// Null if no sessions are kept ready.
    #[serde(default)]
    pub pool: Option<PoolInfo>,
}

/// Sessions kept ready for a tenant in an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolInfo {
    /// Ready now.
    pub ready: usize,
    /// If fewer than this are left, more are started.
    pub low: usize,
    /// How many there are after that.
    pub high: usize,
}

/// A template: a warmed process that kernels are forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateInfo {
    /// `off`, `building`, `ready`, or `unavailable`, in which case kernels are executed.
    pub state: String,
    /// Why it is unavailable, else null.
    pub reason: Option<String>,
}

/// Every tenant that is configured or ever had a session here, ordered by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantList {
    pub tenants: Vec<TenantInfo>,
}

/// Sums over all sessions of a tenant. A figure is null without the cgroup controller it needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantInfo {
    pub name: String,
    /// The tenant's sessions now.
    pub sessions: u64,
    /// Sessions that are running code now.
    pub running: u64,
    /// Executions that are waiting now.
    pub queued: u64,
    /// CPU time so far, ended sessions included, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Memory charged to the tenant now.
    pub memory_bytes: Option<u64>,
    /// Processes and threads now.
    pub processes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// The tenant's sessions now.
    pub sessions: usize,
    /// The tenant's maximum.
    #[schema(schema_with = schema::limit)]
    pub max_sessions: Limit,
    /// Executions that may wait in each session.
    pub queue_depth: usize,
    /// CPUs that the daemon may use.
    pub cpus: usize,
    #[serde(default)]
    pub memory: MemoryCapacity,
}

/// Memory for more sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryCapacity {
    /// What sessions may still take; null if the host does not say.
    pub available_bytes: Option<u64>,
    /// What one more session of the default environment is expected to take.
    pub session_estimate_bytes: u64,
}
