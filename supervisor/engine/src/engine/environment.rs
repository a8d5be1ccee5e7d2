//! Environments: an interpreter, and the plan that a trial session found to hold here.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use vivarium_protocol::layer::{Layer, Plan, Report};
use vivarium_protocol::policy::{Interpreter, Limits, Network, Policy};

use crate::backend::ids::IdPool;
use crate::backend::program::ProgramFile;
use crate::passt::{NoPasta, Pasta};
use crate::settings::{Environment, Settings};
use crate::template::Template;

/// Variables that pass from the daemon to kernels (SPEC section 1). PATH, HOME, TMPDIR and the rest
/// of its list are the agent's to set.
const PASSED: [&str; 7] = [
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUNBUFFERED",
];

/// An environment that sessions can be started in.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) interpreter: Interpreter,
    pub(super) program: ProgramFile,
    pub(super) plan: Plan,
    pub(super) protection: Arc<[Report]>,
    pub(super) read_paths: Vec<PathBuf>,
    /// Of distributions that no session of it has.
    pub(super) hidden: Vec<PathBuf>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) ids: Option<Arc<IdPool>>,
    pub(super) template: Arc<Template>,
    /// What connects sessions of network `full`, or why that is the host's own.
    pub(super) passt: Result<Pasta, NoPasta>,
}

/// The variables that every kernel of an environment gets.
pub(super) fn passed_env(environment: &Environment, plan: &Plan) -> BTreeMap<String, String> {
    let extra = |name: &str| environment.extra_env.iter().any(|extra| extra == name);
    let scrubs = plan.applies(Layer::EnvScrub);
    let passes = |name: &str| extra(name) || PASSED.contains(&name) || (!scrubs && name != "PATH");
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| passes(name))
        .collect()
}

impl Prepared {
    /// The ids that sessions get. A workdir on the host is the daemon's, which a subordinate id has
    /// no right to.
    pub(super) fn session_ids(&self) -> Option<Arc<IdPool>> {
        self.ids.clone().filter(|_| self.plan.applies(Layer::Mounts))
    }

    /// The network that a session has which is to have this one. Without a network namespace
    /// `loopback` would be the host's own, so it is what the operator chose for this case; `trusted`
    /// would be unrestricted, so it is none; and both are the host's whole network where not even a
    /// seccomp filter keeps sessions from it.
    pub(super) fn network(&self, settings: &Settings, wanted: Network) -> Network {
        if !wanted.has_own_loopback() || self.plan.applies(Layer::Network) {
            wanted
        } else if self.plan.applies(Layer::Seccomp) {
            if wanted == Network::Trusted {
                Network::None
            } else {
                settings.sandbox.network_fallback
            }
        } else {
            Network::Full
        }
    }

    /// Whether a session of network `full` has a network namespace of its own.
    pub(super) fn isolates_full(&self) -> bool {
        self.passt.is_ok()
            && self.plan.applies(Layer::Namespaces)
            && self.plan.applies(Layer::Network)
    }

    /// The policy of a session, but for what each has of its own.
    pub(super) fn policy(
        &self,
        settings: &Settings,
        limits: Limits,
        network: Network,
        env: BTreeMap<String, String>,
    ) -> Policy {
        let mut variables = self.env.clone();
        variables.extend(env);
        Policy {
            plan: self.plan.clone(),
            limits,
            network,
            passt: self
                .passt
                .as_ref()
                .ok()
                .filter(|_| network == Network::Full && self.isolates_full())
                .map(|pasta| pasta.for_session(&settings.egress.allow_addresses)),
            interpreter: Interpreter {
                path: self.interpreter.path.clone(),
                prefixes: self.interpreter.prefixes.clone(),
                isolate: self.interpreter.isolate.clone(),
                version: self.interpreter.version.clone(),
                wasm: self.interpreter.wasm.clone(),
                program: Arc::default(), // it goes as a file
            },
            ca_certificate: None,
            env: variables.into_iter().collect(),
            read_paths: self.read_paths.clone(),
            workdir: settings.sandbox.workdir.clone(),
            host_workdir: None,
            cgroup: None,
            ids: None,
            stores: Vec::new(),
            hidden_paths: self.hidden.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_pass() {
        let environment = Environment { extra_env: vec!["CARGO".into()], ..Environment::default() };
        let passed = passed_env(&environment, &Plan::full());
        assert_eq!(passed.contains_key("CARGO"), env::var_os("CARGO").is_some());
        for name in passed.keys() {
            assert!(PASSED.contains(&name.as_str()) || name == "CARGO", "{name}");
        }
        let all = passed_env(&environment, &Plan::off());
        assert!(all.len() >= passed.len());
        assert!(env::var_os("PATH").is_some() && !all.contains_key("PATH"));
    }
}
