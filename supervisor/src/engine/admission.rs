//! Finding sessions, and making them: everything asked for is checked before anything is made.

use std::sync::Arc;

use super::types::SessionSpec;
use super::{DEFAULT_ENVIRONMENT, Engine, EngineError, request, trial};
use crate::observe::Refusal;
use crate::session::registry::Refused;
use crate::session::{self, Identity, Session};

impl Engine {
    /// A tenant's session. An id that no session can have is as unknown as any other.
    pub(super) fn find(&self, tenant: &str, id: &str) -> Result<Arc<Session>, EngineError> {
        let session = self.inner.registry.get(tenant, id);
        session.ok_or_else(|| EngineError::UnknownSession(id.to_owned()))
    }

    pub(super) async fn find_or_add(
        &self,
        tenant: &str,
        id: &str,
    ) -> Result<Arc<Session>, EngineError> {
        let spec = SessionSpec { id: Some(id.to_owned()), ..SessionSpec::default() };
        // Somebody else may be faster.
        Ok(self.add(tenant, spec).await?.unwrap_or_else(|existing| existing))
    }

    /// Adds a session, without waiting for it to start; the inner error is the one that has its
    /// id. One that is on its way out, and that nobody can see any more, is waited for.
    pub(super) async fn add(
        &self,
        tenant: &str,
        spec: SessionSpec,
    ) -> Result<Result<Arc<Session>, Arc<Session>>, EngineError> {
        loop {
            match self.try_add(tenant, spec.clone())? {
                Err(existing) if existing.is_closed() => existing.gone().await,
                settled => return Ok(settled),
            }
        }
    }

    fn try_add(
        &self,
        tenant: &str,
        spec: SessionSpec,
    ) -> Result<Result<Arc<Session>, Arc<Session>>, EngineError> {
        self.check_open(tenant)?;
        let settings = self.settings();
        let id = request::id(spec.id)?;
        let environment = spec.environment.unwrap_or_else(|| DEFAULT_ENVIRONMENT.to_owned());
        let prepared = self.inner.environments.get(&environment).ok_or_else(|| {
            let names: Vec<_> = self.inner.environments.keys().map(String::as_str).collect();
            let reason = format!("{environment:?} is not configured: {}", names.join(", "));
            EngineError::invalid("environment", reason)
        })?;
        let limits = request::limits(&settings.sandbox.limits, spec.limits)?;
        let network = request::network(&settings, spec.network)?;
        let env = request::env(spec.env)?;
        let mut timing = trial::timing(&settings);
        timing.idle_timeout = request::idle_timeout(&settings, spec.idle_timeout_ms)?;
        let identity = Identity {
            id: id.clone(),
            tenant: tenant.to_owned(),
            environment,
            limits: limits.clone(),
            network,
            metadata: request::metadata(spec.metadata)?,
        };
        let policy = prepared.policy(&settings, limits, network, env);
        let observer = self.observer(tenant);
        let recipe =
            trial::recipe(&self.inner.host, prepared, policy, observer).map_err(|error| {
                EngineError::NotStarted(session::internal_failure(&error.to_string()))
            })?;
        let (max, own_max) = (settings.session.max_sessions, settings.max_sessions_of(tenant));
        let registry = Arc::clone(&self.inner.registry);
        let make = || session::spawn(identity, timing, recipe, move |gone| registry.remove(gone));
        match self.inner.registry.insert(tenant, &id, own_max, max, make) {
            Ok(session) => Ok(Ok(session)),
            Err(Refused::Exists(session)) => Ok(Err(session)),
            Err(Refused::Full) => {
                self.observer(tenant).refused(Refusal::TooManySessions);
                Err(EngineError::TooManySessions { max: max.get().unwrap_or(u64::MAX) })
            }
            Err(Refused::TenantFull) => {
                self.observer(tenant).refused(Refusal::TooManySessions);
                Err(EngineError::TooManyOfTenant { max: own_max.get().unwrap_or(u64::MAX) })
            }
        }
    }
}
