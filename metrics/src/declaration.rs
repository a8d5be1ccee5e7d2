//! The declaration of a metric, for Prometheus and for docs/metrics.md.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// The title of its family.
    pub family: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    /// Its meaning, in one sentence.
    pub help: &'static str,
}

/// The type of a metric in Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the daemon restarts.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets.
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// The base unit of a metric, or none for a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    None,
}

impl Declaration {
    /// The unit, from the suffix of the name (Prometheus, "Metric and label naming").
    #[must_use]
    pub fn unit(&self) -> Unit {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        if name.ends_with("_seconds") {
            Unit::Seconds
        } else if name.ends_with("_bytes") {
            Unit::Bytes
        } else {
            Unit::None
        }
    }
}
