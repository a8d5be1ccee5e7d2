//! What administrators see and do.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::Notify;
use vivarium_api_types::{
    AdminStatus, AdminTenant, AdminTenantList, DrainReply, EnvironmentStatus, FailedReload,
    LedgerInfo, TenantInfo, TenantList, TenantSourcesInfo, TokenInfo, UsageRow,
};
use vivarium_metrics::Families;
use vivarium_metrics::families::administration::TenantsRead;

use super::pause::{Paused, Pauses};
use super::{Engine, templates};
use crate::cgroup::Support;
use crate::settings::{Settings, TenantToken};
use crate::usage::{Keeper, KeeperError, LedgerState, Schedule, UsageRange};

/// Digits of a token's hash by which people tell it from others.
const HASH_PREFIX: usize = 12;

/// Of what is wrong with a configuration, which may be much.
const MAX_ERROR_CHARS: usize = 4000;

#[derive(Debug)]
pub(super) struct Administration {
    started: (Timestamp, Instant),
    pub(super) pauses: Pauses,
    stop: Notify,
    /// Not there in an engine of the command line's, nor where it could not be kept.
    ledger: OnceLock<Result<Keeper, String>>,
    tenant_sources: Mutex<Option<TenantSourcesInfo>>,
    failed_reload: Mutex<Option<FailedReload>>,
}

impl Default for Administration {
    fn default() -> Self {
        Self {
            started: (Timestamp::now(), Instant::now()),
            pauses: Pauses::default(),
            stop: Notify::new(),
            ledger: OnceLock::new(),
            tenant_sources: Mutex::default(),
            failed_reload: Mutex::default(),
        }
    }
}

impl Engine {
    /// Takes over what an earlier life kept in the state directory, and keeps what is used and what is
    /// paused there from now on. Without a ledger the daemon goes on, and says so.
    ///
    /// # Errors
    /// If it can not be known who is paused.
    pub fn keep_state(&self) -> io::Result<()> {
        let settings = self.settings();
        let dir = &settings.server.state_dir;
        self.inner.administration.pauses.restore(dir)?;
        let tree = match &self.inner.host.cgroups {
            Support::Available(tree) => Some(Arc::downgrade(tree)),
            Support::Unavailable(_) => None,
        };
        let host = &self.inner.host;
        let started = Keeper::start(dir, schedule(&settings), &host.usage, tree, &host.metrics);
        let ledger = started.map_err(|error| {
            let why = vivarium_protocol::error_chain(&error).to_string();
            tracing::error!(why, "what tenants use is not kept");
            why
        });
        self.inner.administration.ledger.get_or_init(|| ledger);
        Ok(())
    }

    fn ledger(&self) -> Option<&Keeper> {
        self.inner.administration.ledger.get()?.as_ref().ok()
    }

    /// How the ledger is to be kept from now on.
    pub(super) fn schedule_usage(&self, settings: &Settings) {
        if let Some(ledger) = self.ledger() {
            ledger.keep(schedule(settings));
        }
    }

    pub(super) async fn flush_usage(&self) {
        if let Some(ledger) = self.ledger()
            && let Err(error) = ledger.flush().await
        {
            tracing::error!(%error, "the usage ledger was not written");
        }
    }

    /// What tenants used.
    ///
    /// # Errors
    /// [`KeeperError`], of which [`KeeperError::Ended`] where there is no ledger.
    pub async fn usage(&self, range: UsageRange) -> Result<Vec<UsageRow>, KeeperError> {
        self.ledger().ok_or(KeeperError::Ended)?.query(range).await
    }

    /// Takes no new work from now on, and ends every session when it is idle or the time of an
    /// execution has passed.
    pub fn drain(&self, exit: bool) -> DrainReply {
        let sessions = self.inner.registry.all().len();
        if exit {
            self.inner.administration.stop.notify_one();
        } else if !self.inner.draining.swap(true, Ordering::Relaxed) {
            let engine = self.clone();
            let grace = self.settings().session.exec_timeout;
            tokio::spawn(async move { engine.shutdown(grace).await });
        }
        DrainReply { sessions, exit }
    }

    /// Resolves when an administrator wants the daemon to drain and end.
    pub async fn stop_wanted(&self) {
        self.inner.administration.stop.notified().await;
    }

    pub fn status(&self) -> AdminStatus {
        let settings = self.settings();
        let (started_at, since) = self.inner.administration.started;
        let Paused { all, tenants } = self.inner.administration.pauses.now();
        let mut sessions = BTreeMap::new();
        let mut queued = 0;
        for session in self.inner.registry.all() {
            let status = session.status();
            *sessions.entry(<&str>::from(status.state()).to_owned()).or_default() += 1;
            queued += status.usage.queued;
        }
        let (used, max) = self.inner.host.budget.used();
        AdminStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at,
            uptime_seconds: since.elapsed().as_secs(),
            mode: settings.sandbox.mode.name().to_owned(),
            draining: self.is_draining(),
            paused: all,
            paused_tenants: tenants,
            sessions,
            queued,
            tenants: settings.ceilings().len(),
            failed_reload: self.failed_reload().clone(),
            tenant_sources: self.tenant_sources_info(&settings),
            environments: self.environments_status(),
            memory: self.memory_capacity(&settings),
            buffered_bytes: used.iter().map(|(_, bytes)| *bytes as u64).sum(),
            max_buffered_bytes: max as u64,
            usage: self.ledger_info(),
        }
    }

    /// Notes that the tenants of `[tenants]` were read: whether any changed, or what is wrong.
    pub fn tenants_read(&self, outcome: Result<bool, &str>) {
        let (state, read) = match outcome {
            Ok(true) => ("ok", TenantsRead::Applied),
            Ok(false) => ("ok", TenantsRead::Unchanged),
            Err(_) => ("failing", TenantsRead::Refused),
        };
        self.metrics().administration.tenants_read(read);
        let error = outcome.err().map(cut);
        let info = TenantSourcesInfo { state: state.to_owned(), read_at: Timestamp::now(), error };
        let noted = &self.inner.administration.tenant_sources;
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(info);
    }

    /// Notes that the configuration was to be reloaded: that it was, or why it stays as it is.
    pub fn reload_ended(&self, outcome: Result<(), &str>) {
        let failed = |why| FailedReload { at: Timestamp::now(), error: cut(why) };
        *self.failed_reload() = outcome.err().map(failed);
    }

    fn failed_reload(&self) -> MutexGuard<'_, Option<FailedReload>> {
        let failed = &self.inner.administration.failed_reload;
        failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tenant_sources_info(&self, settings: &Settings) -> Option<TenantSourcesInfo> {
        let noted = &self.inner.administration.tenant_sources;
        let noted = noted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        noted.filter(|_| settings.tenant_sources.is_configured())
    }

    fn environments_status(&self) -> Vec<EnvironmentStatus> {
        let status = |(name, prepared): (&String, &super::Prepared)| {
            let mut layers: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for report in prepared.protection.iter() {
                let status = <&str>::from(report.status).to_owned();
                layers.entry(status).or_default().push(report.layer.name().to_owned());
            }
            let template = templates::info(&prepared.template.state());
            let pooled = self.inner.pools.ready_in(name);
            EnvironmentStatus { name: name.clone(), template, pooled, layers }
        };
        self.inner.environments.iter().map(status).collect()
    }

    fn ledger_info(&self) -> LedgerInfo {
        let off = |error| LedgerInfo {
            state: "off".to_owned(),
            flushed_at: None,
            error,
            damaged: Vec::new(),
        };
        match self.inner.administration.ledger.get() {
            None => off(None),
            Some(Err(why)) => off(Some(why.clone())),
            Some(Ok(ledger)) => {
                let LedgerState { flushed_at, error, damaged } = ledger.state();
                let state = if error.is_some() { "failing" } else { "kept" }.to_owned();
                let damaged = damaged.iter().map(|path| path.display().to_string()).collect();
                LedgerInfo { state, flushed_at, error, damaged }
            }
        }
    }

    /// Every tenant with its figures and tokens. Reads files: not for a thread that others wait for.
    pub fn admin_tenants(&self) -> AdminTenantList {
        let settings = self.settings();
        let Paused { tenants: paused, .. } = self.inner.administration.pauses.now();
        let now = Timestamp::now();
        let known = settings.ceilings();
        let TenantList { tenants } = self.tenants();
        let tenant = |info: TenantInfo| {
            let TenantInfo { name, sessions, running, queued, .. } = info;
            let tokens = settings.tenants.get(&name).map(|tenant| tenant.tokens.as_slice());
            AdminTenant {
                configured: known.contains_key(&name),
                sessions,
                max_sessions: settings.max_sessions_of(&name),
                running,
                queued,
                cpu_seconds: info.cpu_seconds,
                memory_bytes: info.memory_bytes,
                processes: info.processes,
                paused: paused.get(&name).cloned(),
                tokens: tokens.unwrap_or_default().iter().map(|of| token(of, now)).collect(),
                name,
            }
        };
        AdminTenantList { tenants: tenants.into_iter().map(tenant).collect() }
    }

    /// Scrape: what administrators did.
    pub(super) fn show_administration(&self, to: &Families) {
        let Paused { all, tenants } = self.inner.administration.pauses.now();
        to.administration.takes_work(all.is_some(), self.is_draining());
        tenants.keys().for_each(|tenant| to.administration.has_paused(tenant));
    }

    /// How many sessions there are, by state.
    #[cfg(test)]
    fn count(&self, state: vivarium_api_types::SessionState) -> u64 {
        self.status().sessions.get(<&str>::from(state)).copied().unwrap_or(0)
    }
}

fn cut(why: &str) -> String {
    why.chars().take(MAX_ERROR_CHARS).collect()
}

fn schedule(settings: &Settings) -> Schedule {
    Schedule { flush_interval: settings.usage.flush_interval, keep: settings.usage.keep }
}

fn token(token: &TenantToken, now: Timestamp) -> TokenInfo {
    TokenInfo {
        hash_prefix: token.hash.to_string().chars().take(HASH_PREFIX).collect(),
        name: token.name.clone(),
        scopes: token.scopes.listed(),
        expires: token.expires,
        expired: token.has_expired(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{echoing, settings, tenant};
    use crate::engine::tests::{code, named};
    use vivarium_api_types::{SessionState, UsagePeriod};

    #[tokio::test]
    async fn what_was_run_is_billed_once_and_outlasts_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings();
        settings.server.state_dir = dir.path().to_owned();
        for tenant in ["a", "b"] {
            let (engine, _) = echoing(settings.clone());
            engine.keep_state().unwrap();
            assert_eq!(engine.status().usage.state, "kept");
            engine.execute(tenant, "s", code("1"), true).await.unwrap();
            engine.execute("a", "s", code("1"), true).await.unwrap();
            engine.execute("a", "missing", code("1"), false).await.unwrap_err();
            engine.shutdown(std::time::Duration::from_secs(1)).await;
        }
        let (engine, _) = echoing(settings);
        engine.keep_state().unwrap();
        let (from, to) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let range = UsageRange { from, to, period: UsagePeriod::Total, tenant: None };
        let rows = engine.usage(range).await.unwrap();
        let found: Vec<_> =
            rows.iter().map(|row| (row.tenant.as_str(), row.executions, row.sessions)).collect();
        assert_eq!(found, [("a", 3, 2), ("b", 1, 1)]);
    }

    #[tokio::test]
    async fn a_daemon_that_drains_by_order_ends_its_sessions_and_answers() {
        let (engine, _) = echoing(settings());
        engine.create("a", named("s")).await.unwrap();
        assert_eq!(engine.count(SessionState::Idle), 1);
        let session = engine.find("a", "s").unwrap();
        assert_eq!(engine.drain(false), DrainReply { sessions: 1, exit: false });
        session.gone().await;
        assert!(engine.status().draining);
        assert_eq!(engine.create("a", named("t")).await.unwrap_err().code(), "draining");
        engine.drain(false);
        engine.drain(true);
        engine.stop_wanted().await;
    }

    #[tokio::test]
    async fn tenants_are_listed_with_their_tokens_and_no_secret() {
        let mut settings = settings();
        settings.tenants.insert("a".to_owned(), tenant("secret"));
        let (engine, _) = echoing(settings);
        let AdminTenantList { tenants } = engine.admin_tenants();
        assert_eq!((tenants.len(), tenants[0].configured), (1, true));
        let token = &tenants[0].tokens[0];
        assert_eq!((token.hash_prefix.len(), token.expired), (HASH_PREFIX, false));
    }
}
