//! What is said about a metric, to Prometheus and to readers of docs/metrics.md.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// Title of its family.
    pub family: &'static str,
    pub name: &'static str,
    /// What it is to Prometheus.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it says, in one sentence.
    pub help: &'static str,
}

/// What a metric is to Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows, until the daemon is restarted.
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

/// What a metric is measured in: a base unit, or nothing for what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A number of things.
    None,
}

impl Declaration {
    /// Its unit, which its name tells (Prometheus, "Metric and label naming").
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
