//! What is asked: a call, and what makes another the same.

use vivarium_api_types::{ApprovalEgress, ApprovalExecution, ApprovalRule};
use vivarium_audit::Hash;
use vivarium_protocol::message::ExecutionNumber;

use crate::settings::Approval;

/// What happens only if somebody allows it.
#[derive(Debug, Clone)]
pub struct Question {
    pub tenant: String,
    pub session: String,
    /// What holds for it at least, whatever the tenant's rule: its request, or its session's, said so.
    pub at_least: ApprovalRule,
    pub subject: Subject,
}

#[derive(Debug, Clone)]
pub enum Subject {
    Execution(Box<ExecutionQuestion>),
    /// A destination that is on no list.
    Egress(ApprovalEgress),
}

/// An execution, as somebody sees it who decides.
#[derive(Debug, Clone)]
pub struct ExecutionQuestion {
    pub shown: ApprovalExecution,
    /// Of everything in the request that decides what runs. The state of the session is not in it, nor
    /// are files that are there already.
    pub digest: Hash,
    pub number: ExecutionNumber,
}

/// What makes two calls the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Same {
    Execution(Hash),
    Egress(String, u16),
}

/// A call without what is shown of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SameCall {
    pub(super) tenant: String,
    pub(super) session: String,
    pub(super) same: Same,
}

impl Question {
    /// Of a destination that a session wants to reach.
    pub fn of_egress(
        (tenant, session): (&str, &str),
        at_least: ApprovalRule,
        host: String,
        port: u16,
    ) -> Self {
        let subject = Subject::Egress(ApprovalEgress { host, port });
        Self { tenant: tenant.to_owned(), session: session.to_owned(), at_least, subject }
    }

    /// What becomes of it while this is its tenant's rule.
    pub(super) fn rule(&self, approval: &Approval) -> ApprovalRule {
        let rule = match &self.subject {
            Subject::Execution(_) => approval.executions,
            Subject::Egress(_) => approval.egress,
        };
        rule.max(self.at_least)
    }

    pub(super) fn same(&self) -> SameCall {
        let same = match &self.subject {
            Subject::Execution(execution) => Same::Execution(execution.digest),
            Subject::Egress(ApprovalEgress { host, port }) => Same::Egress(host.clone(), *port),
        };
        SameCall { tenant: self.tenant.clone(), session: self.session.clone(), same }
    }
}
