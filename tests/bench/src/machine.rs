//! The machine it is measured on.

use serde::Serialize;
use vivarium_api_types::HostInfo;
use vivarium_client::Method;
use vivarium_protocol::layer::Status;

use super::BenchError;
use super::daemon::Daemon;

/// The machine it ran on.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    pub kernel: String,
    /// The CPUs that the daemon may use.
    pub cpus: usize,
    pub interpreter: String,
    pub python_version: String,
    /// Layers enforced, and those that are not.
    pub layers: String,
}

impl Machine {
    #[cfg(test)]
    pub(super) const fn unknown() -> Self {
        Self {
            kernel: String::new(),
            cpus: 1,
            interpreter: String::new(),
            python_version: String::new(),
            layers: String::new(),
        }
    }

    /// As a daemon with the default environment describes it.
    pub(super) async fn of_daemon(daemon: &Daemon) -> Result<Self, BenchError> {
        let host = daemon.client().json(Method::GET, "/v1/host", None::<&()>).await?;
        Ok(Self::of(&host))
    }

    fn of(host: &HostInfo) -> Self {
        let environment =
            host.environments.iter().find(|environment| environment.name == "default");
        let enforced = host.layers.iter().filter(|layer| layer.status == Status::Enforced).count();
        let rest = host.layers.iter().filter(|layer| layer.status != Status::Enforced);
        let rest: Vec<_> = rest.map(|layer| format!("{} {}", layer.layer, layer.status)).collect();
        let rest = if rest.is_empty() { String::new() } else { format!("; {}", rest.join(", ")) };
        let [interpreter, python_version] = environment.map_or_else(Default::default, |found| {
            [found.interpreter.clone(), found.python_version.clone()]
        });
        Self {
            kernel: host.kernel.clone(),
            cpus: host.capacity.cpus,
            interpreter,
            python_version,
            layers: format!("{enforced} of {} layers enforced{rest}", host.layers.len()),
        }
    }
}
