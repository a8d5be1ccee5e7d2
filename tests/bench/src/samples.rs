//! Series of measured times, and their summaries.

use std::time::{Duration, Instant};

use serde::Serialize;

#[derive(Debug, Default)]
pub(super) struct Samples {
    times: Vec<Duration>,
}

/// Percentiles of a series, in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    pub name: String,
    pub count: usize,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// How fast the same bytes were moved again and again, in bytes per second.
#[derive(Debug, Clone, Serialize)]
pub struct Rate {
    pub name: String,
    pub count: usize,
    pub bytes: u64,
    /// The rate of the median time.
    pub p50: f64,
    /// The rate of the longest time.
    pub least: f64,
    /// The rate of the shortest time.
    pub most: f64,
}

/// How often something was done in a time.
#[derive(Debug, Clone, Serialize)]
pub struct Frequency {
    pub name: String,
    pub count: usize,
    pub seconds: f64,
    pub per_s: f64,
}

impl Frequency {
    pub(super) fn new(name: impl Into<String>, count: usize, span: Duration) -> Self {
        let seconds = span.as_secs_f64();
        Self { name: name.into(), count, seconds, per_s: count as f64 / seconds }
    }
}

impl Rate {
    /// The median in MB/s, of 10^6 bytes.
    pub(super) fn mb_per_s(&self) -> f64 {
        self.p50 / 1e6
    }
}

impl Samples {
    pub(super) fn add(&mut self, time: Duration) {
        self.times.push(time);
    }

    /// Adds a time, if it counts.
    pub(super) fn add_if(&mut self, counts: bool, time: Duration) {
        if counts {
            self.add(time);
        }
    }

    /// Adds the time since `start`.
    pub(super) fn add_since(&mut self, start: Instant) {
        self.add(start.elapsed());
    }

    /// The percentiles, by the nearest rank.
    pub(super) fn summary(&self, name: impl Into<String>) -> Summary {
        let sorted = self.sorted();
        let rank = |percent| at(&sorted, percent).as_secs_f64() * 1000.0;
        Summary {
            name: name.into(),
            count: sorted.len(),
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
        }
    }

    /// The rates at which `bytes` were moved, if that took each of the times.
    pub(super) fn rate(&self, name: impl Into<String>, bytes: u64) -> Rate {
        let sorted = self.sorted();
        let rate = |percent| match at(&sorted, percent).as_secs_f64() {
            0.0 => 0.0,
            seconds => bytes as f64 / seconds,
        };
        Rate {
            name: name.into(),
            count: sorted.len(),
            bytes,
            p50: rate(50),
            least: rate(100),
            most: rate(0),
        }
    }

    fn sorted(&self) -> Vec<Duration> {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        sorted
    }
}

/// The time that so many percent are not longer than; of 0 the shortest, of none zero.
fn at(sorted: &[Duration], percent: usize) -> Duration {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or_default()
}

/// The median of the series of this name; no number, which meets no bar, if it was not measured.
pub(super) fn p50(times: &[Summary], name: &str) -> f64 {
    times.iter().find(|time| time.name == name).map_or(f64::NAN, |time| time.p50)
}

/// The middle of some sizes.
pub(super) fn median(mut sizes: Vec<u64>) -> u64 {
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let samples = Samples { times: (1..=100).map(Duration::from_millis).collect() };
        let summary = samples.summary("x");
        assert_eq!((summary.p50, summary.p95, summary.p99), (50.0, 95.0, 99.0));
        assert_eq!(Samples::default().summary("none").p99, 0.0);
        assert_eq!(median(vec![3, 1, 2]), 2);
    }

    #[test]
    fn rates_are_those_of_measured_times() {
        let samples = Samples { times: [4, 1, 2].map(Duration::from_secs).to_vec() };
        let rate = samples.rate("x", 8_000_000);
        assert_eq!((rate.least, rate.p50, rate.most), (2e6, 4e6, 8e6));
        assert_eq!((rate.count, rate.mb_per_s()), (3, 4.0));
        assert_eq!(Samples::default().rate("none", 1).p50, 0.0);
    }
}
