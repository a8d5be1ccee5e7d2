//! Series of measured times, and what is said of them.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Times of one kind.
#[derive(Debug, Default)]
pub(super) struct Samples {
    times: Vec<Duration>,
}

/// Percentiles of a series, in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// What was measured.
    pub name: String,
    /// How often.
    pub count: usize,
    /// Half of the times are no longer.
    pub p50: f64,
    /// 95 % are no longer.
    pub p95: f64,
    /// 99 % are no longer.
    pub p99: f64,
}

impl Samples {
    /// Adds the time since `start`.
    pub(super) fn add_since(&mut self, start: Instant) {
        self.times.push(start.elapsed());
    }

    /// The percentiles, by the nearest rank.
    pub(super) fn summary(&self, name: &str) -> Summary {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(index).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
        };
        Summary {
            name: name.to_owned(),
            count: sorted.len(),
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
        }
    }
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
    fn percentiles_are_values_that_occurred() {
        let samples = Samples { times: (1..=100).map(Duration::from_millis).collect() };
        let summary = samples.summary("x");
        assert_eq!((summary.p50, summary.p95, summary.p99), (50.0, 95.0, 99.0));
        assert_eq!(Samples::default().summary("none").p99, 0.0);
        assert_eq!(median(vec![3, 1, 2]), 2);
    }
}
