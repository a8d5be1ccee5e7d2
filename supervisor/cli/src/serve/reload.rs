//! Taking over another configuration, or other tenants alone, while the daemon serves.

use std::sync::Arc;

use vivarium_audit::Event;
use vivarium_config::{self as config, Config, Host, Sources};
use vivarium_engine::Engine;
use vivarium_engine::egress::{check_tool_server_secrets, check_webhook_secret};

use super::Args;
use crate::exit::{Exit, Failure};
use crate::options;

/// What the daemon is configured with, and where that came from.
pub(super) struct Running {
    pub(super) config: Config,
    /// Of which tenants alone are read again.
    sources: Arc<Sources>,
    /// Why tenants were last refused, not to say so each time.
    refused: Option<String>,
}

/// Every source, those of `[tenants]` included.
pub(super) fn sources(args: &Args, host: Host) -> Result<Sources, Failure> {
    let sources = args.config.sources(host, &args.listen)?;
    Ok(Sources { all_tenants: true, ..sources })
}

/// Whether files with secrets are looked at too.
#[derive(Clone, Copy)]
enum Secrets {
    Check,
    /// They are those of the configuration that holds.
    Known,
}

fn read(sources: &Sources, secrets: Secrets) -> Result<Config, Failure> {
    let config = options::resolve(sources)?;
    if let Secrets::Check = secrets {
        check_webhook_secret(&config.settings.approval.webhook)
            .map_err(|error| Failure::new(Exit::Usage, &error))?;
        check_tool_server_secrets(&config.settings)
            .map_err(|error| Failure::new(Exit::Usage, &error))?;
    }
    Ok(config)
}

impl Running {
    pub(super) fn new(config: Config, sources: Sources) -> Self {
        Self { config, sources: Arc::new(sources), refused: None }
    }

    /// Reads everything again, as after SIGHUP. An error changes nothing.
    pub(super) async fn reload(&mut self, args: &Args, host: &Host, engine: &Engine) {
        let sources = match sources(args, host.clone()) {
            Ok(sources) => Arc::new(sources),
            Err(failure) => {
                tracing::error!("not reloaded: {}", failure.message());
                return engine.reload_ended(Err(failure.message()));
            }
        };
        match self.take_over(Arc::clone(&sources), engine, Secrets::Check).await {
            Err(failure) => {
                tracing::error!("not reloaded: {}", failure.message());
                engine.reload_ended(Err(failure.message()));
                self.tell_tenants(engine, Err(failure.message()));
            }
            Ok(config::Reloaded { config, changed, kept }) => {
                self.sources = sources;
                for key in &kept {
                    tracing::warn!(key, "not reloaded: it needs a restart");
                }
                engine.audit().record(|| Event::ConfigReloaded {
                    changed: changed.clone(),
                    needs_restart: kept.clone(),
                });
                tracing::info!(changed = changed.join(", "), "configuration reloaded");
                let has_tenants = changed.iter().any(|key| key.starts_with("tenant."));
                self.config = config;
                engine.reload_ended(Ok(()));
                self.tell_tenants(engine, Ok(has_tenants));
            }
        }
    }

    /// Reads the tenants of `[tenants]` again, and what the file said when it was last read.
    pub(super) async fn reload_tenants(&mut self, engine: &Engine) {
        match self.take_over(Arc::clone(&self.sources), engine, Secrets::Known).await {
            Err(failure) => {
                let why = failure.message().to_owned();
                if self.refused.as_ref() != Some(&why) {
                    tracing::error!("tenants stay as they are: {why}");
                }
                self.tell_tenants(engine, Err(&why));
                self.refused = Some(why);
            }
            Ok(config::Reloaded { config, changed, .. }) => {
                if !changed.is_empty() {
                    engine.audit().record(|| Event::ConfigReloaded {
                        changed: changed.clone(),
                        needs_restart: Vec::new(),
                    });
                    tracing::info!(changed = changed.join(", "), "tenants reloaded");
                }
                self.config = config;
                self.refused = None;
                self.tell_tenants(engine, Ok(!changed.is_empty()));
            }
        }
    }

    async fn take_over(
        &self,
        sources: Arc<Sources>,
        engine: &Engine,
        secrets: Secrets,
    ) -> Result<config::Reloaded, Failure> {
        // It reads files, and may wait for a program.
        let resolved = tokio::task::spawn_blocking(move || read(&sources, secrets)).await;
        let new = resolved.map_err(|error| Failure::says(Exit::Usage, error.to_string()))??;
        let reloaded = config::reload(&engine.settings(), &self.config, &new)
            .map_err(|errors| Failure::says(Exit::Usage, errors.to_string()))?;
        if !reloaded.changed.is_empty() {
            engine.reload(Arc::new(reloaded.config.settings.clone())).await;
        }
        Ok(reloaded)
    }

    fn tell_tenants(&self, engine: &Engine, outcome: Result<bool, &str>) {
        if self.config.settings.tenant_sources.is_configured() {
            engine.tenants_read(outcome);
        }
    }
}
