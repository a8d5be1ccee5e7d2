//! How long a tenant's processes waited for resources (`Documentation/accounting/psi.rst`).

use std::time::Duration;

use super::Family;
use crate::MetricsError;
use crate::handles::Total;
use crate::register::Register;

#[derive(Debug)]
pub struct Pressure {
    stalled: Total<3>,
}

impl Family for Pressure {
    const TITLE: &'static str = "Pressure";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let stalled = register.total(
            "vivarium_tenant_pressure_seconds_total",
            &["tenant", "resource", "share"],
            "Time in which some or all (`share`: `some`, `full`) of the tenant's processes waited \
             for `cpu`, `memory` or `io`. Its rate is the share of time lost.",
        )?;
        Ok(Self { stalled })
    }
}

impl Pressure {
    /// Scrape: time lost so far.
    pub fn stalled(
        &self,
        tenant: &str,
        resource: &'static str,
        share: &'static str,
        time: Duration,
    ) {
        self.stalled.set([tenant, resource, share], time.as_secs_f64());
    }
}
