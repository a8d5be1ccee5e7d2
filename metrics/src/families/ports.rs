//! Connections to servers that run in sessions.

use super::Family;
use crate::MetricsError;
use crate::handles::Counter;
use crate::register::Register;

/// What became of a connection to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortResult {
    Connected,
    /// Nothing listens there.
    Closed,
    TimedOut,
    /// The session's maximum is reached.
    TooMany,
    /// The session ended, or the agent did not do as it should.
    Failed,
}

impl PortResult {
    const ALL: [Self; 5] =
        [Self::Connected, Self::Closed, Self::TimedOut, Self::TooMany, Self::Failed];

    const fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Closed => "closed",
            Self::TimedOut => "timed_out",
            Self::TooMany => "too_many",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug)]
pub struct Ports {
    connections: Counter<2>,
}

impl Family for Ports {
    const TITLE: &'static str = "Ports of sessions";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let connections = register.counter(
            "vivarium_port_connections_total",
            &["tenant", "outcome"],
            "Connections to ports of sessions, one for each proxied request: `connected`, `closed` \
             (nothing listens), `timed_out`, `too_many` (the session's maximum is reached), `failed`.",
        )?;
        Ok(Self { connections })
    }

    fn introduce(&self, tenant: &str) {
        for result in PortResult::ALL {
            self.connections.begin([tenant, result.name()]);
        }
    }
}

impl Ports {
    pub fn connected(&self, tenant: &str, result: PortResult) {
        self.connections.add_one([tenant, result.name()]);
    }
}
