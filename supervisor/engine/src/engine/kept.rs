//! Asking for an execution by its id: while it runs, and for some time afterwards.

use std::sync::Arc;

use vivarium_api_types::{ExecutionInfo, Progress};

use super::{Engine, EngineError, execute};
use crate::session::execution_log::{EventNumber, EventSubscription, ExecutionLog, Stage};

impl Engine {
    /// How far an execution has come, and its outcome if it is over.
    pub fn execution(
        &self,
        tenant: &str,
        session_id: &str,
        execution_id: &str,
    ) -> Result<ExecutionInfo, EngineError> {
        let record = self.record(tenant, session_id, execution_id)?;
        let (state, outcome) = match record.stage() {
            Stage::Submitted | Stage::Queued(_) => (Progress::Queued, None),
            Stage::Running(_) => (Progress::Running, None),
            Stage::Done(outcome) => (Progress::Done, Some(outcome)),
            Stage::Refused(_) => return Err(unknown(execution_id)),
        };
        Ok(ExecutionInfo { state, outcome })
    }

    /// Follows an execution's events from after this one on, or from the first that is kept.
    pub fn follow(
        &self,
        tenant: &str,
        session_id: &str,
        execution_id: &str,
        after: Option<EventNumber>,
    ) -> Result<EventSubscription, EngineError> {
        execute::follow(&self.record(tenant, session_id, execution_id)?, after)
    }

    pub(super) fn record(
        &self,
        tenant: &str,
        session_id: &str,
        execution_id: &str,
    ) -> Result<Arc<ExecutionLog>, EngineError> {
        let number = execution_id.parse().map_err(|_| unknown(execution_id))?;
        let record = self.inner.host.results.get(tenant, session_id, number);
        record.ok_or_else(|| unknown(execution_id))
    }
}

fn unknown(execution_id: &str) -> EngineError {
    EngineError::UnknownExecution(execution_id.to_owned())
}
