//! The sandbox: its mode, and how much of each layer holds.

use super::Family;
use crate::MetricsError;
use crate::handles::Gauge;
use crate::register::Register;

/// The statuses of a layer.
const STATUSES: [&str; 4] = ["enforced", "partial", "unavailable", "off"];

/// The sandbox modes.
const MODES: [&str; 3] = ["auto", "on", "off"];

#[derive(Debug)]
pub struct Layers {
    status: Gauge<3>,
    mode: Gauge<1>,
}

impl Family for Layers {
    const TITLE: &'static str = "Sandbox";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            status: register.gauge(
                "vivarium_layer_status",
                &["environment", "layer", "status"],
                "1 for the layer's status as a trial session read it back from inside, 0 for the \
                 others: `enforced`, `partial`, `unavailable`, `off`.",
            )?,
            mode: register.gauge(
                "vivarium_sandbox_mode",
                &["mode"],
                "1 for the sandbox's mode, 0 for the others: `auto`, `on`, `off`.",
            )?,
        })
    }
}

impl Layers {
    /// Scrape: a layer's status.
    pub fn has_status(&self, environment: &str, layer: &'static str, status: &'static str) {
        for other in STATUSES {
            let value = if other == status { 1.0 } else { 0.0 };
            self.status.set([environment, layer, other], value);
        }
    }

    pub fn in_mode(&self, mode: &'static str) {
        for other in MODES {
            self.mode.set([other], if other == mode { 1.0 } else { 0.0 });
        }
    }
}
