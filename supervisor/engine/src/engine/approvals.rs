//! Calls that wait for approval, for whoever decides.

use std::collections::BTreeMap;

use vivarium_api_types::{
    ApprovalInfo, ApprovalPage, ApprovalQuery, ApprovalSpec, DecideRequest, MAX_REASON_CHARS, Page,
};

use super::page::page_size;
use super::{Engine, EngineError, request};
use crate::approvals::NotDecided;
use crate::settings::ApprovalRule;

impl Engine {
    /// Refuses variables for a session whose executions need approval: what reads them as a kernel
    /// starts, such as PYTHONPATH, runs code that nobody was asked for.
    pub(super) fn check_start_env(
        &self,
        tenant: &str,
        own: ApprovalSpec,
        env: &BTreeMap<String, String>,
    ) -> Result<(), EngineError> {
        let rule = self.inner.host.approvals.rule(tenant).executions;
        if rule.max(own.executions.unwrap_or_default()) == ApprovalRule::Allow || env.is_empty() {
            return Ok(());
        }
        let reason = "executions need approval, and a session's variables could run code as its \
                      kernel starts: give them with each execution";
        Err(EngineError::invalid("env", reason))
    }

    /// Refuses an execution where nothing may run, and one that asks for a wider rule than its tenant's
    /// and its session's.
    pub(super) fn check_rule(
        &self,
        tenant: &str,
        of_session: ApprovalSpec,
        asked: Option<ApprovalRule>,
    ) -> Result<(), EngineError> {
        let rule = self.inner.host.approvals.rule(tenant).executions;
        let rule = rule.max(of_session.executions.unwrap_or_default());
        if rule == ApprovalRule::Deny || asked == Some(ApprovalRule::Deny) {
            return Err(EngineError::ExecutionsDenied);
        }
        request::tightened("approval.executions", rule, asked)
    }

    /// Calls of this tenant, or of all, oldest first.
    pub fn approvals(
        &self,
        tenant: Option<&str>,
        query: &ApprovalQuery,
    ) -> Result<ApprovalPage, EngineError> {
        page_size(&Page { limit: query.limit, after: None })?;
        let found = self.inner.host.approvals.list(tenant, query);
        let (approvals, more) = found.ok_or_else(|| {
            let after = query.after.as_deref().unwrap_or_default();
            EngineError::invalid("after", format!("give the `next` of a list: {after:?} is none"))
        })?;
        let next = if more { approvals.last().map(|last| last.id.clone()) } else { None };
        Ok(ApprovalPage { approvals, next })
    }

    /// A call of this tenant, or of any.
    pub fn approval(&self, tenant: Option<&str>, id: &str) -> Result<ApprovalInfo, EngineError> {
        let found = self.inner.host.approvals.get(tenant, id);
        found.ok_or_else(|| EngineError::UnknownApproval(id.to_owned()))
    }

    /// Allows or denies a call of this tenant, or of any. `by` is who does, for the audit log.
    pub fn decide(
        &self,
        tenant: Option<&str>,
        id: &str,
        by: &str,
        request: DecideRequest,
    ) -> Result<ApprovalInfo, EngineError> {
        if let Some(reason) = &request.reason
            && reason.chars().count() > MAX_REASON_CHARS
        {
            let why = format!("at most {MAX_REASON_CHARS} characters");
            return Err(EngineError::invalid("reason", why));
        }
        self.inner.host.approvals.decide(tenant, id, by, request).map_err(|error| match error {
            NotDecided::Unknown => EngineError::UnknownApproval(id.to_owned()),
            NotDecided::Over(state) => EngineError::ApprovalEnded(state),
            NotDecided::RemembersMore(most) => {
                let most: &str = most.into();
                let why =
                    format!("at most {most:?}, as the tenant's rule says (approval.remember)");
                EngineError::invalid("remember", why)
            }
        })
    }
}
