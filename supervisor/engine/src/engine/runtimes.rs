//! What the runtime of an environment lacks, refused by its name.

use vivarium_api_types::{HomeKind, SessionSpec};
use vivarium_protocol::policy::Network;
use vivarium_protocol::runtime::Runtime;

use super::{Engine, EngineError};

impl Engine {
    /// The runtime of a configured environment. A built one is of an interpreter.
    pub(super) fn runtime_of(&self, environment: &str) -> Runtime {
        let prepared = self.inner.environments.get(environment);
        prepared.map_or(Runtime::Cpython, |prepared| prepared.interpreter.runtime())
    }

    /// Refuses what only interpreters have.
    pub(super) fn needs_cpython(
        &self,
        environment: &str,
        what: &'static str,
    ) -> Result<(), EngineError> {
        match self.runtime_of(environment) {
            Runtime::Cpython => Ok(()),
            runtime => Err(EngineError::NotInRuntime { what, runtime: runtime.into() }),
        }
    }

    /// Refuses a command that the runtime cannot run.
    pub(super) fn check_command(
        &self,
        environment: &str,
        argv: &[String],
    ) -> Result<(), EngineError> {
        let prepared = self.inner.environments.get(environment);
        match prepared.and_then(|prepared| prepared.interpreter.wasm.as_ref()) {
            Some(engine) if engine.runner_of(argv).is_some() => Ok(()),
            Some(engine) if engine.runner.is_some() => {
                self.needs_cpython(environment, "commands other than .wasm files are")
            }
            _ => self.needs_cpython(environment, "commands are"),
        }
    }

    /// Refuses what a session asks for, or would have by the tenant's configuration, that its runtime does not have.
    pub(super) fn check_runtime(
        &self,
        tenant: &str,
        environment: &str,
        spec: &SessionSpec,
    ) -> Result<(), EngineError> {
        let has_tools = !spec.tools.is_empty() || !spec.tool_servers.is_empty();
        let reaches_out = |network| matches!(network, Network::Trusted | Network::Full);
        let configured = self.settings_of(tenant).sandbox.network;
        let asked = [
            (spec.home.is_some_and(|home| home != HomeKind::Off), "homes are"),
            (!spec.volumes.is_empty(), "volumes are"),
            (has_tools, "tools are"),
            (!spec.hidden.is_empty(), "hidden distributions are"),
            (spec.network.is_some_and(reaches_out), "a network is"),
            (
                spec.network.is_none() && reaches_out(configured),
                "the configured network (\"network\": \"none\" asks for none) is",
            ),
        ];
        let missing = asked.into_iter().find(|(asked, _)| *asked);
        missing.map_or(Ok(()), |(_, what)| self.needs_cpython(environment, what))
    }
}
