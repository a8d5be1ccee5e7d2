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

    fn change(&self, change: impl FnOnce(&mut Paused)) -> PauseReply {
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
        let Paused { all, tenants } = state.paused.clone();
        PauseReply { paused: all, paused_tenants: tenants, persistent }
    }
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

    /// Refuses new sessions and executions from now on. A tenant that is not configured can be paused
    /// too: it may be removed for now.
    pub fn pause(&self, request: PauseRequest) -> Result<PauseReply, EngineError> {
        let PauseRequest { tenant, reason } = request;
        if let Some(reason) = &reason
            && (reason.chars().count() > MAX_REASON_CHARS || reason.chars().any(char::is_control))
        {
            let why =
                format!("at most {MAX_REASON_CHARS} characters, none of them control characters");
            return Err(EngineError::invalid("reason", why));
        }
        check_name(tenant.as_deref())?;
        let info = PauseInfo { since: Timestamp::now(), reason };
        Ok(self.inner.administration.pauses.change(|paused| match tenant {
            None => paused.all = Some(info),
            Some(tenant) => {
                paused.tenants.insert(tenant, info);
            }
        }))
    }

    /// Takes new work again: of a tenant that was paused by itself, or of all. Neither undoes the
    /// other.
    pub fn resume(&self, request: &PauseRequest) -> Result<PauseReply, EngineError> {
        check_name(request.tenant.as_deref())?;
        Ok(self.inner.administration.pauses.change(|paused| match &request.tenant {
            None => paused.all = None,
            Some(tenant) => {
                paused.tenants.remove(tenant);
            }
        }))
    }
}

fn check_name(tenant: Option<&str>) -> Result<(), EngineError> {
    match tenant {
        Some(tenant) if !super::is_valid_id(tenant) => {
            Err(EngineError::invalid("tenant", format!("{tenant:?} is no name of a tenant")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{echoing, engine, settings};
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
        assert_eq!(other.now(), pauses.now());
        assert!(other.any.load(Ordering::Relaxed));
        fs::write(dir.path().join(FILE), "{").unwrap();
        Pauses::default().restore(dir.path()).unwrap_err();
    }
}
