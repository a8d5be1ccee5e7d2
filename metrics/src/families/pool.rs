//! Pools of ready sessions: their size, hits and refills.

use std::time::Duration;

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Durations, Gauge};
use crate::register::Register;

const MEMORY_PRESSURE: &str = "memory_pressure";

#[derive(Debug)]
pub struct Pool {
    ready: Gauge<1>,
    takes: Counter<2>,
    refills: Counter<2>,
    refill: Durations<1>,
    given_up: Counter<1>,
    paused: Gauge<1>,
}

impl Family for Pool {
    const TITLE: &'static str = "Pools";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            ready: register.gauge(
                "vivarium_pool_sessions",
                &["environment"],
                "Ready sessions in the pools of all tenants.",
            )?,
            takes: register.counter(
                "vivarium_pool_takes_total",
                &["environment", "outcome"],
                "Sessions created where there is a pool, by `outcome`: `hit` (one was ready), \
                 `miss` (none was, or the request asked for another kind).",
            )?,
            refills: register.counter(
                "vivarium_pool_refills_total",
                &["environment", "outcome"],
                "Sessions started for a pool, by `outcome`: `ok`, `failed`.",
            )?,
            refill: register.durations(
                "vivarium_pool_refill_seconds",
                &["environment"],
                "Time from the start of a session for a pool until its kernel is ready.",
            )?,
            given_up: register.counter(
                "vivarium_pool_given_up_total",
                &["environment"],
                "Ready sessions that pools ended because the host was short of memory.",
            )?,
            paused: register.gauge(
                "vivarium_pool_paused",
                &["reason"],
                "1 while pools lack sessions and start none, because the host is short of memory \
                 (`memory_pressure`), else 0.",
            )?,
        })
    }
}

impl Pool {
    /// Shows the counters of an environment's pool as 0.
    pub fn introduced(&self, environment: &str) {
        for outcome in ["hit", "miss"] {
            self.takes.begin([environment, outcome]);
        }
        for outcome in ["ok", "failed"] {
            self.refills.begin([environment, outcome]);
        }
        self.given_up.begin([environment]);
    }

    /// Scrape: how many are ready.
    pub fn has_ready(&self, environment: &str, sessions: u64) {
        self.ready.set_count([environment], sessions);
    }

    /// Scrape: whether no sessions are started for lack of memory.
    pub fn is_paused(&self, paused: bool) {
        self.paused.set([MEMORY_PRESSURE], if paused { 1.0 } else { 0.0 });
    }

    /// A session was made in an environment with a pool, from it if one `was_ready`.
    pub fn taken(&self, environment: &str, was_ready: bool) {
        self.takes.add_one([environment, if was_ready { "hit" } else { "miss" }]);
    }

    /// A session for the pool has started, in this time.
    pub fn refilled(&self, environment: &str, duration: Duration) {
        self.refills.add_one([environment, "ok"]);
        self.refill.observe([environment], duration);
    }

    /// A ready session was ended for lack of memory.
    pub fn gave_up(&self, environment: &str) {
        self.given_up.add_one([environment]);
    }

    /// A session for the pool could not be started.
    pub fn not_refilled(&self, environment: &str) {
        self.refills.add_one([environment, "failed"]);
    }
}
