//! What was found, and what is promised.

use serde::Serialize;
use vivarium_protocol::error_chain;

use super::BenchError;
use super::machine::Machine;
use super::samples::{Frequency, Rate, Summary};

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// Times, in milliseconds.
    pub times_ms: Vec<Summary>,
    /// Rates, in bytes per second.
    pub rates_bytes_per_s: Vec<Rate>,
    /// How often something was done per second.
    pub frequencies: Vec<Frequency>,
    /// How long executions take the more sessions there are.
    pub growth: Vec<Growth>,
    /// Sizes, in bytes.
    pub sizes_bytes: Vec<Size>,
    /// What is promised, and what was found.
    pub bars: Vec<Bar>,
    /// What has to be known of the figures, such as what was not measured.
    pub notes: Vec<String>,
    /// The scenarios that found nothing, with what they promise, as something did not work.
    pub failures: Vec<Failure>,
}

/// A scenario that could not be measured.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// Which.
    pub scenario: &'static str,
    /// Why not.
    pub reason: String,
}

/// What one scenario found.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Times.
    pub times: Vec<Summary>,
    /// Rates.
    pub rates: Vec<Rate>,
    /// How often something was done per second.
    pub frequencies: Vec<Frequency>,
    /// How long executions take the more sessions there are.
    pub growth: Vec<Growth>,
    /// Sizes.
    pub sizes: Vec<Size>,
    /// What is promised of them.
    pub bars: Vec<Bar>,
    /// What has to be known of them.
    pub notes: Vec<String>,
}

impl Report {
    /// A report of this machine with nothing in it yet.
    pub(super) const fn new(machine: Machine) -> Self {
        Self {
            machine,
            times_ms: Vec::new(),
            rates_bytes_per_s: Vec::new(),
            frequencies: Vec::new(),
            growth: Vec::new(),
            sizes_bytes: Vec::new(),
            bars: Vec::new(),
            notes: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Whether everything was measured, and every bar is met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.failures.is_empty() && self.bars.iter().all(|bar| bar.met)
    }

    /// Takes over what a scenario found, or that it found nothing.
    pub(super) fn take(&mut self, scenario: &'static str, found: Result<Findings, BenchError>) {
        match found {
            Ok(findings) => self.add(findings),
            Err(error) => {
                self.failures.push(Failure { scenario, reason: error_chain(&error) });
            }
        }
    }

    fn add(&mut self, findings: Findings) {
        let Findings { times, rates, frequencies, growth, sizes, bars, notes } = findings;
        for growth in &growth {
            self.times_ms.extend([growth.many.clone(), growth.one.clone()]);
        }
        self.times_ms.extend(times);
        self.rates_bytes_per_s.extend(rates);
        self.frequencies.extend(frequencies);
        self.growth.extend(growth);
        self.sizes_bytes.extend(sizes);
        self.bars.extend(bars);
        self.notes.extend(notes);
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

    pub(super) fn mib(&self) -> f64 {
        self.bytes as f64 / (1024.0 * 1024.0)
    }

    /// In MB of 10^6 bytes.
    pub(super) fn mb(&self) -> f64 {
        self.bytes as f64 / 1e6
    }
}

/// Executions in a session that is one of many, and in one that is the only one of another daemon,
/// in strict turns.
#[derive(Debug, Clone, Serialize)]
pub struct Growth {
    /// How many there are of the many.
    pub sessions: usize,
    /// Among these, in milliseconds.
    pub many: Summary,
    /// Alone, in milliseconds.
    pub one: Summary,
}

impl Growth {
    /// How many times as long it takes.
    pub(super) fn times(&self) -> f64 {
        self.many.p50 / self.one.p50
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
    #![allow(clippy::indexing_slicing)]
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
    fn a_scenario_that_failed_is_not_met() {
        let machine = Machine {
            kernel: String::new(),
            cpus: 1,
            interpreter: String::new(),
            python_version: String::new(),
            layers: String::new(),
        };
        let mut report = Report::new(machine);
        let bars = vec![Bar::at_most("x", 1.0, 2.0, "ms")];
        report.take("one", Ok(Findings { bars, ..Findings::default() }));
        assert!(report.is_met());
        report.take("two", Err(BenchError::Unexpected { what: "a", found: "b".into() }));
        assert!(!report.is_met());
        assert_eq!(report.failures[0].reason, "a gave b");
    }

    #[test]
    fn a_bar_says_in_json_on_which_side_it_is() {
        let json = serde_json::json!(Bar::at_least("x", 2.5, 2.0, "MB/s"));
        let expected = serde_json::json!({"name": "x", "found": 2.5, "bound": "at_least",
            "limit": 2.0, "unit": "MB/s", "met": true});
        assert_eq!(json, expected);
    }
}
