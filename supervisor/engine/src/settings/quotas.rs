//! What a tenant may do, and how often.

use std::time::Duration;

use vivarium_protocol::units::Limit;

/// So many at once, which come back evenly in this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// 1 or more.
    pub count: u64,
    /// A millisecond or more.
    pub per: Duration,
}

/// A tenant's quotas. A rate that is `None` has no end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    /// New sessions.
    pub session_rate: Option<Rate>,
    pub execution_rate: Option<Rate>,
    /// Bytes of the bodies of requests and responses.
    pub transfer_rate: Option<Rate>,
    /// Executions that run or wait, commands in the background included.
    pub max_executions: Limit,
    /// Executions that wait for others of their session.
    pub max_queued: Limit,
    /// MiB of results that are kept.
    pub max_results_mb: u64,
}

/// MiB of results that a tenant keeps unless the configuration says otherwise.
pub const DEFAULT_RESULTS_MB: u32 = 64;

impl Default for Quotas {
    fn default() -> Self {
        Self {
            session_rate: None,
            execution_rate: None,
            transfer_rate: None,
            max_executions: Limit::Unlimited,
            max_queued: Limit::Unlimited,
            max_results_mb: DEFAULT_RESULTS_MB.into(),
        }
    }
}
