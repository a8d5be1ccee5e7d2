//! What sessions and the engine tell the metrics, in their own words.
//!
//! Everybody who has something to count holds an [`Observer`], and knows nothing of Prometheus or
//! of names. It must never block, and never put into a label what a client chose.

use std::sync::Arc;
use std::time::Duration;

use vivarium_api_types::{CallOutcome, Outcome};
use vivarium_audit::AuditLog;
use vivarium_metrics::Metrics;
use vivarium_metrics::families::limits::Limit;
use vivarium_metrics::families::output::Stream;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::Origin;
use vivarium_protocol::outcome::Cause;

use crate::usage::Collector;

pub use vivarium_metrics::families::ports::PortResult;
pub use vivarium_metrics::families::queue::Refusal;
pub use vivarium_metrics::families::quotas::Quota;

/// What an execution printed, within its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Printed {
    pub stdout_bytes: u64,
    pub stdout_truncated: bool,
    pub stderr_bytes: u64,
    pub stderr_truncated: bool,
}

/// Counts what happens to one tenant. The default counts nothing.
#[derive(Debug, Clone, Default)]
pub struct Observer(Option<Counted>);

#[derive(Debug, Clone)]
struct Counted {
    metrics: Arc<Metrics>,
    tenant: Arc<str>,
    audit: AuditLog,
    usage: Arc<Collector>,
}

impl Observer {
    pub fn of(
        metrics: &Arc<Metrics>,
        audit: &AuditLog,
        usage: &Arc<Collector>,
        tenant: &str,
    ) -> Self {
        let (metrics, audit, usage) = (Arc::clone(metrics), audit.clone(), Arc::clone(usage));
        Self(Some(Counted { metrics, tenant: tenant.into(), audit, usage }))
    }

    /// The audit log, if there is one.
    pub(crate) fn audit(&self) -> Option<&AuditLog> {
        self.0.as_ref().map(|counted| &counted.audit).filter(|audit| audit.is_on())
    }

    /// Adds to what the tenant is billed for.
    fn bill(&self, add: impl FnOnce(&Collector, &Arc<str>)) {
        if let Some(Counted { usage, tenant, .. }) = &self.0 {
            add(usage, tenant);
        }
    }

    fn count(&self, count: impl FnOnce(&Metrics, &str)) {
        if let Some(Counted { metrics, tenant, .. }) = &self.0 {
            count(metrics, tenant);
        }
    }

    /// A session's first kernel is ready.
    pub fn session_started(&self, after: Duration) {
        self.count(|to, tenant| to.sessions.started(tenant, after));
        self.bill(Collector::session_started);
    }

    pub fn session_not_started(&self, layer: Option<Layer>) {
        let layer = layer.map_or("none", Layer::name);
        self.count(|to, tenant| to.sessions.failed_to_start(tenant, layer));
    }

    /// A session that had started is over.
    pub fn session_ended(&self, cause: Cause) {
        self.count(|to, tenant| to.sessions.ended(tenant, cause.into()));
    }

    /// A session is ended because nobody uses it, or because it is too old.
    pub fn session_reaped(&self) {
        self.count(|to, tenant| to.sessions.reaped(tenant));
    }

    /// Something of an execution was dropped, as the daemon had no room for it.
    pub fn output_dropped(&self) {
        self.count(|to, tenant| to.buffers.dropped(tenant));
    }

    pub fn refused(&self, reason: Refusal) {
        self.count(|to, tenant| to.queue.refused(tenant, reason));
    }

    /// A quota of the tenant refused a request.
    pub fn over_quota(&self, quota: Quota) {
        self.count(|to, tenant| {
            to.queue.refused(tenant, Refusal::QuotaExceeded);
            to.quotas.refused(tenant, quota);
        });
    }

    /// Code starts, so long after it came.
    pub fn execution_started(&self, after: Duration) {
        self.count(|to, tenant| to.queue.waited(tenant, after));
    }

    /// An execution is answered. `ran` says how long it ran, if it did.
    pub fn execution_ended(&self, outcome: &Outcome, ran: Option<Duration>, printed: Printed) {
        let cause = outcome.cause.map_or("none", Into::into);
        // Only a number that is no time at all is refused.
        let cpu = Duration::try_from_secs_f64(outcome.usage.cpu_ms / 1000.0).unwrap_or_default();
        self.count(|to, tenant| {
            to.executions.ended(tenant, outcome.status.into(), cause, ran, cpu);
            // The others are counted from what the kernel counts.
            match outcome.cause {
                Some(Cause::CpuLimit) => to.limits.reached(tenant, Limit::Cpu, 1),
                Some(Cause::DiskLimit) => to.limits.reached(tenant, Limit::Disk, 1),
                _ => {}
            }
            let Printed { stdout_bytes, stdout_truncated, stderr_bytes, stderr_truncated } =
                printed;
            to.output.printed(tenant, Stream::Stdout, stdout_bytes, stdout_truncated);
            to.output.printed(tenant, Stream::Stderr, stderr_bytes, stderr_truncated);
        });
        self.bill(|usage, tenant| usage.execution_ended(tenant, outcome, ran));
    }

    /// Code called a function of its client's.
    pub fn call_opened(&self) {
        self.count(|to, tenant| to.calls.opened(tenant));
    }

    pub fn call_ended(&self, outcome: CallOutcome, after: Duration) {
        self.count(|to, tenant| to.calls.ended(tenant, outcome.into(), after));
    }

    /// It did not reach the client.
    pub fn call_refused(&self) {
        self.count(|to, tenant| to.calls.refused(tenant));
    }

    /// A connection to a port of a session was made, or was not.
    pub fn port_connected(&self, result: PortResult) {
        self.count(|to, tenant| to.ports.connected(tenant, result));
    }

    pub fn kernel_started(&self, origin: Origin) {
        self.count(|to, tenant| to.kernels.started(tenant, origin.into()));
    }

    /// A kernel ended, and another takes its place.
    pub fn kernel_restarted(&self, cause: Cause) {
        self.count(|to, tenant| to.kernels.restarted(tenant, cause.into()));
    }

    /// The session's scope has counted these since it was last asked.
    pub fn limits_reached(&self, oom_kills: u64, forks_refused: u64) {
        self.count(|to, tenant| {
            to.limits.reached(tenant, Limit::Memory, oom_kills);
            to.limits.reached(tenant, Limit::Pids, forks_refused);
        });
    }
}
