//! What sessions of network `trusted` do outside, and the gate through which they do it.

use super::Family;
use crate::MetricsError;
use crate::handles::Counter;
use crate::register::Register;

/// Where bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the session.
    In,
    /// To the destination.
    Out,
}

impl Direction {
    const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

#[derive(Debug)]
pub struct Egress {
    decisions: Counter<2>,
    bytes: Counter<2>,
    gate_losses: Counter<0>,
}

impl Family for Egress {
    const TITLE: &'static str = "Egress";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let own = Self {
            decisions: register.counter(
                "vivarium_egress_decisions_total",
                &["tenant", "outcome"],
                "Connections that sessions asked the egress gate for, by what it decided: `allowed`, \
                 or why not (docs/network.md).",
            )?,
            bytes: register.counter(
                "vivarium_egress_bytes_total",
                &["tenant", "direction"],
                "Bytes through the egress gate, counted when a connection ends: `in` to sessions, \
                 `out` to destinations.",
            )?,
            gate_losses: register.counter(
                "vivarium_egress_gate_losses_total",
                &[],
                "Times the egress gate ended or fell silent. Connections through it broke.",
            )?,
        };
        own.gate_losses.begin([]);
        Ok(own)
    }

    fn introduce(&self, tenant: &str) {
        for outcome in ["allowed", "not_listed"] {
            self.decisions.begin([tenant, outcome]);
        }
        for direction in [Direction::In, Direction::Out] {
            self.bytes.begin([tenant, direction.name()]);
        }
    }
}

impl Egress {
    pub fn decided(&self, tenant: &str, outcome: &'static str) {
        self.decisions.add_one([tenant, outcome]);
    }

    pub fn transferred(&self, tenant: &str, direction: Direction, bytes: u64) {
        self.bytes.add([tenant, direction.name()], bytes);
    }

    pub fn lost_gate(&self) {
        self.gate_losses.add_one([]);
    }
}
