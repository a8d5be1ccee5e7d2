//! Environments that are built.

use super::Family;
use crate::MetricsError;
use crate::handles::{Counter, Gauge};
use crate::register::Register;

#[derive(Debug)]
pub struct Environments {
    builds: Counter<1>,
    artefacts: Gauge<0>,
    bytes: Gauge<0>,
    runtime: Gauge<2>,
}

const fn outcome(is_ok: bool) -> &'static str {
    if is_ok { "succeeded" } else { "failed" }
}

impl Family for Environments {
    const TITLE: &'static str = "Environments";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let family = Self {
            builds: register.counter(
                "vivarium_environment_builds_total",
                &["outcome"],
                "Builds of environments that ended, by `outcome`: `succeeded`, `failed`.",
            )?,
            artefacts: register.gauge(
                "vivarium_environment_artefacts",
                &[],
                "Built environments on the disk, those that only sessions still have included.",
            )?,
            bytes: register.gauge(
                "vivarium_environment_bytes",
                &[],
                "Size of the files of all built environments.",
            )?,
            runtime: register.gauge(
                "vivarium_environment_runtime",
                &["environment", "runtime"],
                "1 for the runtime of each configured environment: `cpython`, `wasm`.",
            )?,
        };
        for is_ok in [true, false] {
            family.builds.begin([outcome(is_ok)]);
        }
        Ok(family)
    }
}

impl Environments {
    /// Scrape: the runtime of a configured environment, which does not change while the daemon lives.
    pub fn has_runtime(&self, environment: &str, runtime: &'static str) {
        self.runtime.set([environment, runtime], 1.0);
    }

    pub fn built(&self, is_ok: bool) {
        self.builds.add_one([outcome(is_ok)]);
    }

    /// Scrape: what there is.
    pub fn are(&self, artefacts: u64, bytes: u64) {
        self.artefacts.set_count([], artefacts);
        self.bytes.set_count([], bytes);
    }
}
