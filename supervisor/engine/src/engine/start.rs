//! Starting an engine: clear what was left, find out what works, refuse what must not run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::Notify;
use vivarium_api_types::ListenAddr;
use vivarium_audit::{AuditLog, Event};
use vivarium_metrics::Metrics;
use vivarium_protocol::error_chain;
use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::runtime::Runtime;

use super::administration::Administration;
use super::environment::Prepared;
use super::hidden::Inspections;
use super::{
    Engine, Host, Inner, StartError, builds, homes, pools, reaper, sampler, tenants, trial,
};
use crate::approvals::Approvals;
use crate::backend::id_namespace::{self, IdNamespaceError};
use crate::backend::inspect::{self, InspectError, Inspected};
use crate::backend::linux::Linux;
use crate::backend::{Backend, ids::IdPool, wasm};
use crate::budget::Budget;
use crate::cgroup::{self, Missing, Support};
use crate::egress::{Accounting, Egress, GateLaunch, tell_webhook};
use crate::images::Images;
use crate::memory::{Memory, Sources};
use crate::passt::{self, NoPasta, Pasta};
use crate::pools::Pools;
use crate::recover;
use crate::session::Results;
use crate::session::registry::Registry;
use crate::session::transfer::TransferLimiter;
use crate::settings::{Mode, Settings};
use crate::tool_servers::ToolServers;

impl Engine {
    /// Starts an engine. Call it in a tokio runtime.
    pub async fn start(settings: Arc<Settings>) -> Result<Self, StartError> {
        let backend = Arc::new(Linux::new(settings.agent_binary.clone()));
        let host = open_host(&settings, backend).await?;
        let passt = passt::find(&settings.egress.passt);
        let mut environments = BTreeMap::new();
        let mut judged: Vec<Arc<[Report]>> = Vec::new();
        for (name, environment) in &settings.environments {
            let configured = environment.interpreter.clone();
            let prepared = prepare(&settings, &host, name, configured, &passt).await?;
            if !judged.contains(&prepared.protection) {
                trial::judge(&settings.sandbox, name, &prepared.protection)?;
                judged.push(Arc::clone(&prepared.protection));
            }
            environments.insert(name.clone(), prepared);
        }
        let ceilings = settings.ceilings();
        tenants::announce(&ceilings, &settings, &host);
        tenants::hold(&ceilings, &host)?;
        let memory = Memory::watch(Sources::of_this_host(&host.cgroups));
        let engine = Self::assemble(settings, host, environments, memory);
        tokio::spawn(sampler::run(Arc::downgrade(&engine.inner)));
        homes::watch(&engine.inner);
        Ok(engine)
    }

    pub(super) fn assemble(
        settings: Arc<Settings>,
        host: Host,
        environments: BTreeMap<String, Prepared>,
        memory: Memory,
    ) -> Self {
        let reap_interval = settings.session.reap_interval;
        let registry = Arc::new(Registry::default());
        let memory = Arc::new(memory);
        let pools = Pools::new(pools::bounds(&settings), &host.metrics, &registry, &memory);
        let deadlines: Arc<Notify> = Arc::default();
        let tool_servers = ToolServers::new(Arc::clone(&host.egress));
        let inner = Arc::new(Inner {
            tool_servers,
            deadlines: Arc::clone(&deadlines),
            settings: RwLock::new(settings.into()),
            host,
            environments,
            registry,
            pools: Arc::new(pools),
            memory,
            draining: AtomicBool::new(false),
            administration: Administration::default(),
            builds: builds::Builds::default(),
            earlier_templates: super::images::EarlierTemplates::default(),
            inspections: Inspections::default(),
            keys: Arc::default(),
            transfers: TransferLimiter::default(),
            watchers: TransferLimiter::of_watchers(),
        });
        tokio::spawn(reaper::run(Arc::downgrade(&inner), reap_interval, deadlines));
        Self { inner }
    }
}

/// Takes our part of the host, and clears it.
async fn open_host(settings: &Settings, backend: Arc<dyn Backend>) -> Result<Host, StartError> {
    let e2b = settings.e2b.listen.iter().filter(|_| settings.dialects.e2b);
    let mut all = settings.server.listen.iter().chain(e2b);
    let open = all.find(|address| !ListenAddr::is_local(address));
    if let (Some(why), Some(address)) = (settings.why_local_only(), open) {
        return Err(StartError::OpenToOthers { address: address.to_string(), why });
    }
    backend.probe().map_err(StartError::Agent)?;
    recover::clear_stale(&settings.server.runtime_dir);
    let sandbox = &settings.sandbox;
    let wants_cgroups =
        sandbox.mode != Mode::Off && !sandbox.disable_layers.contains(&Layer::Cgroup);
    let cgroups = if wants_cgroups {
        cgroup::acquire(sandbox.cgroup_root.as_ref())
    } else {
        Support::Unavailable(Missing { why: "switched off".to_owned(), fix: String::new() })
    };
    if let Support::Available(tree) = &cgroups
        && let Err(error) = tree.clear_leftovers().await
    {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        tracing::warn!(%error, source, "what an earlier life left in the cgroup tree stays");
    }
    let metrics = Metrics::new().map_err(StartError::Metrics)?;
    let (metrics, results) = (Arc::new(metrics), Arc::default());
    let audit = AuditLog::open(&settings.audit, sandbox.mode == Mode::On, &metrics)?;
    audit.record(|| Event::DaemonStarted { version: env!("CARGO_PKG_VERSION") });
    let ids = subordinate_ids(settings, &*backend).await;
    let usage = Arc::default();
    let accounting = Accounting {
        metrics: Arc::clone(&metrics),
        audit: audit.clone(),
        usage: Arc::clone(&usage),
    };
    let approvals = Arc::new(Approvals::new(Arc::clone(&metrics), audit.clone()));
    let gate = GateLaunch::of(settings);
    let egress = Arc::new(Egress::new(gate, accounting, Arc::clone(&approvals)));
    tell_webhook(&approvals, Arc::clone(&egress));
    Ok(Host {
        approvals,
        egress,
        images: images(settings),
        stores: homes::open(settings, &backend, ids.as_ref(), &audit).await,
        ids,
        backend,
        cgroups,
        metrics,
        audit,
        usage,
        budget: budget(settings, &results),
        results,
        quotas: Arc::default(),
        turns: Arc::default(),
        runtime_dir: settings.server.runtime_dir.clone(),
        workdirs: Mutex::default(),
    })
}

/// Suspended sessions, if any session can be suspended.
fn images(settings: &Settings) -> Result<Arc<Images>, &'static str> {
    let is_wanted = settings.environments.values().any(|environment| environment.images);
    // Where there are images of before they can be listed and deleted.
    if !is_wanted && !Images::are_in(&settings.server.state_dir) {
        return Err("sessions can not be suspended here: no environment has images switched on");
    }
    let key_file = settings.images.key_file.as_deref();
    let library = settings.agent_binary.library.clone();
    let library = library.filter(|_| settings.images.keep_programs);
    Images::open(&settings.server.state_dir, key_file, library).map(Arc::new).map_err(|error| {
        tracing::error!(error = error_chain(&error), "no session can be suspended");
        "sessions can not be suspended: the daemon's log says why"
    })
}

/// What may be held of requests, executions and results.
pub(super) fn budget(settings: &Settings, results: &Arc<Results>) -> Budget {
    let bytes = |mib: u64| usize::try_from(mib.saturating_mul(1 << 20)).unwrap_or(usize::MAX);
    let server = &settings.server;
    let (all, tenant) = (bytes(server.max_buffered_mb), bytes(server.max_tenant_buffered_mb));
    Budget::new(all, tenant, Arc::clone(results) as _)
}

/// How often the namespace of the ids is tried: a host may be short of processes for a moment.
const MAX_NAMESPACE_TRIES: u32 = 3;

/// The ids that sessions get, in the namespace that their launchers enter to map them; `None` if
/// none are granted, or none can be had.
async fn subordinate_ids(settings: &Settings, backend: &dyn Backend) -> Option<Arc<IdPool>> {
    if settings.sandbox.mode == Mode::Off {
        return None;
    }
    let ids = IdPool::of_this_host()?;
    let mut made = id_namespace::make(backend, ids.ranges()).await;
    for tries in 1..MAX_NAMESPACE_TRIES {
        let Err(error) = &made else { break };
        tracing::debug!(error = error_chain(error), "no namespace for subordinate ids, so far");
        if !matches!(error, IdNamespaceError::Failed(failure) if failure.transient.is_none()) {
            tokio::time::sleep(trial::PAUSE * tries).await;
        }
        made = id_namespace::make(backend, ids.ranges()).await;
    }
    match made {
        Ok(namespace) => {
            if let Some(namespace) = namespace {
                ids.are_in(namespace);
            }
            Some(ids)
        }
        // newuidmap may be there and not work: no_new_privs around us, no set-user-id bit.
        Err(error) => {
            tracing::warn!(
                error = error_chain(&error),
                "no subordinate ids, although some are granted"
            );
            None
        }
    }
}

/// Inspects an environment's interpreter, and tries a session with it.
async fn prepare(
    settings: &Settings,
    host: &Host,
    name: &str,
    configured: Option<PathBuf>,
    passt: &Result<Pasta, NoPasta>,
) -> Result<Prepared, StartError> {
    let agent = &settings.agent_binary;
    let hidden = settings.environments.get(name).map_or(&[][..], |it| &it.hidden);
    let bad = |source| StartError::Interpreter { environment: name.to_owned(), source };
    let runtime = settings.environments.get(name).map(|environment| environment.runtime);
    if runtime == Some(Runtime::Wasm) {
        let path = wasm::program(agent, configured);
        let cache = settings.server.state_dir.join("wasm");
        let (interpreter, component) = wasm::inspect(&path, &cache).await.map_err(bad)?;
        let inspected = Inspected { interpreter, hidden: Vec::new(), missing: Vec::new() };
        return trial::prepare(settings, host, name, inspected, Some(component), passt).await;
    }
    if let Some(path) = configured {
        let inspected = inspect::inspect(agent, &path, hidden).await.map_err(bad)?;
        return trial::prepare(settings, host, name, inspected, None, passt).await;
    }
    let mut tried = Vec::new();
    for path in inspect::candidates() {
        let result = match inspect::inspect(agent, &path, hidden).await {
            Ok(inspected) => trial::prepare(settings, host, name, inspected, None, passt).await,
            Err(error) => Err(bad(error)),
        };
        match result {
            Ok(prepared) => return Ok(prepared),
            Err(StartError::Interpreter { source, .. }) => tried.push(source.to_string()),
            Err(StartError::Trial { failure, .. }) if failure.transient.is_none() => {
                tried.push(format!("{}: {failure}", path.display()));
            }
            Err(error) => return Err(error),
        }
    }
    let tried = if tried.is_empty() { "there is none".to_owned() } else { tried.join("; ") };
    Err(bad(InspectError::NoneOnPath { tried }))
}
