//! What is counted and audited of calls that need approval.

use vivarium_api_types::Remember;
use vivarium_audit::{ApprovalAsked, ApprovalEnded, Event};
use vivarium_metrics::families::approvals::Subject as Counted;

use super::Approvals;
use super::kept::Entry;
use super::question::{Question, Subject};

fn counted(question: &Question) -> Counted {
    match &question.subject {
        Subject::Execution(_) => Counted::Execution,
        Subject::Egress(_) => Counted::Egress,
    }
}

fn asked(question: &Question, approval: &str) -> ApprovalAsked {
    let Question { tenant, session, subject, .. } = question;
    let mut asked = ApprovalAsked {
        tenant: tenant.clone(),
        session: session.clone(),
        approval: approval.to_owned(),
        subject: counted(question).name().into(),
        execution: None,
        code_sha256: None,
        host: None,
        port: None,
    };
    match subject {
        Subject::Execution(execution) => {
            asked.execution = Some(execution.number);
            asked.code_sha256 = Some(execution.shown.code_sha256.clone());
        }
        Subject::Egress(egress) => {
            (asked.host, asked.port) = (Some(egress.host.clone()), Some(egress.port));
        }
    }
    asked
}

impl Approvals {
    /// A call begins to wait.
    pub(super) fn asked(&self, entry: &Entry) {
        let (tenant, approval) = (entry.tenant(), entry.id.as_str());
        tracing::info!(tenant, session = entry.question.session, approval, "approval asked for");
        self.audit.record(|| Event::ApprovalAsked(Box::new(asked(&entry.question, &entry.id))));
    }

    /// A call waits no more.
    pub(super) fn ended(&self, entry: &Entry) {
        let state: &'static str = entry.state.into();
        let (tenant, approval, by) = (entry.tenant(), entry.id.as_str(), entry.by.as_deref());
        tracing::info!(tenant, approval, state, by, "approval ended");
        self.metrics.approvals.ended(tenant, counted(&entry.question), state);
        self.record_end(
            &entry.question,
            state,
            approval,
            by,
            entry.reason.as_deref(),
            entry.remember,
        );
    }

    /// An earlier approval allows this.
    pub(super) fn remembered(&self, question: &Question, approval: String) {
        self.metrics.approvals.ended(&question.tenant, counted(question), "remembered");
        self.record_end(question, "remembered", &approval, None, None, Remember::Nothing);
    }

    fn record_end(
        &self,
        question: &Question,
        outcome: &'static str,
        approval: &str,
        by: Option<&str>,
        reason: Option<&str>,
        remember: Remember,
    ) {
        self.audit.record(|| {
            Event::ApprovalEnded(Box::new(ApprovalEnded {
                asked: asked(question, approval),
                outcome,
                by: by.map(str::to_owned),
                reason: reason.map(str::to_owned),
                remember: remember.into(),
            }))
        });
    }
}
