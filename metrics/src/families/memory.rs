//! Memory for sessions: how much is left, the estimate for one more, whether one is refused.

use super::Family;
use crate::MetricsError;
use crate::handles::Gauge;
use crate::register::Register;

#[derive(Debug)]
pub struct Memory {
    available: Gauge<0>,
    estimate: Gauge<1>,
    pressure: Gauge<0>,
    refused: Gauge<1>,
}

impl Family for Memory {
    const TITLE: &'static str = "Memory for sessions";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            available: register.gauge(
                "vivarium_memory_available_bytes",
                &[],
                "Memory that sessions may still take: what is free on the host, or below the \
                 limit of the daemon's own cgroup, less `session.memory_reserve_mb`.",
            )?,
            estimate: register.gauge(
                "vivarium_session_estimate_bytes",
                &["environment"],
                "Memory that one more session of the environment is expected to take, measured on \
                 its latest sessions; shared pages count once.",
            )?,
            pressure: register.gauge(
                "vivarium_memory_pressure_ratio",
                &[],
                "Share of the last 10 s in which some processes of the host waited for memory, \
                 from 0 to 1.",
            )?,
            refused: register.gauge(
                "vivarium_creates_refused",
                &["environment"],
                "1 while another session of the environment would be refused for lack of memory \
                 (`no_capacity`), else 0.",
            )?,
        })
    }
}

impl Memory {
    /// Scrape: how much is left.
    pub fn is_available(&self, bytes: u64) {
        self.available.set_count([], bytes);
    }

    /// Scrape: the estimate for one more session.
    pub fn is_expected_to_take(&self, environment: &str, bytes: u64) {
        self.estimate.set_count([environment], bytes);
    }

    /// Scrape: the share of the time in which processes wait for memory.
    pub fn is_waited_for(&self, ratio: f64) {
        self.pressure.set([], ratio);
    }

    /// Scrape: whether one more is refused.
    pub fn refuses(&self, environment: &str, refuses: bool) {
        self.refused.set([environment], if refuses { 1.0 } else { 0.0 });
    }
}
