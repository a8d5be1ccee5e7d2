//! Kernels that were replaced.

use super::Family;
use crate::MetricsError;
use crate::handles::Counter;
use crate::register::Register;

/// See the module.
#[derive(Debug)]
pub struct Kernels {
    restarts: Counter<2>,
}

impl Family for Kernels {
    const TITLE: &'static str = "Kernels";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let restarts = register.counter(
            "vivarium_kernel_restarts_total",
            &["tenant", "cause"],
            "Kernels that ended while their session went on with a fresh one, by why they ended \
             (the causes of executions; `reset` where a client asked for it).",
        )?;
        Ok(Self { restarts })
    }

    fn introduce(&self, tenant: &str) {
        self.restarts.begin([tenant, "reset"]);
    }
}

impl Kernels {
    /// One has ended, for this cause, and another takes its place.
    pub fn restarted(&self, tenant: &str, cause: &'static str) {
        self.restarts.add_one([tenant, cause]);
    }
}
