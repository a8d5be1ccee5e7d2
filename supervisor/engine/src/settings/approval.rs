//! `[approval]` and `[tenant.approval]`: what somebody has to allow first.

use std::time::Duration;

pub use vivarium_api_types::ApprovalRule;
use vivarium_api_types::Remember;
use vivarium_egress::Network;

use super::{SecretSource, Settings};

/// `[approval]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Of code, commands and runs.
    pub executions: ApprovalRule,
    /// Of destinations of network `trusted` that are on no list.
    pub egress: ApprovalRule,
    /// How long a call waits at most; then it is denied.
    pub timeout: Duration,
    /// What is remembered of an approval at most.
    pub remember: Remember,
    /// How long, with [`Remember::Tenant`].
    pub remember_for: Duration,
    /// Calls of a tenant that wait at one time.
    pub max_waiting: u64,
    pub webhook: Webhook,
}

/// A web service that is told of calls that wait, and may decide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Webhook {
    /// `http` or `https`; nobody is told if there is none.
    pub url: Option<String>,
    /// Signs the requests.
    pub secret: Option<SecretSource>,
    /// Whether it gets code and commands, and not their hashes alone.
    pub sends_code: bool,
    /// Networks in which it may be although their class is refused.
    pub allow_addresses: Vec<Network>,
}

impl Default for Approval {
    fn default() -> Self {
        Self {
            executions: ApprovalRule::Allow,
            egress: ApprovalRule::Deny,
            timeout: Duration::from_mins(5),
            remember: Remember::Nothing,
            remember_for: Duration::from_hours(24),
            max_waiting: 50,
            webhook: Webhook::default(),
        }
    }
}

impl Settings {
    /// What holds for a tenant's calls.
    pub fn approval_of(&self, tenant: &str) -> Approval {
        self.of_tenant(tenant).map_or_else(|| self.approval.clone(), |own| own.approval)
    }
}
