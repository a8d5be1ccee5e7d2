//! Homes and volumes of tenants.

use super::Family;
use crate::MetricsError;
use crate::handles::Gauge;
use crate::register::Register;

#[derive(Debug)]
pub struct Homes {
    count: Gauge<2>,
    bytes: Gauge<1>,
}

impl Family for Homes {
    const TITLE: &'static str = "Homes and volumes";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            count: register.gauge(
                "vivarium_stores",
                &["tenant", "kind"],
                "The tenant's homes and volumes, by `kind`: `home`, `volume`. Absent for a tenant that \
                 has none.",
            )?,
            bytes: register.gauge(
                "vivarium_stores_bytes",
                &["tenant"],
                "What they take of the disk together, as last measured: what `max_homes_mb` bounds.",
            )?,
        })
    }
}

impl Homes {
    /// Scrape: what a tenant that has any has.
    pub fn of_tenant(&self, tenant: &str, homes: u64, volumes: u64, bytes: u64) {
        self.count.set_count([tenant, "home"], homes);
        self.count.set_count([tenant, "volume"], volumes);
        self.bytes.set_count([tenant], bytes);
    }
}
