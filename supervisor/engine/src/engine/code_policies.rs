//! What a session's code is held to.

use vivarium_api_types::SessionSpec;
use vivarium_protocol::message::Work;

use super::environment::Prepared;
use super::{Engine, EngineError};
use crate::code_policy::{HeldTo, Refused, Rules, configured};
use crate::session::{Session, WorkSpec};
use crate::settings::Settings;

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
}
