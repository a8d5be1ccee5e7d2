//! What of built environments, and of their builds, can be seen and taken away.

use std::collections::BTreeMap;
use std::sync::Arc;

use vivarium_api_types::{
    BuildInfo, BuildState, BuiltEnvironmentInfo, BuiltEnvironmentList, CollectReply,
    EnvironmentInfo, PoolInfo,
};
use vivarium_audit::{EnvironmentChange, Event};
use vivarium_protocol::discard;

use super::super::environment::Prepared;
use super::super::{Engine, EngineError, execute, is_valid_id, templates};
use super::Build;
use crate::artefacts::{Artefacts, BuildRecord, Named, Owner};
use crate::session::execution_log::{EventNumber, EventSubscription};
use crate::settings::Settings;
use crate::template::State;

impl Engine {
    /// An owner's environments.
    pub async fn built_environments(
        &self,
        owner: &Owner,
    ) -> Result<BuiltEnvironmentList, EngineError> {
        let Some(artefacts) = self.existing().await? else {
            return Ok(BuiltEnvironmentList { environments: Vec::new() });
        };
        let names = artefacts.names_of(owner);
        // One after the other: two names may stand for one artefact.
        let described = |name: &String| Some(described(owner, artefacts.find(owner, name)?));
        Ok(BuiltEnvironmentList { environments: names.iter().filter_map(described).collect() })
    }

    /// What a tenant's sessions can have by name: the configured environments, and over these the operator's
    /// built ones, and over these its own.
    pub(in crate::engine) fn environments_of(
        &self,
        tenant: &str,
        settings: &Settings,
    ) -> Vec<EnvironmentInfo> {
        let mut found = BTreeMap::new();
        for (name, prepared) in &self.inner.environments {
            let pool = self.pool_info(settings, tenant, name);
            found.insert(
                name.clone(),
                usable(name, None, prepared, &prepared.template.state(), pool),
            );
        }
        found.retain(|name, _| settings.allows_environment(tenant, name));
        for owner in [Owner::Operator, Owner::Tenant(tenant.to_owned())] {
            let Some(artefacts) = self.inner.builds.artefacts.get() else { break };
            for name in artefacts.names_of(&owner) {
                let Some(Named { artefact, .. }) = artefacts.find(&owner, &name) else { continue };
                let base = &artefact.record.base;
                let template = self.built_template(&name, &artefact);
                let template = template.map_or(State::Off, |template| template.state());
                match self.base_of(&name, &artefact) {
                    Ok(prepared) if settings.allows_environment(tenant, base) => {
                        let shown = usable(&name, Some(base), prepared, &template, None);
                        found.insert(name, shown);
                    }
                    // It is refused, and not what it stands before.
                    _ => drop(found.remove(&name)),
                }
            }
        }
        found.into_values().collect()
    }

    /// Everybody's environments.
    pub async fn all_built_environments(&self) -> Result<BuiltEnvironmentList, EngineError> {
        let mut environments = Vec::new();
        if let Some(artefacts) = self.existing().await? {
            for owner in artefacts.owners() {
                environments.extend(self.built_environments(&owner).await?.environments);
            }
        }
        Ok(BuiltEnvironmentList { environments })
    }

    pub async fn built_environment(
        &self,
        owner: &Owner,
        name: &str,
    ) -> Result<BuiltEnvironmentInfo, EngineError> {
        let unknown = || EngineError::UnknownEnvironment(name.to_owned());
        let artefacts = self.existing().await?.ok_or_else(unknown)?;
        let named = artefacts.find(owner, name).ok_or_else(unknown)?;
        Ok(described(owner, named))
    }

    /// Takes the name away. Sessions that have the environment keep it.
    pub async fn remove_environment(&self, owner: &Owner, name: &str) -> Result<(), EngineError> {
        let unknown = || EngineError::UnknownEnvironment(name.to_owned());
        let artefacts = self.existing().await?.ok_or_else(unknown)?;
        if !is_valid_id(name) || !artefacts.unname(owner, name).await? {
            return Err(unknown());
        }
        self.arrange_built_templates().await;
        self.audit().record(|| {
            Event::Environment(Box::new(EnvironmentChange {
                tenant: owner.tenant().map(str::to_owned),
                name: name.to_owned(),
                change: "removed",
                artefact: None,
                error: None,
            }))
        });
        artefacts.collect().await;
        Ok(())
    }

    /// How many artefacts there are and their bytes, as far as that is known without a look.
    pub(in crate::engine) fn environment_totals(&self) -> (u64, u64) {
        self.inner.builds.artefacts.get().map_or((0, 0), |artefacts| artefacts.totals())
    }

    /// Records the end of a build.
    pub(super) fn note_build(&self, owner: &Owner, name: &str, record: &BuildRecord) {
        self.metrics().environments.built(record.error.is_none());
        self.audit().record(|| {
            Event::Environment(Box::new(EnvironmentChange {
                tenant: owner.tenant().map(str::to_owned),
                name: name.to_owned(),
                change: "built",
                artefact: record.artefact.clone(),
                error: record.error.clone(),
            }))
        });
    }

    /// Removes what neither a name nor a session has.
    pub async fn collect_environments(&self) -> Result<CollectReply, EngineError> {
        let Some(artefacts) = self.existing().await? else {
            return Ok(CollectReply { artefacts: 0, bytes: 0 });
        };
        let collected = artefacts.collect().await;
        Ok(CollectReply { artefacts: collected.artefacts, bytes: collected.bytes })
    }

    /// The last build of a name.
    pub async fn build_info(&self, owner: &Owner, name: &str) -> Result<BuildInfo, EngineError> {
        let key = (owner.clone(), name.to_owned());
        let running = self.inner.builds.builds().get(&key).map(|build| begun(build));
        let kept = match running {
            Some(record) => Some(record),
            None => self.existing().await?.and_then(|artefacts| artefacts.read_build(owner, name)),
        };
        let record = kept.ok_or_else(|| EngineError::UnknownEnvironment(name.to_owned()))?;
        Ok(info(name, &self.judged(owner, name, record)))
    }

    /// A build that ended with its daemon did not come to an end.
    fn judged(&self, owner: &Owner, name: &str, record: BuildRecord) -> BuildRecord {
        let key = (owner.clone(), name.to_owned());
        let is_ours = self.inner.builds.builds().contains_key(&key);
        if record.ended_at.is_some() || is_ours {
            return record;
        }
        BuildRecord {
            ended_at: Some(record.started_at),
            error: Some("the daemon ended during the build".to_owned()),
            ..record
        }
    }

    /// What the last build of a name printed.
    pub async fn build_log(&self, owner: &Owner, name: &str) -> Result<String, EngineError> {
        let unknown = || EngineError::UnknownEnvironment(name.to_owned());
        let artefacts = self.existing().await?.ok_or_else(unknown)?;
        artefacts.read_log(owner, name).ok_or_else(unknown)
    }

    /// Follows a build: its events, and what to wait for after the last.
    pub async fn follow_build(
        &self,
        owner: &Owner,
        name: &str,
        after: Option<EventNumber>,
    ) -> Result<(EventSubscription, impl Future<Output = ()> + Send + use<>), EngineError> {
        let key = (owner.clone(), name.to_owned());
        let build = self.inner.builds.builds().get(&key).map(Arc::clone);
        let build = build.ok_or_else(|| EngineError::UnknownEnvironment(name.to_owned()))?;
        let mut over = build.over.subscribe();
        let log = loop {
            let is_over = *over.borrow_and_update();
            if let Some(log) = build.log() {
                break log;
            }
            // It may end before it prints anything.
            if is_over || over.changed().await.is_err() {
                return Err(EngineError::ResultGone);
            }
        };
        let events = execute::follow(&log, after)?;
        let ended = async move {
            let ended = over.wait_for(|over| *over).await.map(drop);
            discard(ended, "a build that is gone is over");
        };
        Ok((events, ended))
    }
}

pub(super) fn begun(build: &Build) -> BuildRecord {
    build.state().ended.clone().unwrap_or(BuildRecord {
        started_at: build.started_at,
        ended_at: None,
        error: None,
        artefact: None,
    })
}

pub(super) fn info(name: &str, record: &BuildRecord) -> BuildInfo {
    BuildInfo {
        name: name.to_owned(),
        state: match (&record.ended_at, &record.error) {
            (None, _) => BuildState::Building,
            (Some(_), None) => BuildState::Succeeded,
            (Some(_), Some(_)) => BuildState::Failed,
        },
        started_at: record.started_at,
        ended_at: record.ended_at,
        error: record.error.clone(),
        artefact: record.artefact.clone(),
    }
}

fn usable(
    name: &str,
    base: Option<&String>,
    prepared: &Prepared,
    template: &State,
    pool: Option<PoolInfo>,
) -> EnvironmentInfo {
    EnvironmentInfo {
        name: name.to_owned(),
        base: base.cloned(),
        runtime: prepared.interpreter.runtime().to_string(),
        interpreter: prepared.interpreter.path.display().to_string(),
        python_version: prepared.interpreter.version.clone(),
        pool,
        template: templates::info(template),
    }
}

fn described(owner: &Owner, named: Named) -> BuiltEnvironmentInfo {
    let Named { name, built_at, artefact } = named;
    let in_use = Artefacts::in_use(&artefact);
    let record = artefact.record.clone();
    BuiltEnvironmentInfo {
        name,
        tenant: owner.tenant().map(str::to_owned),
        artefact: record.hash,
        base: record.base,
        python_version: record.python_version,
        hash_locked: record.hash_locked,
        built_at,
        size_bytes: record.bytes,
        inodes: record.inodes,
        in_use,
        distributions: record.distributions,
    }
}
