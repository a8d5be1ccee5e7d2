//! Calls that wait until somebody allows or denies them.

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Gauge};
use crate::register::Register;

/// What is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Execution,
    Egress,
}

impl Subject {
    pub const ALL: [Self; 2] = [Self::Execution, Self::Egress];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execution => "execution",
            Self::Egress => "egress",
        }
    }
}

/// What became of a request to the webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookResult {
    Decided,
    Accepted,
    Failed,
}

impl WebhookResult {
    const ALL: [Self; 3] = [Self::Decided, Self::Accepted, Self::Failed];

    const fn name(self) -> &'static str {
        match self {
            Self::Decided => "decided",
            Self::Accepted => "accepted",
            Self::Failed => "failed",
        }
    }
}

/// What became of it, as `state` in the API; `remembered` was not asked.
const OUTCOMES: [&str; 5] = ["allowed", "denied", "timed_out", "withdrawn", "remembered"];

#[derive(Debug)]
pub struct Approvals {
    ended: Counter<3>,
    pending: Gauge<1>,
    webhook: Counter<1>,
}

impl Family for Approvals {
    const TITLE: &'static str = "Approvals";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let own = Self {
            ended: register.counter(
                "vivarium_approvals_total",
                &["tenant", "subject", "outcome"],
                "Calls that needed approval, by `subject` (`execution`, `egress`) and what became of \
                 them: `allowed`, `denied`, `timed_out` (which denies), `withdrawn`, or \
                 `remembered` (allowed by an earlier approval).",
            )?,
            pending: register.gauge(
                "vivarium_approvals_pending",
                &["tenant"],
                "Calls that wait for approval now: what `approval.max_waiting` bounds.",
            )?,
            webhook: register.counter(
                "vivarium_approval_webhook_requests_total",
                &["outcome"],
                "Requests to `approval.webhook_url`: `decided` (the answer decides), `accepted` (it leaves \
                 the call to the queue) or `failed`, which is tried again.",
            )?,
        };
        for result in WebhookResult::ALL {
            own.webhook.begin([result.name()]);
        }
        Ok(own)
    }

    fn introduce(&self, tenant: &str) {
        for subject in Subject::ALL {
            for outcome in OUTCOMES {
                self.ended.begin([tenant, subject.name(), outcome]);
            }
        }
    }
}

impl Approvals {
    pub fn ended(&self, tenant: &str, subject: Subject, outcome: &'static str) {
        self.ended.add_one([tenant, subject.name(), outcome]);
    }

    pub fn called_webhook(&self, result: WebhookResult) {
        self.webhook.add_one([result.name()]);
    }

    /// Scrape: calls that wait.
    pub fn pending(&self, tenant: &str, calls: u64) {
        self.pending.set_count([tenant], calls);
    }
}
