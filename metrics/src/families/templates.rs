//! Templates: their state, and how often they were built.

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Gauge};
use crate::register::Register;

/// The states of a template.
const STATES: [&str; 4] = ["off", "building", "ready", "unavailable"];

#[derive(Debug)]
pub struct Templates {
    state: Gauge<2>,
    builds: Counter<2>,
}

impl Family for Templates {
    const TITLE: &'static str = "Templates";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            state: register.gauge(
                "vivarium_template_state",
                &["environment", "state"],
                "1 for the state of the environment's template, 0 for the others: `off`, \
                 `building`, `ready`, `unavailable` (kernels are executed, which takes longer; the \
                 log says why).",
            )?,
            builds: register.counter(
                "vivarium_template_builds_total",
                &["environment", "outcome"],
                "Templates built, by `outcome`: `ok`, `failed`. More than one `ok` without a \
                 reload means that a template was lost and rebuilt.",
            )?,
        })
    }
}

impl Templates {
    /// Scrape: its state.
    pub fn is_in_state(&self, environment: &str, state: &'static str) {
        for other in STATES {
            self.state.set([environment, other], if other == state { 1.0 } else { 0.0 });
        }
    }

    /// Shows the counters of an environment's template as 0.
    pub fn introduced(&self, environment: &str) {
        for outcome in ["ok", "failed"] {
            self.builds.begin([environment, outcome]);
        }
    }

    /// A template was built, or could not be.
    pub fn built(&self, environment: &str, worked: bool) {
        self.builds.add_one([environment, if worked { "ok" } else { "failed" }]);
    }
}
