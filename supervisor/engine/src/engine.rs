//! The engine: everything Vivarium does, without HTTP.
//!
//! The API's routes translate to these calls, and so does the command line when it runs code in
//! its own process. The engine owns the sessions and what they share; each session decides for
//! itself ([`crate::session`]). It must never start a session with less of the sandbox than its
//! trial session had, nor tell one tenant of another's sessions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use vivarium_audit::AuditLog;
use vivarium_metrics::Metrics;
use vivarium_protocol::message::Description;
use vivarium_protocol::outcome::Cause;
use vivarium_protocol::policy::Network;

use crate::approvals::Approvals;
use crate::backend::Backend;
use crate::backend::ids::IdPool;
use crate::budget::{Account, Budget, Full, Reservation};
use crate::cgroup::Support;
use crate::egress::Egress;
use crate::images::Images;
use crate::memory::Memory;
use crate::observe::{Observer, Refusal};
use crate::passt::NoPasta;
use crate::pools::Pools;
use crate::quotas::{Exceeded, Quotas, TenantQuotas};
use crate::recover::{WorkdirError, Workdirs};
use crate::session::registry::Registry;
use crate::session::transfer::TransferLimiter;
use crate::session::{Command, Results, Session, Turns};
use crate::settings::Settings;
use crate::stores::Stores;
use crate::tool_servers::ToolServers;
use crate::usage::Collector;

mod adjust;
mod administration;
mod admission;
mod approvals;
mod assist;
mod builds;
mod calls;
mod code_policies;
mod contexts;
mod create;
mod egress;
mod environment;
mod error;
mod execute;
mod files;
mod hidden;
mod homes;
mod idempotency;
mod images;
mod kept;
mod page;
mod pause;
mod policy;
mod pools;
mod ports;
mod processes;
mod reaper;
mod reload;
mod request;
mod runtimes;
mod sampler;
mod scrape;
mod start;
mod templates;
mod tenants;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod trial;

pub use crate::artefacts::Owner;
pub use crate::settings::DEFAULT_TENANT;
pub use calls::Round;
pub use create::{Created, Undelivered};
pub use error::{EngineError, StartError};
pub use execute::{ExecutionHandle, ExecutionOptions, ResponseMode};
pub use files::Upload;
pub use idempotency::IdempotencyKey;
pub use processes::Stdin;
pub use request::{is_valid_id, too_low};
pub use trial::below_floor;

use vivarium_api_types::{
    Capacity, HostInfo, KeepaliveReply, SessionInfo, SessionPage, SessionQuery,
};

use administration::Administration;
use environment::Prepared;
use idempotency::Keys;
use page::{cut_page, page_size};

/// The environment of requests that name none.
pub const DEFAULT_ENVIRONMENT: &str = "default";

/// How long an agent may take to describe itself before a session is shown without that.
const DESCRIBE_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: RwLock<InForce>,
    host: Host,
    tool_servers: ToolServers,
    environments: BTreeMap<String, Prepared>,
    registry: Arc<Registry>,
    pools: Arc<Pools>,
    memory: Arc<Memory>,
    draining: AtomicBool,
    administration: Administration,
    builds: builds::Builds,
    earlier_templates: images::EarlierTemplates,
    inspections: hidden::Inspections,
    transfers: TransferLimiter,
    watchers: TransferLimiter,
    keys: Arc<Keys>,
    /// Wakes the reaper: there may be an earlier deadline.
    deadlines: Arc<Notify>,
}

/// The settings as they are now.
#[derive(Debug)]
struct InForce {
    all: Arc<Settings>,
    /// Those of tenants that have values of their own.
    own: BTreeMap<String, Arc<Settings>>,
}

impl From<Arc<Settings>> for InForce {
    fn from(all: Arc<Settings>) -> Self {
        let own = |name: &String| Some((name.clone(), Arc::new(all.of_tenant(name)?)));
        let own = all.tenants.keys().filter_map(own).collect();
        Self { all, own }
    }
}

#[derive(Debug)]
struct Host {
    backend: Arc<dyn Backend>,
    cgroups: Support,
    ids: Option<Arc<IdPool>>,
    /// Suspended sessions, or why there can be none.
    images: Result<Arc<Images>, &'static str>,
    /// Homes and volumes, or why there are none.
    stores: Result<Arc<Stores>, &'static str>,
    metrics: Arc<Metrics>,
    audit: AuditLog,
    /// What tenants are billed for.
    usage: Arc<Collector>,
    /// Executions that can be asked for.
    results: Arc<Results>,
    /// What may be held of requests, executions and results.
    budget: Budget,
    quotas: Arc<Quotas>,
    turns: Arc<Turns>,
    approvals: Arc<Approvals>,
    runtime_dir: PathBuf,
    egress: Arc<Egress>,
    /// Made when the first session needs it: most hosts never do.
    workdirs: Mutex<Option<Arc<Workdirs>>>,
}

impl Host {
    fn observer(&self, tenant: &str) -> Observer {
        Observer::of(&self.metrics, &self.audit, &self.usage, tenant)
    }

    fn workdirs(&self) -> Result<Arc<Workdirs>, WorkdirError> {
        let mut slot = self.workdirs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(workdirs) = &*slot {
            return Ok(Arc::clone(workdirs));
        }
        let workdirs = Arc::new(Workdirs::open(&self.runtime_dir)?);
        *slot = Some(Arc::clone(&workdirs));
        Ok(workdirs)
    }
}

impl Engine {
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.inner.settings.read().unwrap_or_else(PoisonError::into_inner).all)
    }

    /// The settings that hold for a tenant: its own values over those of all.
    pub fn settings_of(&self, tenant: &str) -> Arc<Settings> {
        let in_force = self.inner.settings.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(in_force.own.get(tenant).unwrap_or(&in_force.all))
    }

    pub fn quotas(&self, tenant: &str) -> Arc<TenantQuotas> {
        self.inner.host.quotas.of(tenant)
    }

    pub fn is_draining(&self) -> bool {
        self.inner.draining.load(Ordering::Relaxed)
    }

    /// This host and what it offers a tenant.
    pub fn host(&self, tenant: &str) -> HostInfo {
        let settings = self.settings_of(tenant);
        let (max, own_max) = (settings.session.max_sessions, settings.max_sessions_of(tenant));
        let default = self.inner.environments.get(DEFAULT_ENVIRONMENT);
        HostInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: nix::sys::utsname::uname()
                .map(|uts| uts.release().to_string_lossy().into_owned())
                .unwrap_or_default(),
            mode: settings.sandbox.mode.name().to_owned(),
            layers: default.map(|prepared| prepared.protection.to_vec()).unwrap_or_default(),
            environments: self.environments_of(tenant, &settings),
            capacity: Capacity {
                sessions: self.inner.registry.len_of(tenant),
                max_sessions: if own_max.is_within(max) { own_max } else { max },
                queue_depth: settings.session.queue_depth,
                cpus: std::thread::available_parallelism().map_or(1, usize::from),
                memory: self.memory_capacity(&settings),
            },
            installs_packages: settings.sandbox.network == Network::Trusted
                && !settings.packages_of(tenant).is_empty(),
        }
    }

    /// Why sessions of network `full` share the host's network in the default environment; `None` if they
    /// do not.
    pub fn shares_network(&self) -> Option<NoPasta> {
        self.inner.environments.get(DEFAULT_ENVIRONMENT)?.passt.clone().err()
    }

    /// A session, with what its agent says about it.
    pub async fn get(&self, tenant: &str, id: &str) -> Result<SessionInfo, EngineError> {
        let session = match self.find(tenant, id) {
            Err(EngineError::Suspended(_)) if let Some(info) = self.suspended(tenant, id) => {
                return Ok(info);
            }
            found => found?,
        };
        let described = timeout(DESCRIBE_WITHIN, session.ask(Command::Describe)).await;
        let mut info = self.info(&session);
        info.policy = policy::of(&self.settings_of(tenant), &session);
        if let Ok(Some(description)) = described {
            let Description { processes, disk_bytes, agent_pss_bytes, kernel_pss_bytes, .. } =
                description;
            info.usage.processes = Some(processes);
            info.usage.disk_bytes = Some(disk_bytes);
            info.usage.agent_pss_bytes = Some(agent_pss_bytes);
            info.usage.kernel_pss_bytes = Some(kernel_pss_bytes);
        }
        Ok(info)
    }

    /// A tenant's sessions, those that match the query.
    pub fn list(&self, tenant: &str, query: &SessionQuery) -> Result<SessionPage, EngineError> {
        let limit = page_size(&query.page)?;
        let after = query.page.after.as_deref().unwrap_or_default();
        let matches = |session: &Session| session.matches(query);
        let suspended = self.suspended_of(tenant, query, limit + 1);
        let awake = self.inner.registry.page(tenant, after, limit + 1, matches);
        let mut sessions: Vec<_> = awake.iter().map(|session| self.info(session)).collect();
        sessions.extend(suspended);
        sessions.sort_by(|one, other| one.id.cmp(&other.id));
        let next = cut_page(&mut sessions, limit, |session| &session.id);
        Ok(SessionPage { sessions, next })
    }

    /// Ends a session, and returns when nothing of it is left.
    pub async fn delete(&self, tenant: &str, id: &str) -> Result<(), EngineError> {
        loop {
            match self.find(tenant, id) {
                Err(EngineError::Suspended(_))
                    if self.delete_image(tenant, id, "deleted").await => {}
                Err(EngineError::Suspended(_)) => match self.inner.registry.get(tenant, id) {
                    // It was resumed meanwhile, or is a branch that is being made.
                    Some(session) => session.close(Cause::Deleted).await,
                    None => continue,
                },
                found => found?.close(Cause::Deleted).await,
            }
            if let Ok(images) = self.images() {
                images.checkpoints.end(tenant, id);
            }
            return Ok(());
        }
    }

    /// Keeps an idle session from being reaped.
    pub fn keepalive(&self, tenant: &str, id: &str) -> Result<KeepaliveReply, EngineError> {
        let session = self.find(tenant, id)?;
        session.touch();
        Ok(KeepaliveReply { session_id: id.to_owned(), expires_at: session.expires_at() })
    }

    /// Takes no new work, waits up to `grace` for what runs, then ends every session and
    /// returns when nothing is left.
    pub async fn shutdown(&self, grace: Duration) {
        self.inner.draining.store(true, Ordering::Relaxed);
        let mut busy = JoinSet::new();
        let pools = Arc::clone(&self.inner.pools);
        let backend = Arc::clone(&self.inner.host.backend);
        let draining = tokio::spawn(async move { tokio::join!(pools.drain(), backend.stop()) });
        for session in self.inner.registry.all() {
            busy.spawn(async move {
                session.ask(Command::WhenIdle).await;
                session.transfers_ended().await;
            });
        }
        if timeout(grace, async { while busy.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!(sessions = busy.len(), "still busy after the grace: killed");
        }
        self.suspend_all().await;
        // A creation may have been under way when the flag was set.
        loop {
            let sessions = self.inner.registry.all();
            if sessions.is_empty() {
                break;
            }
            let mut closing = JoinSet::new();
            for session in sessions {
                closing.spawn(async move { session.close(Cause::Draining).await });
            }
            while closing.join_next().await.is_some() {}
        }
        self.end_builds().await;
        if let Err(error) = draining.await {
            tracing::error!(%error, "draining what waits for sessions");
        }
        // Last: they collect the kernels that they forked.
        self.stop_templates().await;
        self.flush_usage().await;
    }

    /// Where what happens is recorded, if anywhere.
    pub fn audit(&self) -> &AuditLog {
        &self.inner.host.audit
    }

    /// Waits for room in the audit log, without which nothing new may run.
    async fn admit_audit(&self) -> Result<(), EngineError> {
        self.inner.host.audit.admit().await.map_err(|_| EngineError::AuditUnavailable)
    }

    fn check_open(&self, tenant: &str) -> Result<(), EngineError> {
        if self.is_draining() {
            self.observer(tenant).refused(Refusal::Draining);
            return Err(EngineError::Draining);
        }
        Ok(())
    }

    /// Whether something new may begin, of which what runs already is no part.
    fn check_admits(&self, tenant: &str) -> Result<(), EngineError> {
        self.check_open(tenant)?;
        self.check_paused(tenant)
    }

    /// The tenant's part of what may be held of requests, executions and results.
    pub fn account(&self, tenant: &str) -> Account {
        self.inner.host.budget.of(tenant)
    }

    /// Takes so many bytes of it.
    pub fn reserve(&self, tenant: &str, bytes: usize) -> Result<Reservation, EngineError> {
        self.account(tenant).take(bytes).map_err(|full| self.no_room(tenant, full))
    }

    /// Counts a request that was refused for want of room.
    pub fn no_room(&self, tenant: &str, full: Full) -> EngineError {
        self.observer(tenant).refused(match full {
            Full::Tenant { .. } => Refusal::NoRoom,
            Full::Daemon { .. } => Refusal::Overloaded,
        });
        EngineError::NoRoom(full)
    }

    /// Counts a request that a quota refused.
    pub fn over_quota(&self, tenant: &str, exceeded: Exceeded) -> EngineError {
        self.observer(tenant).over_quota(exceeded.quota);
        EngineError::QuotaExceeded(exceeded)
    }

    fn observer(&self, tenant: &str) -> Observer {
        self.inner.host.observer(tenant)
    }
}
