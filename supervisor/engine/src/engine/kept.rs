//! Asking for an execution by its id: while it runs, and for some time afterwards.

use std::sync::Arc;

use vivarium_api_types::{ExecutionInfo, ExecutionPage, Page, Progress, SessionInfo};
use vivarium_protocol::message::ExecutionNumber;

use super::page::page_size;
use super::{Engine, EngineError, execute};
use crate::session::execution_log::{EventNumber, EventSubscription, ExecutionLog, Stage};
use crate::session::{Identity, Session};

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
            Stage::AwaitingApproval(_) => (Progress::AwaitingApproval, None),
            Stage::Running(_) => (Progress::Running, None),
            Stage::Done(outcome) => (Progress::Done, Some(outcome)),
            Stage::Refused(_) => return Err(unknown(execution_id)),
        };
        Ok(ExecutionInfo { state, outcome })
    }

    /// The executions of a session that wait, run, or are kept, newest first.
    pub fn executions(
        &self,
        tenant: &str,
        session_id: &str,
        page: &Page,
    ) -> Result<ExecutionPage, EngineError> {
        let session = self.find(tenant, session_id)?;
        let limit = page_size(page)?;
        let before = match &page.after {
            None => ExecutionNumber::MAX,
            Some(id) => id.parse().map_err(|_| {
                EngineError::invalid("after", format!("give the `next` of a list: {id:?} is none"))
            })?,
        };
        let known = self.inner.host.results.before(tenant, session_id, before);
        // What is older is of an earlier session of the same id.
        let own = known.iter().filter(|(_, log)| log.submitted_at >= session.created_at());
        let mut executions: Vec<_> =
            own.filter_map(|(number, log)| log.summary(*number)).take(limit + 1).collect();
        let more = executions.len() > limit;
        executions.truncate(limit);
        let next = if more { executions.last().map(|last| last.id.clone()) } else { None };
        Ok(ExecutionPage { executions, next })
    }

    /// All that is known of a session without asking its agent.
    pub(super) fn info(&self, session: &Session) -> SessionInfo {
        let Identity { tenant, id, .. } = &session.identity;
        let mut info = session.info();
        let known = self.inner.host.results.before(tenant, id, ExecutionNumber::MAX);
        let running =
            known.iter().rev().filter(|(_, log)| matches!(log.stage(), Stage::Running(_)));
        info.running = running.map(|(number, _)| number.to_string()).collect();
        info
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
