//! Sessions: their number, starts and ends.

use std::time::Duration;

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Durations, Gauge};
use crate::register::Register;

#[derive(Debug)]
pub struct Sessions {
    now: Gauge<2>,
    limit: Gauge<0>,
    start: Durations<1>,
    failures: Counter<2>,
    ended: Counter<2>,
    reaped: Counter<1>,
}

impl Family for Sessions {
    const TITLE: &'static str = "Sessions";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            now: register.gauge(
                "vivarium_sessions",
                &["tenant", "state"],
                "Sessions that exist now, by state: `starting`, `idle`, `running`, \
                 `interrupting`, `replacing`, `closed` (ending).",
            )?,
            limit: register.gauge(
                "vivarium_sessions_limit",
                &[],
                "The most sessions at one time (`session.max_sessions`); absent if unlimited.",
            )?,
            start: register.durations(
                "vivarium_session_start_seconds",
                &["tenant"],
                "Time from a session's creation until its first kernel is ready.",
            )?,
            failures: register.counter(
                "vivarium_session_start_failures_total",
                &["tenant", "layer"],
                "Sessions that could not start, by the layer that failed, or `none`.",
            )?,
            ended: register.counter(
                "vivarium_sessions_ended_total",
                &["tenant", "cause"],
                "Sessions that started and ended, by cause: `deleted`, `expired` (idle, or past \
                 the deadline), `draining`, or what went wrong (`protocol`, `agent`, `kernel_start`).",
            )?,
            reaped: register.counter(
                "vivarium_sessions_reaped_total",
                &["tenant"],
                "Sessions deleted because they were idle for too long or reached their maximum \
                 lifetime.",
            )?,
        })
    }

    fn introduce(&self, tenant: &str) {
        self.failures.begin([tenant, "none"]);
        self.ended.begin([tenant, "deleted"]);
        self.reaped.begin([tenant]);
    }
}

impl Sessions {
    /// Scrape: how many are in this state.
    pub fn in_state(&self, tenant: &str, state: &'static str, sessions: u64) {
        self.now.set_count([tenant, state], sessions);
    }

    /// Scrape: the maximum of sessions.
    pub fn may_be(&self, sessions: u64) {
        self.limit.set_count([], sessions);
    }

    /// A session has started, in this time.
    pub fn started(&self, tenant: &str, duration: Duration) {
        self.start.observe([tenant], duration);
    }

    /// A session could not be started.
    pub fn failed_to_start(&self, tenant: &str, layer: &'static str) {
        self.failures.add_one([tenant, layer]);
    }

    /// A session that had started is over.
    pub fn ended(&self, tenant: &str, cause: &'static str) {
        self.ended.add_one([tenant, cause]);
    }

    pub fn reaped(&self, tenant: &str) {
        self.reaped.add_one([tenant]);
    }
}
