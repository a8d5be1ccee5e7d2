//! The results of the scenarios, and the promises (bars) they are held to.

use serde::Serialize;
use vivarium_protocol::error_chain;

use super::BenchError;
use super::machine::Machine;
use super::samples::{Frequency, Rate, Summary};
use super::scenarios::Scenario;

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub machine: Machine,
    pub times_ms: Vec<Summary>,
    pub rates_bytes_per_s: Vec<Rate>,
    pub frequencies: Vec<Frequency>,
    /// How long executions take the more sessions there are.
    pub growth: Vec<Growth>,
    pub sizes_bytes: Vec<Size>,
    pub bars: Vec<Bar>,
    /// Remarks on the figures, such as what was not measured.
    pub notes: Vec<String>,
    /// The scenarios that failed, whose bars are missing.
    pub failures: Vec<Failure>,
}

/// A scenario that could not be measured.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    pub scenario: String,
    pub reason: String,
}

/// The results of one scenario.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    pub times: Vec<Summary>,
    pub rates: Vec<Rate>,
    pub frequencies: Vec<Frequency>,
    /// How long executions take the more sessions there are.
    pub growth: Vec<Growth>,
    pub sizes: Vec<Size>,
    pub bars: Vec<Bar>,
    pub notes: Vec<String>,
}

impl Report {
    /// An empty report of this machine.
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

    /// Whether everything was measured.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.failures.is_empty()
    }

    /// Whether every bar is met of what was measured.
    #[must_use]
    pub fn meets_bars(&self) -> bool {
        self.bars.iter().all(|bar| bar.met)
    }

    /// Adds the results of a scenario, or its failure.
    pub(super) fn take(&mut self, scenario: Scenario, found: Result<Findings, BenchError>) {
        match found {
            Ok(findings) => self.add(findings),
            Err(error) => {
                let reason = error_chain(&error);
                self.failures.push(Failure { scenario: scenario.name(), reason });
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

#[derive(Debug, Clone, Serialize)]
pub struct Size {
    pub name: String,
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
    /// The executions among these, in milliseconds.
    pub many: Summary,
    /// The executions alone, in milliseconds.
    pub one: Summary,
}

impl Growth {
    /// How many times as long it takes.
    pub(super) fn times(&self) -> f64 {
        self.many.p50 / self.one.p50
    }
}

/// The side of its limit on which a value has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    AtMost,
    AtLeast,
}

/// A promise, and whether this run kept it.
#[derive(Debug, Clone, Serialize)]
pub struct Bar {
    pub name: String,
    pub found: f64,
    pub bound: Bound,
    pub limit: f64,
    /// Of `found` and `limit`.
    pub unit: &'static str,
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
    fn a_value_at_the_limit_meets_the_bar() {
        for (found, most, least) in [(1.0, true, false), (2.0, true, true), (3.0, false, true)] {
            assert_eq!(Bar::at_most("x", found, 2.0, "ms").met, most);
            assert_eq!(Bar::at_least("x", found, 2.0, "MB/s").met, least);
        }
        // What could not be measured holds nothing.
        assert!(!Bar::at_most("x", f64::NAN, 2.0, "ms").met);
        assert!(!Bar::at_least("x", f64::NAN, 2.0, "MB/s").met);
    }

    #[test]
    fn a_failed_scenario_fails_the_report() {
        let mut report = Report::new(Machine::unknown());
        let bars = vec![Bar::at_most("x", 1.0, 2.0, "ms")];
        report.take(Scenario::Starts, Ok(Findings { bars, ..Findings::default() }));
        assert!(report.is_whole() && report.meets_bars());
        report.take(
            Scenario::FirstOutput,
            Err(BenchError::Unexpected { what: "a", found: "b".into() }),
        );
        assert!(!report.is_whole() && report.meets_bars());
        let Failure { scenario, reason } = &report.failures[0];
        assert_eq!((&**scenario, &**reason), ("first_output", "a gave b"));
    }

    #[test]
    fn a_bar_names_its_bound_in_json() {
        let json = serde_json::json!(Bar::at_least("x", 2.5, 2.0, "MB/s"));
        let expected = serde_json::json!({"name": "x", "found": 2.5, "bound": "at_least",
            "limit": 2.0, "unit": "MB/s", "met": true});
        assert_eq!(json, expected);
    }
}
