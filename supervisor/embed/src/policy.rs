//! What sessions may do, built in code.

use std::path::PathBuf;
use std::time::Duration;

use vivarium_api_types::Cores;
use vivarium_config::{ConfigErrors, Host, Sources};
use vivarium_engine::DEFAULT_ENVIRONMENT;
use vivarium_engine::settings::{Mode, Settings};
use vivarium_protocol::policy::Network;
use vivarium_protocol::units::Limit;

type Change = Box<dyn FnOnce(&mut Settings) -> Result<(), PolicyError> + Send>;

/// A limit that no session can have.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{limit}: {why}")]
pub struct PolicyError {
    /// The method of [`Policy`].
    pub limit: &'static str,
    /// What is wrong.
    pub why: String,
}

/// What sessions may do. What is not said is as in docs/configuration.md: 2048 MiB of memory, one
/// core, 30 s for an execution, and loopback as the only network. No file and no variable is read.
#[derive(Default)]
pub struct Policy {
    changes: Vec<Change>,
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy").field("changes", &self.changes.len()).finish()
    }
}

impl Policy {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The memory of a session, in MiB.
    #[must_use]
    pub fn memory_mb(self, mb: u64) -> Self {
        self.limit("memory_mb", mb, |settings, limit| settings.sandbox.limits.max_memory_mb = limit)
    }

    /// The size of a session's files together, in MiB.
    #[must_use]
    pub fn disk_mb(self, mb: u64) -> Self {
        self.limit("disk_mb", mb, |settings, limit| settings.sandbox.limits.max_disk_mb = limit)
    }

    /// Processes and threads of a session.
    #[must_use]
    pub fn processes(self, count: u64) -> Self {
        self.limit("processes", count, |settings, limit| settings.sandbox.limits.max_procs = limit)
    }

    /// How much of a core a session gets, such as 0.5 or 2.
    #[must_use]
    pub fn cpu_cores(self, cores: f64) -> Self {
        self.change(move |settings| {
            let cores = Cores::new(cores)
                .map_err(|error| PolicyError { limit: "cpu_cores", why: error.to_string() })?;
            settings.sandbox.limits.cpu_cores = cores.into();
            Ok(())
        })
    }

    /// Sessions at a time.
    #[must_use]
    pub fn sessions(self, count: u64) -> Self {
        self.limit("sessions", count, |settings, limit| settings.session.max_sessions = limit)
    }

    /// How long an execution may take.
    #[must_use]
    pub fn timeout(self, time: Duration) -> Self {
        self.change(move |settings| {
            if time.is_zero() {
                return Err(PolicyError {
                    limit: "timeout",
                    why: "has to be above zero".to_owned(),
                });
            }
            settings.session.exec_timeout = time;
            settings.session.max_exec_timeout = settings.session.max_exec_timeout.max(time);
            Ok(())
        })
    }

    /// What sessions can reach.
    #[must_use]
    pub fn network(self, network: Network) -> Self {
        self.change(move |settings| {
            settings.sandbox.network = network;
            if !settings.sandbox.allowed_networks.contains(&network) {
                settings.sandbox.allowed_networks.push(network);
            }
            Ok(())
        })
    }

    /// The interpreter; by default the first `python3` on PATH that sessions can read.
    #[must_use]
    pub fn interpreter(self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        self.change(move |settings| {
            if let Some(environment) = settings.environments.get_mut(DEFAULT_ENVIRONMENT) {
                environment.interpreter = Some(path);
            }
            Ok(())
        })
    }

    /// Modules that sessions start with, so that importing them takes no time.
    #[must_use]
    pub fn preimport<'a>(self, modules: impl IntoIterator<Item = &'a str>) -> Self {
        let modules: Vec<_> = modules.into_iter().map(str::to_owned).collect();
        self.change(move |settings| {
            if let Some(environment) = settings.environments.get_mut(DEFAULT_ENVIRONMENT) {
                environment.preimport = modules;
            }
            Ok(())
        })
    }

    /// Where sockets and other files are that only matter while this runs.
    #[must_use]
    pub fn runtime_dir(self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        self.change(move |settings| {
            settings.server.runtime_dir = path;
            Ok(())
        })
    }

    /// Has [`Sandbox::start`](crate::Sandbox::start) fail where this host lacks a layer; by default sessions
    /// do without it, and their `protection` says so.
    #[must_use]
    pub fn require_all_layers(self) -> Self {
        self.change(|settings| {
            settings.sandbox.mode = Mode::On;
            Ok(())
        })
    }

    /// Anything else that the engine has a setting for.
    #[must_use]
    pub fn adjust(self, change: impl FnOnce(&mut Settings) + Send + 'static) -> Self {
        self.change(|settings| {
            change(settings);
            Ok(())
        })
    }

    fn limit(
        self,
        limit: &'static str,
        value: u64,
        set: impl FnOnce(&mut Settings, Limit) + Send + 'static,
    ) -> Self {
        self.change(move |settings| {
            let value =
                Limit::new(value).map_err(|error| PolicyError { limit, why: error.to_string() })?;
            set(settings, value);
            Ok(())
        })
    }

    fn change(
        mut self,
        change: impl FnOnce(&mut Settings) -> Result<(), PolicyError> + Send + 'static,
    ) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// The engine's settings, of which none come from outside this program.
    pub(crate) fn settings(self) -> Result<Settings, crate::StartError> {
        let mut settings = defaults()?;
        for change in self.changes {
            change(&mut settings)?;
        }
        Ok(settings)
    }
}

fn defaults() -> Result<Settings, ConfigErrors> {
    let sources = Sources { host: Host::look(), ..Sources::default() };
    let mut settings = vivarium_config::resolve(&sources)?.settings;
    settings.keep_none_ready();
    settings.server.listen = Vec::new();
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_says_what_it_cannot_be() {
        for (policy, limit) in [
            (Policy::new().memory_mb(0), "memory_mb"),
            (Policy::new().processes(0), "processes"),
            (Policy::new().cpu_cores(-1.0), "cpu_cores"),
            (Policy::new().timeout(Duration::ZERO), "timeout"),
        ] {
            let error = policy.settings().err().map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|error| error.starts_with(limit)), "{error:?}");
        }
    }

    #[test]
    fn policy_becomes_settings() -> Result<(), Box<dyn std::error::Error>> {
        let policy = Policy::new()
            .memory_mb(64)
            .network(Network::None)
            .timeout(Duration::from_secs(7200))
            .interpreter("/opt/python")
            .preimport(["numpy"])
            .adjust(|settings| settings.session.queue_depth = 7);
        let settings = policy.settings()?;
        assert_eq!(settings.sandbox.limits.max_memory_mb, Limit::new(64)?);
        assert_eq!(settings.sandbox.network, Network::None);
        assert_eq!(settings.session.max_exec_timeout, Duration::from_secs(7200));
        assert_eq!(settings.session.queue_depth, 7);
        let environment = settings.environments.get(DEFAULT_ENVIRONMENT).ok_or("no environment")?;
        assert_eq!(environment.interpreter, Some(PathBuf::from("/opt/python")));
        assert_eq!(environment.preimport, ["numpy"]);
        Ok(())
    }
}
