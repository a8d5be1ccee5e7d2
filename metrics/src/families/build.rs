//! The version of this program.

use super::Family;
use crate::MetricsError;
use crate::handles::Gauge;
use crate::register::Register;

#[derive(Debug)]
pub struct Build {
    info: Gauge<1>,
}

impl Family for Build {
    const TITLE: &'static str = "Build";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        let info = register.gauge(
            "vivarium_build_info",
            &["version"],
            "Always 1; the label says which.",
        )?;
        Ok(Self { info })
    }
}

impl Build {
    /// Scrape: the program's version.
    pub fn is_version(&self, version: &'static str) {
        self.info.set([version], 1.0);
    }
}
