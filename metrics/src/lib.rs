//! The metrics of Vivarium, for Prometheus.
//!
//! One file per family of metrics in [`families`]. A family declares its metrics once, when it is
//! made, and that declaration is also its documentation (docs/metrics.md is generated from it).
//! Callers hold typed handles and never see Prometheus' own types.
//!
//! Counters and histograms are written as events happen. Values that others keep (the kernel, the
//! registry of sessions) are read at each scrape, in [`Metrics::scrape`].
//!
//! A label's values must be bounded: each is a `&'static str` of the program, the name of a tenant or
//! an environment, which operators configure, or the version. Never use a session's id or anything
//! else that a client chooses.

mod declaration;
pub mod families;
mod handles;
mod markdown;
mod register;

use std::sync::{Mutex, PoisonError};

use prometheus::TextEncoder;

pub use declaration::{Declaration, Kind, Unit};
pub use families::Families;
pub use markdown::markdown;

use register::{Register, Reset};

/// The media type of the text format (Prometheus, "Exposition formats").
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// A defect of a declaration: an invalid name, or one that is taken.
    #[error("declare metric {name}")]
    Declare { name: &'static str, source: prometheus::Error },
    #[error("write the metrics as text")]
    Encode(#[source] prometheus::Error),
}

/// All metrics of one daemon.
pub struct Metrics {
    families: Families,
    registry: prometheus::Registry,
    declarations: Vec<Declaration>,
    resets: Vec<Reset>,
    /// Held during a scrape, so that no other sees values that are half set.
    scraping: Mutex<()>,
}

impl Metrics {
    /// New metrics, all at zero.
    ///
    /// # Errors
    /// [`MetricsError::Declare`], which a test of this package excludes.
    pub fn new() -> Result<Self, MetricsError> {
        let mut register = Register::default();
        let families = Families::declare(&mut register)?;
        let Register { registry, declarations, resets, .. } = register;
        Ok(Self { families, registry, declarations, resets, scraping: Mutex::default() })
    }

    /// All metrics as text, after `read` has set those that are read at a scrape. Blocks if `read`
    /// does.
    ///
    /// A metric that `read` does not set is absent: a tenant that is gone, a file the host lacks.
    ///
    /// # Errors
    /// [`MetricsError::Encode`].
    pub fn scrape(&self, read: impl FnOnce(&Families)) -> Result<String, MetricsError> {
        let _alone = self.scraping.lock().unwrap_or_else(PoisonError::into_inner);
        for reset in &self.resets {
            reset();
        }
        read(&self.families);
        TextEncoder::new().encode_to_string(&self.registry.gather()).map_err(MetricsError::Encode)
    }

    #[must_use]
    pub fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }
}

impl std::ops::Deref for Metrics {
    type Target = Families;

    fn deref(&self) -> &Families {
        &self.families
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics")
            .field("declared", &self.declarations.len())
            .finish_non_exhaustive()
    }
}
