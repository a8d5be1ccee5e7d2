//! The host, as it is shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::layer::Report;
use vivarium_protocol::units::Limit;

use super::schema;

/// This host and what it offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostInfo {
    /// Vivarium's version.
    pub version: String,
    /// The kernel's release.
    pub kernel: String,
    /// `auto`, `on` or `off`.
    pub mode: String,
    /// Every layer, as a trial session of the default environment reported it.
    #[schema(schema_with = schema::protection)]
    pub layers: Vec<Report>,
    /// The environments.
    pub environments: Vec<EnvironmentInfo>,
    /// How much of everything.
    pub capacity: Capacity,
}

/// An environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentInfo {
    /// Its name.
    pub name: String,
    /// Its interpreter.
    pub interpreter: String,
    /// Its Python's version.
    pub python_version: String,
    /// What there is of its template.
    pub template: TemplateInfo,
    /// The sessions that are kept ready in it; null if none are.
    #[serde(default)]
    pub pool: Option<PoolInfo>,
}

/// Sessions that are kept ready for a tenant in an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolInfo {
    /// Those that are ready now.
    pub ready: usize,
    /// If fewer are left, more are started.
    pub low: usize,
    /// Until there are this many.
    pub high: usize,
}

/// A template: a warmed process that kernels are forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateInfo {
    /// `off` (none is wanted), `building`, `ready`, or `unavailable`: kernels are executed then.
    pub state: String,
    /// Why it is unavailable; null if it is not.
    pub reason: Option<String>,
}

/// Every tenant that is configured or ever had a session here, ordered by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantList {
    /// The tenants.
    pub tenants: Vec<TenantInfo>,
}

/// Sums over all sessions of a tenant. A figure is null without the cgroup controller it needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantInfo {
    /// Name of the tenant.
    pub name: String,
    /// Sessions now.
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

/// How much of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// Sessions now.
    pub sessions: usize,
    /// Sessions at most.
    #[schema(schema_with = schema::limit)]
    pub max_sessions: Limit,
    /// Executions that may wait in each.
    pub queue_depth: usize,
    /// CPUs this process may use.
    pub cpus: usize,
    /// Memory.
    #[serde(default)]
    pub memory: MemoryCapacity,
}

/// Memory for more sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryCapacity {
    /// What sessions may still take; null where the host does not tell.
    pub available_bytes: Option<u64>,
    /// What one more session of the default environment is expected to take.
    pub session_estimate_bytes: u64,
}
