//! What was found, and what is promised.

use serde::Serialize;

use super::machine::Machine;
use super::samples::{Rate, Summary};

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// Times, in milliseconds.
    pub times_ms: Vec<Summary>,
    /// Rates, in bytes per second.
    pub rates_bytes_per_s: Vec<Rate>,
    /// Sizes, in bytes.
    pub sizes_bytes: Vec<Size>,
    /// What is promised, and what was found.
    pub bars: Vec<Bar>,
}

/// What one scenario found.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Times.
    pub times: Vec<Summary>,
    /// Rates.
    pub rates: Vec<Rate>,
    /// Sizes.
    pub sizes: Vec<Size>,
    /// What is promised of them.
    pub bars: Vec<Bar>,
}

impl Report {
    /// A report of this machine with nothing in it yet.
    pub(super) const fn new(machine: Machine) -> Self {
        Self {
            machine,
            times_ms: Vec::new(),
            rates_bytes_per_s: Vec::new(),
            sizes_bytes: Vec::new(),
            bars: Vec::new(),
        }
    }

    /// Adds what a scenario found.
    pub(super) fn add(&mut self, findings: Findings) {
        let Findings { times, rates, sizes, bars } = findings;
        self.times_ms.extend(times);
        self.rates_bytes_per_s.extend(rates);
        self.sizes_bytes.extend(sizes);
        self.bars.extend(bars);
    }
}

/// One size.
#[derive(Debug, Clone, Serialize)]
pub struct Size {
    /// Of what.
    pub name: String,
    /// How large, in bytes.
    pub bytes: u64,
}

impl Size {
    pub(super) fn new(name: impl Into<String>, bytes: u64) -> Self {
        Self { name: name.into(), bytes }
    }

    #[allow(clippy::cast_precision_loss)] // sizes far below 2^53
    pub(super) fn mib(&self) -> f64 {
        self.bytes as f64 / (1024.0 * 1024.0)
    }
}

/// On which side of its limit a figure has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Not above.
    AtMost,
    /// Not below.
    AtLeast,
}

/// One promise.
#[derive(Debug, Clone, Serialize)]
pub struct Bar {
    /// What is promised.
    pub name: String,
    /// What was found.
    pub found: f64,
    /// On which side of the limit it has to be.
    pub bound: Bound,
    /// The limit.
    pub limit: f64,
    /// Of both.
    pub unit: &'static str,
    /// Whether it holds.
    pub met: bool,
}

impl Bar {
    pub(super) fn at_most(
        name: impl Into<String>,
        found: f64,
        limit: f64,
        unit: &'static str,
    ) -> Self {
        Self { name: name.into(), found, bound: Bound::AtMost, limit, unit, met: found <= limit }
    }

    pub(super) fn at_least(
        name: impl Into<String>,
        found: f64,
        limit: f64,
        unit: &'static str,
    ) -> Self {
        Self { name: name.into(), found, bound: Bound::AtLeast, limit, unit, met: found >= limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_itself_is_within_its_bar() {
        for (found, most, least) in [(1.0, true, false), (2.0, true, true), (3.0, false, true)] {
            assert_eq!(Bar::at_most("x", found, 2.0, "ms").met, most);
            assert_eq!(Bar::at_least("x", found, 2.0, "MB/s").met, least);
        }
        // What could not be measured holds nothing.
        assert!(!Bar::at_most("x", f64::NAN, 2.0, "ms").met);
        assert!(!Bar::at_least("x", f64::NAN, 2.0, "MB/s").met);
    }

    #[test]
    fn a_bar_says_in_json_on_which_side_it_is() {
        let json = serde_json::json!(Bar::at_least("x", 2.5, 2.0, "MB/s"));
        let expected = serde_json::json!({"name": "x", "found": 2.5, "bound": "at_least",
            "limit": 2.0, "unit": "MB/s", "met": true});
        assert_eq!(json, expected);
    }
}
