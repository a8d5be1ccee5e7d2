//! Finding sessions, and making them: everything asked for is checked before anything is made.

use std::sync::Arc;

use jiff::Timestamp;
use vivarium_api_types::{MemoryCapacity, SessionSpec};

use vivarium_protocol::policy::Network;

use super::builds::Chosen;
use super::environment::Prepared;
use super::{
    DEFAULT_ENVIRONMENT, Engine, EngineError, code_policies, egress, pools, request, trial,
};
use crate::artefacts::Held;
use crate::memory::{MemoryPolicy, Shortage};
use crate::observe::Refusal;
use crate::session::registry::Refused;
use crate::session::{self, Adjustable, Identity, LaunchPlan, Session, Timing};
use crate::settings::Settings;
use crate::stores::StoreLease;
use crate::template::Template;

/// Of a session that is being resumed.
struct Resumed {
    /// What its kernels are forked from, if not from the template of its environment.
    template: Option<Arc<Template>>,
}

impl Engine {
    /// A tenant's session. An id that no session can have is as unknown as any other.
    pub(super) fn find(&self, tenant: &str, id: &str) -> Result<Arc<Session>, EngineError> {
        match self.inner.registry.get(tenant, id) {
            Some(session) if !session.is_asleep() => Ok(session),
            None if !self.has_image(tenant, id) => Err(EngineError::UnknownSession(id.to_owned())),
            _ => Err(EngineError::Suspended(id.to_owned())),
        }
    }

    /// A tenant's session, made if there is none, and whether it was.
    pub(super) async fn find_or_add(
        &self,
        tenant: &str,
        id: &str,
    ) -> Result<(Arc<Session>, bool), EngineError> {
        let spec = SessionSpec { id: Some(id.to_owned()), ..SessionSpec::default() };
        Ok(match self.add(tenant, spec).await? {
            Ok(made) => (made, true),
            // Somebody else was faster.
            Err(existing) => (existing, false),
        })
    }

    /// Adds a session, without waiting for it to start; the inner error is the one that has its
    /// id. One that is on its way out, and that nobody can see any more, is waited for; and what is
    /// known of memory is read anew before it is a reason to refuse, and again after sessions were
    /// suspended for it.
    pub(super) async fn add(
        &self,
        tenant: &str,
        spec: SessionSpec,
    ) -> Result<Result<Arc<Session>, Arc<Session>>, EngineError> {
        self.add_as(tenant, spec, None).await
    }

    /// The same of one that is being resumed, in which nothing begins yet; of this template, if it is not to be that of
    /// its environment.
    pub(super) async fn add_suspended(
        &self,
        tenant: &str,
        spec: SessionSpec,
        template: Option<Arc<Template>>,
    ) -> Result<Result<Arc<Session>, Arc<Session>>, EngineError> {
        self.add_as(tenant, spec, Some(Resumed { template })).await
    }

    async fn add_as(
        &self,
        tenant: &str,
        spec: SessionSpec,
        resumed: Option<Resumed>,
    ) -> Result<Result<Arc<Session>, Arc<Session>>, EngineError> {
        self.admit_audit().await?;
        let (mut is_read, mut has_room_made, mut has_gate) = (false, false, false);
        let mut chosen = self.choose(tenant, spec.environment.as_deref()).await?;
        self.check_runtime(tenant, &chosen.name, &spec)?;
        let stores = self.claim_stores(tenant, &spec, &chosen.base).await?;
        let refused = loop {
            let how = (has_gate, resumed.as_ref());
            match self.try_add(tenant, spec.clone(), &chosen, stores.clone(), how) {
                Ok(Err(existing)) if existing.is_closed() => existing.gone().await,
                Err(EngineError::NoCapacity(_))
                    if !is_read && self.inner.memory.fresh_reading().await =>
                {
                    is_read = true;
                }
                // The next reading shows what is free then. Pressure falls slowly: once is enough for it.
                Err(EngineError::NoCapacity(shortage))
                    if is_read
                        && !(has_room_made && shortage.is_pressure)
                        && self.make_room().await =>
                {
                    (is_read, has_room_made) = (false, true);
                }
                // Nobody else waits for a gate.
                Err(EngineError::EgressUnavailable(_)) if !has_gate => {
                    self.gate_ready().await?;
                    has_gate = true;
                }
                // Nor for an inspection: it has been admitted so far.
                Err(EngineError::EnvironmentsUnavailable(_)) if chosen.hidden.is_none() => {
                    chosen.hidden = Some(self.find_hidden(&chosen.base, &spec.hidden).await?);
                }
                Err(refused) => break refused,
                settled => return settled,
            }
        };
        match refused {
            EngineError::NoCapacity(_) => self.observer(tenant).refused(Refusal::NoCapacity),
            EngineError::TooManySessions { .. } | EngineError::TooManyOfTenant { .. } => {
                self.observer(tenant).refused(Refusal::TooManySessions);
            }
            EngineError::QuotaExceeded(exceeded) => {
                self.observer(tenant).over_quota(exceeded.quota);
            }
            _ => (),
        }
        Err(refused)
    }

    /// The environment of this name.
    pub(super) fn environment(&self, name: &str) -> Result<&Prepared, EngineError> {
        self.inner.environments.get(name).ok_or_else(|| {
            let names: Vec<_> = self.inner.environments.keys().map(String::as_str).collect();
            let reason = format!("{name:?} is not configured; there is {}", names.join(", "));
            EngineError::invalid("environment", reason)
        })
    }

    fn try_add(
        &self,
        tenant: &str,
        mut spec: SessionSpec,
        chosen: &Chosen,
        stores: Option<Arc<StoreLease>>,
        (has_gate, resumed): (bool, Option<&Resumed>),
    ) -> Result<Result<Arc<Session>, Arc<Session>>, EngineError> {
        self.check_admits(tenant)?;
        let asked_for = spec.clone();
        let settings = self.settings_of(tenant);
        let id = request::id(spec.id.take())?;
        let Chosen { name: environment, base, built, hidden } = chosen.clone();
        let prepared = self.environment(&base)?;
        if !settings.allows_environment(tenant, &base) {
            let reason = format!("the operator does not allow this tenant {base:?}");
            return Err(EngineError::invalid("environment", reason));
        }
        self.check_hidden(chosen, &spec.hidden)?;
        let is_unasked = !spec.hidden.is_empty() && hidden.is_none();
        let is_paid = hidden.is_some();
        let held_to = code_policies::of_session(&settings, prepared, &base, &mut spec)?;
        let has_images =
            self.images().is_ok() && settings.environments.get(&base).is_some_and(|it| it.images);
        let has_tools = !spec.tools.is_empty() || !spec.tool_servers.is_empty();
        if has_tools && resumed.is_none() {
            request::tools(&settings, spec.tools, spec.tools_as_globals, spec.tool_servers)?;
            self.check_environment_has_tools(&base)?;
        }
        request::checkpoints(has_images, spec.checkpoint, spec.auto_rollback)?;
        let limits = request::limits(&settings.sandbox.limits, spec.limits)?;
        let wanted = request::network(&settings, prepared.isolates_full(), spec.network)?;
        let network = prepared.network(&settings, wanted);
        if network == Network::Trusted && !has_gate {
            let reason = "nobody has asked for a gate yet".to_owned();
            return Err(EngineError::EgressUnavailable(reason));
        }
        let of_network = (wanted, network);
        let approval = request::approval(&settings.approval, wanted, spec.approval)?;
        let unlisted = approval.egress.unwrap_or_default();
        let egress = self.egress_of(&settings, tenant, of_network, spec.egress_allow, unlisted)?;
        let env = request::env(spec.env)?;
        self.check_start_env(tenant, approval, &env)?;
        let adjustable = Adjustable {
            limits: Arc::new(limits.clone()),
            metadata: request::metadata(spec.metadata)?,
            idle_timeout: request::idle_timeout(&settings, spec.idle_timeout_ms)?,
            deadline: request::deadline(&settings, Timestamp::now(), spec.deadline)?,
        };
        let timing = trial::timing(&settings);
        let earlier = resumed.and_then(|resumed| resumed.template.clone());
        // No pooled session has a home, a built environment, or an earlier template.
        let has_pool = stores.is_none()
            && built.is_none()
            && earlier.is_none()
            && pools::watermarks(&settings, &environment).is_some();
        let identity = Identity {
            id: id.clone(),
            tenant: tenant.to_owned(),
            environment: environment.clone(),
            network,
            approval,
        };
        let mut policy = prepared.policy(&settings, limits, network, env);
        policy.hidden_paths.extend(hidden.into_iter().flatten());
        if let Some(egress) = &egress {
            egress::equip(&mut policy, prepared, egress)?;
        }
        let of_built = || self.built_template(&environment, built.as_ref()?);
        let template = earlier.or_else(of_built).filter(|_| policy.hidden_paths.is_empty());
        if let Some(built) = &built {
            built.equip(&mut policy, template.is_some());
        }
        let observer = self.observer(tenant);
        let mut plan = trial::launch_plan(&self.inner.host, prepared, policy, tenant, observer)
            .map_err(|error| {
                EngineError::NotStarted(session::internal_failure(&error.to_string()))
            })?;
        plan.context.stores = stores;
        if let Some(built) = built {
            plan.context.environment = Some(Held::Built(built));
            // The base's template has the base's modules.
            plan.context.template = Arc::new(Template::new(&base));
        }
        if let Some(template) = template {
            plan.context.template = template;
        }
        let (max, own_max) = (settings.session.max_sessions, settings.max_sessions_of(tenant));
        let policy = memory_policy(&settings);
        let make = || {
            if resumed.is_none() && self.has_image(tenant, &id) {
                return Err(EngineError::Conflict(id.clone()));
            }
            let grant = (!is_paid).then(|| self.quotas(tenant).session()).transpose();
            let grant = grant.map_err(EngineError::QuotaExceeded)?;
            if is_unasked {
                if let Some(grant) = grant {
                    grant.used();
                }
                let reason = "nobody has asked for the files of what is hidden yet".to_owned();
                return Err(EngineError::EnvironmentsUnavailable(reason));
            }
            let session = self
                .take_or_start(identity, adjustable, timing, plan, (has_pool, &base), policy)
                .map_err(EngineError::NoCapacity)?;
            if let Some(grant) = grant {
                grant.used();
            }
            session.was_made_under(&settings);
            session.is_held_to(held_to);
            session.was_asked_for(asked_for);
            if resumed.is_some() {
                session.begin_suspension();
            } else if let Ok(images) = self.images() {
                // Of another session that had this id.
                images.checkpoints.end(tenant, &session.identity.id);
            }
            Ok(session)
        };
        match self.inner.registry.insert(tenant, &id, own_max, max, make) {
            Ok(session) => {
                self.tend_checkpoints(&session);
                if let Some(egress) = egress {
                    self.serve_egress(&session, egress);
                }
                if has_pool {
                    self.ensure_pool(tenant, &environment);
                }
                if session.deadline().is_some() {
                    self.inner.deadlines.notify_one();
                }
                Ok(Ok(session))
            }
            Err(Refused::Exists(session)) => Ok(Err(session)),
            Err(Refused::Full) => {
                Err(EngineError::TooManySessions { max: max.get().unwrap_or(u64::MAX) })
            }
            Err(Refused::TenantFull) => {
                Err(EngineError::TooManyOfTenant { max: own_max.get().unwrap_or(u64::MAX) })
            }
            Err(Refused::NotMade(error)) => Err(error),
        }
    }

    /// A session that was ready if there is one, and one that starts if not: it takes memory that
    /// the other has already.
    fn take_or_start(
        &self,
        identity: Identity,
        adjustable: Adjustable,
        timing: Timing,
        plan: LaunchPlan,
        (has_pool, base): (bool, &str),
        policy: MemoryPolicy,
    ) -> Result<Arc<Session>, Shortage> {
        let (registry, pools) = (Arc::clone(&self.inner.registry), Arc::clone(&self.inner.pools));
        let on_gone = move |gone: &Session| {
            registry.remove(gone);
            pools.touch(&gone.identity.tenant, &gone.identity.environment);
        };
        let Identity { tenant, environment, .. } = &identity;
        let take = || self.inner.pools.checkout(tenant, environment, &plan.policy);
        let metrics = self.metrics();
        if let Some(pooled) = has_pool.then(take).flatten() {
            metrics.pool.taken(environment, true);
            return Ok(session::from_pooled(identity, adjustable, timing, pooled, on_gone));
        }
        let reservation = self.inner.memory.admit(base, policy)?;
        if has_pool {
            metrics.pool.taken(environment, false);
        }
        let session = session::spawn(identity, adjustable, timing, plan, on_gone);
        let starting = Arc::clone(&session);
        tokio::spawn(async move {
            // Whether or not it did start.
            starting.started().await.unwrap_or_default();
            drop(reservation);
        });
        Ok(session)
    }
}

impl Engine {
    /// How much memory there is for sessions, as far as this is known without asking.
    pub(super) fn memory_capacity(&self, settings: &Settings) -> MemoryCapacity {
        let memory = self.inner.memory.status(DEFAULT_ENVIRONMENT, memory_policy(settings));
        MemoryCapacity {
            available_bytes: memory.available_bytes,
            session_estimate_bytes: memory.estimate_bytes,
        }
    }
}

/// What sessions leave of the host's memory.
pub(super) const fn memory_policy(settings: &Settings) -> MemoryPolicy {
    MemoryPolicy {
        reserve_bytes: reserve_bytes(settings),
        max_pressure_percent: settings.session.max_memory_pressure_percent,
    }
}

pub(super) const fn reserve_bytes(settings: &Settings) -> u64 {
    settings.session.memory_reserve_mb.saturating_mul(1 << 20)
}

#[cfg(test)]
mod tests;
