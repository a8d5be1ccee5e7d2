//! What a session's code is held to, and what is hidden from it.

use std::path::PathBuf;

use vivarium_api_types::SessionSpec;
use vivarium_protocol::layer::Layer;
use vivarium_protocol::message::Work;

use super::builds::Chosen;
use super::environment::Prepared;
use super::{Engine, EngineError};
use crate::backend::inspect::{self, Inspected};
use crate::code_policy::{HeldTo, Refused, Rules, configured};
use crate::session::{Session, WorkSpec};
use crate::settings::{Settings, is_distribution_name};

/// The most distributions that a request may hide.
const MAX_HIDDEN: usize = 256;

impl From<Refused> for EngineError {
    fn from(Refused { field, reason }: Refused) -> Self {
        Self::Invalid { field, reason }
    }
}

/// What holds for a session that asks for this.
pub(super) fn of_session(
    settings: &Settings,
    prepared: &Prepared,
    environment: &str,
    asked: &mut SessionSpec,
) -> Result<HeldTo, EngineError> {
    let spec = asked.take_code_policy();
    spec.check().map_err(Refused::from)?;
    let configured: Rules = configured(settings, environment)?;
    let held = HeldTo {
        rules: configured.clone().and(&spec)?,
        configured,
        environment: environment.to_owned(),
        python: prepared.interpreter.version.clone(),
    };
    held.check(&held.rules)?;
    Ok(held)
}

impl Engine {
    /// Puts together what an execution is held to.
    pub(super) fn add_policy(session: &Session, spec: &mut WorkSpec) -> Result<(), EngineError> {
        let Work::Code { policy, .. } = &mut spec.work else { return Ok(()) };
        let asked = std::mem::take(&mut spec.asked_policy);
        let Some(held) = session.held_to() else { return Ok(()) };
        let rules = held.rules.clone().and(&asked.spec)?;
        held.check(&rules)?;
        **policy = rules.into_policy(asked);
        Ok(())
    }

    /// Where the distributions are that a session asks to be without, besides those of its environment.
    pub(super) async fn hidden(
        &self,
        chosen: &Chosen,
        names: &[String],
    ) -> Result<Vec<PathBuf>, EngineError> {
        let refused = |reason: String| EngineError::invalid("hidden", reason);
        if names.is_empty() {
            return Ok(Vec::new());
        }
        if names.len() > MAX_HIDDEN {
            return Err(refused(format!("over the maximum of {MAX_HIDDEN} names")));
        }
        if let Some(bad) = names.iter().find(|name| !is_distribution_name(name)) {
            let shown: String = bad.chars().take(64).collect();
            return Err(refused(format!("{shown:?} is not a distribution's name")));
        }
        if chosen.built.is_some() {
            let reason = "a built environment has what was asked for: build one without it";
            return Err(refused(reason.to_owned()));
        }
        let prepared = self.environment(&chosen.base)?;
        if !prepared.plan.applies(Layer::Mounts) {
            return Err(refused("it needs the mounts layer, which is missing here".to_owned()));
        }
        let agent = self.settings().agent_binary.clone();
        let Inspected { hidden, missing, .. } =
            inspect::inspect(&agent, &prepared.interpreter.path, names)
                .await
                .map_err(|error| refused(error.to_string()))?;
        match missing.first() {
            None => Ok(hidden),
            Some(name) => Err(refused(format!("environment {:?} has no {name:?}", chosen.base))),
        }
    }
}
