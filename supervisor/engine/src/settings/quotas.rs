//! What a tenant may do, and how often.

pub use vivarium_egress::Rate;
use vivarium_protocol::units::Limit;

/// A tenant's quotas. A rate that is `None` has no end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    /// New sessions.
    pub session_rate: Option<Rate>,
    pub execution_rate: Option<Rate>,
    /// Bytes of the bodies of requests and responses.
    pub transfer_rate: Option<Rate>,
    /// Bytes through the egress gate, both ways.
    pub egress_rate: Option<Rate>,
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
            egress_rate: None,
            max_executions: Limit::Unlimited,
            max_queued: Limit::Unlimited,
            max_results_mb: DEFAULT_RESULTS_MB.into(),
        }
    }
}
