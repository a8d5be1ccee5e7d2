//! Kernels: how they started, and why they were replaced.

use super::Family;
use crate::MetricsError;
use crate::handles::Counter;
use crate::register::Register;

#[derive(Debug)]
pub struct Kernels {
    starts: Counter<2>,
    restarts: Counter<2>,
}

impl Family for Kernels {
    const TITLE: &'static str = "Kernels";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let starts = register.counter(
            "vivarium_kernel_starts_total",
            &["tenant", "origin"],
            "Kernels that became ready in a tenant's sessions, by `origin`: `forked` from a \
             template, or `executed`, which takes longer.",
        )?;
        let restarts = register.counter(
            "vivarium_kernel_restarts_total",
            &["tenant", "cause"],
            "Kernels that were replaced in a session that went on, by why they ended (the causes \
             of executions; `reset` where a client asked for it).",
        )?;
        Ok(Self { starts, restarts })
    }

    fn introduce(&self, tenant: &str) {
        for origin in ["forked", "executed"] {
            self.starts.begin([tenant, origin]);
        }
        self.restarts.begin([tenant, "reset"]);
    }
}

impl Kernels {
    pub fn started(&self, tenant: &str, origin: &'static str) {
        self.starts.add_one([tenant, origin]);
    }

    /// A kernel has ended for this cause, and another replaces it.
    pub fn restarted(&self, tenant: &str, cause: &'static str) {
        self.restarts.add_one([tenant, cause]);
    }
}
