//! The resources charged to a tenant's cgroup: all its sessions together, agents included.

use std::time::Duration;

use super::Family;
use crate::MetricsError;
use crate::handles::{Gauge, Total};
use crate::register::Register;

#[derive(Debug)]
pub struct Tenants {
    cpu: Total<1>,
    memory: Gauge<1>,
    processes: Gauge<1>,
}

impl Family for Tenants {
    const TITLE: &'static str = "Tenants";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            cpu: register.total(
                "vivarium_tenant_cpu_seconds_total",
                &["tenant"],
                "CPU time of the tenant's processes (`cpu.stat`).",
            )?,
            memory: register.gauge(
                "vivarium_tenant_memory_bytes",
                &["tenant"],
                "Memory charged to the tenant now (`memory.current`).",
            )?,
            processes: register.gauge(
                "vivarium_tenant_processes",
                &["tenant"],
                "Processes and threads of the tenant now (`pids.current`).",
            )?,
        })
    }
}

impl Tenants {
    /// Scrape: CPU time so far.
    pub fn used_cpu(&self, tenant: &str, time: Duration) {
        self.cpu.set([tenant], time.as_secs_f64());
    }

    pub fn uses_memory(&self, tenant: &str, bytes: u64) {
        self.memory.set_count([tenant], bytes);
    }

    pub fn has_processes(&self, tenant: &str, count: u64) {
        self.processes.set_count([tenant], count);
    }
}
