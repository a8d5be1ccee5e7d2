//! Environments that are built: by whom, from what, and what of it can be seen.
//!
//! A build is a command in a session of its own ([`run`]), whose only place to write to is the new
//! environment. Nothing that was built is executed anywhere else.

mod hash_lock;
mod run;
mod shown;
mod templates;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::OnceCell;
use vivarium_api_types::{BuildInfo, BuildRequest};
use vivarium_protocol::layer::Layer;

use self::shown::{begun, info};
use self::templates::BuiltTemplate;
use super::environment::Prepared;
use super::{DEFAULT_ENVIRONMENT, Engine, EngineError, trial};
use crate::artefacts::{Artefact, ArtefactError, Artefacts, BuildRecord, Named, Owner};
use crate::session::execution_log::ExecutionLog;
use crate::settings::{Settings, TenantBuilds};
use crate::storage_helper::StorageHelper;

/// How often artefacts that nobody has are looked for.
const COLLECT_EVERY: Duration = Duration::from_secs(300);

/// The builds that are over whose events can still be followed.
const FOLLOWED: usize = 16;

/// The tenant of the sessions that build for all: no name that a tenant can have, and nobody's usage.
const OPERATOR_TENANT: &str = trial::TENANT;

/// The environments that are built, once somebody needs one, and the builds of this daemon.
#[derive(Debug, Default)]
pub(super) struct Builds {
    artefacts: OnceCell<Arc<Artefacts>>,
    builds: Mutex<BTreeMap<(Owner, String), Arc<Build>>>,
    /// By the operator's names.
    templates: Mutex<BTreeMap<String, BuiltTemplate>>,
    /// Held while they come and go.
    arranging: tokio::sync::Mutex<()>,
}

/// A build of this daemon's.
#[derive(Debug)]
struct Build {
    started_at: Timestamp,
    state: Mutex<Progress>,
    /// Sent when it is over.
    over: tokio::sync::watch::Sender<bool>,
}

#[derive(Debug, Clone, Default)]
struct Progress {
    /// What it prints, once it runs.
    log: Option<Arc<ExecutionLog>>,
    ended: Option<BuildRecord>,
}

impl Build {
    fn state(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> Option<Arc<ExecutionLog>> {
        self.state().log.clone()
    }

    fn is_running(&self) -> bool {
        self.state().ended.is_none()
    }
}

impl Builds {
    fn builds(&self) -> MutexGuard<'_, BTreeMap<(Owner, String), Arc<Build>>> {
        self.builds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The environment that a session is to have.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    pub(super) name: String,
    /// The configured environment whose interpreter it has; the same if it is not a built one.
    pub(super) base: String,
    pub(super) built: Option<Arc<Artefact>>,
    /// Files and directories that the session asks to be without, once they have been found.
    pub(super) hidden: Option<Vec<PathBuf>>,
}

impl From<ArtefactError> for EngineError {
    fn from(error: ArtefactError) -> Self {
        match error {
            ArtefactError::Locked => {
                Self::EnvironmentsUnavailable(format!("built environments cannot be had: {error}"))
            }
            error => Self::Internal(format!(
                "built environments: {}",
                vivarium_protocol::error_chain(&error)
            )),
        }
    }
}

impl Engine {
    async fn artefacts(&self) -> Result<&Arc<Artefacts>, EngineError> {
        let state_dir = &self.settings().server.state_dir;
        let host = &self.inner.host;
        let helper = StorageHelper { backend: Arc::clone(&host.backend), ids: host.ids.clone() };
        let opened = self.inner.builds.artefacts.get_or_try_init(|| async {
            let artefacts = Artefacts::open(state_dir, helper).await?;
            let weak = Arc::downgrade(&artefacts);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(COLLECT_EVERY).await;
                    let Some(artefacts) = weak.upgrade() else { return };
                    artefacts.collect().await;
                }
            });
            Ok::<_, ArtefactError>(artefacts)
        });
        Ok(opened.await?)
    }

    /// Those that are there already: nothing is made for the asking.
    async fn existing(&self) -> Result<Option<&Arc<Artefacts>>, EngineError> {
        if self.inner.builds.artefacts.initialized()
            || Artefacts::exist(&self.settings().server.state_dir)
        {
            return self.artefacts().await.map(Some);
        }
        Ok(None)
    }

    /// Opens what there is, which clears what a daemon before left half done.
    pub(super) async fn open_environments(&self) {
        if let Err(error) = self.existing().await {
            tracing::warn!(%error, "no built environments for now");
        }
    }

    /// What a session's environment is: the tenant's own, or the operator's, or a configured one.
    pub(super) async fn choose(
        &self,
        tenant: &str,
        asked: Option<&str>,
    ) -> Result<Chosen, EngineError> {
        let name = asked.unwrap_or(DEFAULT_ENVIRONMENT);
        let configured =
            || Chosen { name: name.to_owned(), base: name.to_owned(), built: None, hidden: None };
        // Without a look at the disk for what most sessions have.
        if !self.inner.builds.artefacts.initialized() && self.inner.environments.contains_key(name)
        {
            return Ok(configured());
        }
        let Some(artefacts) = self.existing().await? else { return Ok(configured()) };
        let owners = [Owner::Tenant(tenant.to_owned()), Owner::Operator];
        let found = owners.iter().find_map(|owner| artefacts.find(owner, name));
        let Some(Named { artefact, .. }) = found else { return Ok(configured()) };
        self.base_of(name, &artefact)?;
        let base = artefact.record.base.clone();
        Ok(Chosen { name: name.to_owned(), base, built: Some(artefact), hidden: None })
    }

    /// The environment whose interpreter a built one has, if that is still the one that it was built for.
    fn base_of(&self, name: &str, artefact: &Artefact) -> Result<&Prepared, EngineError> {
        let base = &artefact.record.base;
        let refused = |reason: String| EngineError::invalid("environment", reason);
        let Some(prepared) = self.inner.environments.get(base) else {
            return Err(refused(format!(
                "{name:?} was built on environment {base:?}, which is not configured any more"
            )));
        };
        if !prepared.plan.applies(Layer::Mounts) {
            return Err(refused("built environments need the mounts layer".to_owned()));
        }
        let interpreter = &prepared.interpreter;
        let fits = artefact.check(&interpreter.path, &interpreter.version);
        fits.map_err(|why| refused(format!("{name:?}: {why}")))?;
        Ok(prepared)
    }

    /// Begins a build that a tenant asks for.
    pub async fn build_environment(
        &self,
        owner: Owner,
        request: BuildRequest,
    ) -> Result<BuildInfo, EngineError> {
        let may = |tenant| self.settings().builds_of(tenant).allowed;
        if !owner.tenant().is_some_and(may) {
            return Err(EngineError::MayNotBuild);
        }
        self.build_environment_as_operator(owner, request).await
    }

    /// Begins a build that the operator asks for, for all or for a tenant.
    pub async fn build_environment_as_operator(
        &self,
        owner: Owner,
        request: BuildRequest,
    ) -> Result<BuildInfo, EngineError> {
        let tenant = owner.tenant().unwrap_or(OPERATOR_TENANT).to_owned();
        self.check_admits(&tenant)?;
        self.admit_audit().await?;
        let settings = self.settings_of(&tenant);
        let order = run::order(&request)?;
        let name = request.name;
        if self.inner.environments.contains_key(&name) {
            let reason = format!("{name:?} is a configured environment: choose another name");
            return Err(EngineError::invalid("name", reason));
        }
        let base = request.base.unwrap_or_else(|| DEFAULT_ENVIRONMENT.to_owned());
        let prepared = self.inner.environments.get(&base).ok_or_else(|| {
            EngineError::invalid("base", format!("there is no configured environment {base:?}"))
        })?;
        if !settings.allows_environment(&tenant, &base) {
            let reason = format!("the operator does not allow this tenant {base:?}");
            return Err(EngineError::invalid("base", reason));
        }
        self.needs_cpython(&base, "packages are")?;
        if !prepared.plan.applies(Layer::Mounts) {
            let reason = "building needs the mounts layer, which is off here";
            return Err(EngineError::invalid("base", reason));
        }
        let uv = find_uv(&settings)?;
        let artefacts = Arc::clone(self.artefacts().await?);
        let key = (owner.clone(), name.clone());
        let quota = settings.builds_of(&tenant);
        let build = {
            let mut builds = self.inner.builds.builds();
            if builds.get(&key).is_some_and(|build| build.is_running()) {
                return Err(EngineError::BuildRunning(name));
            }
            let own =
                builds.iter().filter(|((whose, _), build)| *whose == owner && build.is_running());
            let pending = own.map(|((_, name), _)| name.clone()).collect();
            check_quota(&artefacts, &owner, &name, pending, &quota)?;
            let running = |own: bool| {
                let counted = builds
                    .iter()
                    .filter(|((whose, _), build)| build.is_running() && (!own || *whose == owner));
                counted.count() as u64
            };
            let all = ("builds.max_at_once", Some(settings.builds.max_at_once), false);
            let own = ("tenant.max_builds", quota.max_at_once.get(), true);
            for (key, max, own) in [own, all] {
                if let Some(max) = max.filter(|max| running(own) >= *max) {
                    return Err(EngineError::TooManyBuilds { max, key });
                }
            }
            let build = Arc::new(Build {
                started_at: Timestamp::now(),
                state: Mutex::default(),
                over: tokio::sync::watch::Sender::new(false),
            });
            forget_old(&mut builds);
            builds.insert(key, Arc::clone(&build));
            build
        };
        let info = info(&name, &begun(&build));
        let (engine, prepared) = (self.clone(), Prepared::clone(prepared));
        let plan = run::BuildPlan { owner, name, tenant, base, prepared, uv, order };
        // A task: it goes on when its client is gone.
        tokio::spawn(async move { engine.carry_out(&artefacts, &build, plan).await });
        Ok(info)
    }

    /// Ends the builds that run, and waits for them.
    pub(super) async fn end_builds(&self) {
        let running: Vec<_> = self.inner.builds.builds().values().map(Arc::clone).collect();
        for build in running {
            let mut over = build.over.subscribe();
            while build.is_running() && over.changed().await.is_ok() {}
        }
    }
}

/// Forgets what builds printed that ended long ago: each may take an execution's buffer of memory.
fn forget_old(builds: &mut BTreeMap<(Owner, String), Arc<Build>>) {
    let mut ended: Vec<_> = builds
        .iter()
        .filter(|(_, build)| !build.is_running())
        .map(|(key, build)| (build.started_at, key.clone()))
        .collect();
    ended.sort();
    let surplus = ended.len().saturating_sub(FOLLOWED);
    for (_, key) in ended.into_iter().take(surplus) {
        builds.remove(&key);
    }
}

/// What a tenant has already, and what it is about to, against what it may have.
fn check_quota(
    artefacts: &Artefacts,
    owner: &Owner,
    name: &str,
    pending: BTreeSet<String>,
    quota: &TenantBuilds,
) -> Result<(), EngineError> {
    let mut names = pending;
    names.extend(artefacts.names_of(owner));
    names.remove(name);
    let count = names.len() as u64;
    if let Some(max) = quota.max.get().filter(|max| count >= *max) {
        return Err(EngineError::TooManyEnvironments { max });
    }
    let used_mb = artefacts.bytes_of(owner).div_ceil(1 << 20);
    match quota.max_mb.get().filter(|max_mb| used_mb >= *max_mb) {
        Some(max_mb) => Err(EngineError::EnvironmentsFull { used_mb, max_mb }),
        None => Ok(()),
    }
}

fn find_uv(settings: &Settings) -> Result<PathBuf, EngineError> {
    let found = match &settings.builds.uv {
        Some(path) => vec![path.clone()],
        None => std::env::var_os("PATH")
            .map(|path| std::env::split_paths(&path).map(|dir| dir.join("uv")).collect())
            .unwrap_or_default(),
    };
    let real = found.iter().filter(|path| path.is_file()).find_map(|path| path.canonicalize().ok());
    real.ok_or_else(|| {
        let place = match &settings.builds.uv {
            Some(path) => format!("builds.uv is {}, where there is no file", path.display()),
            None => "there is no uv on the daemon's PATH".to_owned(),
        };
        EngineError::NoUv(format!("{place}: install it (pip install uv), and name it in builds.uv"))
    })
}
