//! Pausing: no new work of a tenant, or of any, while what runs goes on.
//!
//! Kept in a file, so that a tenant who was paused is so after a restart too.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vivarium_api_types::{MAX_REASON_CHARS, PauseInfo, PauseReply, PauseRequest};

use super::{Engine, EngineError};
use crate::observe::Refusal;
use crate::usage::write;

/// In the state directory.
const FILE: &str = "paused.json";

#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Whether anything is paused: all that an execution looks at where nothing is.
    any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    paused: Paused,
    /// Where it is kept, if anywhere.
    dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paused {
    pub(super) all: Option<PauseInfo>,
    pub(super) tenants: BTreeMap<String, PauseInfo>,
}

impl Pauses {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Paused {
        self.lock().paused.clone()
    }

    /// Takes over what an earlier life kept in this directory, and keeps it there from now on.
    pub(super) fn restore(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.dir = Some(dir.to_owned());
        match fs::read(dir.join(FILE)) {
            Ok(bytes) => state.paused = serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.any.store(state.paused != Paused::default(), Ordering::Relaxed);
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Paused)) -> Change {
        let mut state = self.lock();
        change(&mut state.paused);
        self.any.store(state.paused != Paused::default(), Ordering::Relaxed);
        let written = state.dir.as_ref().map(|dir| {
            let content = serde_json::to_vec(&state.paused)?;
            write::replace(dir, FILE, &content)
        });
        let persistent = match written {
            None => false,
            Some(Ok(())) => true,
            Some(Err(error)) => {
                tracing::warn!(%error, "what is paused was not written: a restart will not know");
                false
            }
        };
        Change { now: state.paused.clone(), persistent }
    }
}

/// What is paused after a change, and whether that is on disk.
struct Change {
    now: Paused,
    persistent: bool,
}

impl Engine {
    pub(super) fn check_paused(&self, tenant: &str) -> Result<(), EngineError> {
        let pauses = &self.inner.administration.pauses;
        if !pauses.any.load(Ordering::Relaxed) {
            return Ok(());
        }
        let state = pauses.lock();
        let (refusal, error) = if let Some(PauseInfo { reason, .. }) = &state.paused.all {
            (Refusal::Paused, EngineError::Paused(reason.clone()))
        } else if let Some(PauseInfo { reason, .. }) = state.paused.tenants.get(tenant) {
            (Refusal::TenantPaused, EngineError::TenantPaused(reason.clone()))
        } else {
            return Ok(());
        };
        drop(state);
        self.observer(tenant).refused(refusal);
        Err(error)
    }

    /// Whether new work of every tenant is refused.
    pub fn paused(&self) -> Option<PauseInfo> {
        self.inner.administration.pauses.now().all
    }

    /// Refuses new sessions and executions from now on. A tenant that is removed later stays paused, and
    /// is so when it comes back.
    pub fn pause(&self, request: PauseRequest) -> Result<PauseReply, EngineError> {
        let PauseRequest { tenant, reason } = request;
        if let Some(reason) = &reason
            && (reason.chars().count() > MAX_REASON_CHARS || reason.chars().any(char::is_control))
        {
            let why =
                format!("at most {MAX_REASON_CHARS} characters, none of them control characters");
            return Err(EngineError::invalid("reason", why));
        }
        self.check_known(tenant.as_deref())?;
        let info = PauseInfo { since: Timestamp::now(), reason };
        Ok(self.change_pauses(|paused| match tenant {
            None => paused.all = Some(info),
            Some(tenant) => {
                paused.tenants.insert(tenant, info);
            }
        }))
    }

    /// Takes new work again: of a tenant that was paused by itself, or of all. Neither undoes the
    /// other.
    pub fn resume(&self, request: &PauseRequest) -> Result<PauseReply, EngineError> {
        self.check_known(request.tenant.as_deref())?;
        Ok(self.change_pauses(|paused| match &request.tenant {
            None => paused.all = None,
            Some(tenant) => {
                paused.tenants.remove(tenant);
            }
        }))
    }

    fn change_pauses(&self, change: impl FnOnce(&mut Paused)) -> PauseReply {
        let Change { now, persistent } = self.inner.administration.pauses.change(change);
        let Paused { all, tenants } = now;
        let draining = self.is_draining();
        PauseReply { paused: all, paused_tenants: tenants, draining, persistent }
    }

    /// Refuses a name that is no tenant's: none of the configuration, the directory or the command, none
    /// with sessions left, none that is paused.
    fn check_known(&self, tenant: Option<&str>) -> Result<(), EngineError> {
        let Some(name) = tenant else { return Ok(()) };
        let has_session = || self.inner.registry.all().iter().any(|it| it.identity.tenant == name);
        let is_paused = || self.inner.administration.pauses.now().tenants.contains_key(name);
        if self.settings().ceilings().contains_key(name) || has_session() || is_paused() {
            return Ok(());
        }
        let why =
            format!("there is no tenant {name:?}; `vivarium admin tenants` has those there are");
        Err(EngineError::invalid("tenant", why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{echoing, engine, settings, tenant};
    use crate::engine::tests::{code, named, shows};

    fn of(tenant: Option<&str>) -> PauseRequest {
        PauseRequest { tenant: tenant.map(str::to_owned), reason: Some("unpaid".to_owned()) }
    }

    #[tokio::test]
    async fn a_paused_tenant_begins_nothing_and_others_do() {
        let (engine, _) = echoing(settings());
        engine.create("a", named("s")).await.unwrap();
        let reply = engine.pause(of(Some("a"))).unwrap();
        assert!(!reply.persistent && reply.paused_tenants.contains_key("a"));
        for refused in [
            engine.create("a", named("t")).await.err(),
            engine.execute("a", "s", code("1"), false).await.err(),
            engine.execute("a", "new", code("1"), true).await.err(),
        ] {
            let refused = refused.unwrap();
            assert_eq!((refused.code(), refused.retry_after().is_some()), ("tenant_paused", true));
            assert!(refused.to_string().ends_with("(unpaid)"), "{refused}");
        }
        engine.get("a", "s").await.unwrap();
        engine.execute("b", "s", code("1"), true).await.unwrap();
        shows(
            &engine,
            &[
                r#"vivarium_refusals_total{reason="tenant_paused",tenant="a"} 3"#,
                r#"vivarium_tenant_paused{tenant="a"} 1"#,
                "vivarium_paused 0",
            ],
        );
        engine.resume(&of(None)).unwrap();
        assert!(engine.execute("a", "s", code("1"), false).await.is_err());
        engine.resume(&of(Some("a"))).unwrap();
        engine.execute("a", "s", code("1"), false).await.unwrap();
    }

    #[tokio::test]
    async fn a_tenant_that_nobody_knows_is_refused_by_name() {
        let mut settings = settings();
        settings.tenants.insert("a".to_owned(), tenant("secret"));
        let (engine, _) = echoing(settings.clone());
        for unknown in ["nosuch", "a/b", "default"] {
            for refused in [engine.pause(of(Some(unknown))), engine.resume(&of(Some(unknown)))] {
                let refused = refused.unwrap_err();
                assert_eq!(refused.code(), "invalid_field");
                let name = format!("{unknown:?}");
                assert!(refused.to_string().contains(&name), "{refused}");
            }
        }
        // One that is removed while it is paused stays so, and can be resumed.
        engine.pause(of(Some("a"))).unwrap();
        settings.tenants = BTreeMap::from([("b".to_owned(), tenant("other"))]);
        engine.reload(settings.into()).await;
        assert!(engine.pause(of(Some("b"))).unwrap().paused_tenants.contains_key("a"));
        assert!(!engine.resume(&of(Some("a"))).unwrap().paused_tenants.contains_key("a"));
        engine.resume(&of(Some("a"))).unwrap_err();
        engine.drain(false);
        assert!(engine.resume(&of(None)).unwrap().draining);
    }

    #[tokio::test]
    async fn what_runs_goes_on_and_ends_while_all_are_paused() {
        let (engine, _, mut launched) = engine(settings());
        let running = {
            let engine = engine.clone();
            tokio::spawn(async move { engine.execute("a", "s", code("1"), true).await })
        };
        let mut agent = launched.recv().await.unwrap();
        agent.start().await;
        agent.begin().await;
        engine.pause(of(None)).unwrap();
        assert_eq!(engine.execute("a", "s", code("1"), true).await.unwrap_err().code(), "paused");
        tokio::spawn(agent.echo());
        engine.keepalive("a", "s").unwrap();
        engine.delete("a", "s").await.unwrap();
        running.await.unwrap().unwrap();
    }

    #[test]
    fn a_pause_outlasts_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let pauses = Pauses::default();
        pauses.restore(dir.path()).unwrap();
        let info = PauseInfo { since: Timestamp::UNIX_EPOCH, reason: None };
        let reply = pauses.change(|paused| {
            paused.tenants.insert("a".to_owned(), info);
        });
        assert!(reply.persistent);
        let other = Pauses::default();
        other.restore(dir.path()).unwrap();
        assert_eq!(other.now(), reply.now);
        assert!(other.any.load(Ordering::Relaxed));
        fs::write(dir.path().join(FILE), "{").unwrap();
        Pauses::default().restore(dir.path()).unwrap_err();
    }
}
