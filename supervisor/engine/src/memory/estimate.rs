//! What one more session of an environment is expected to take.
//!
//! The median of what the last sessions were found to have, by proportional set size: pages that
//! they share with their template, and with each other, count once in all. The median, and within
//! bounds, since what a session takes is its tenant's doing and others' creates depend on it.

use std::collections::VecDeque;

const MIB: u64 = 1 << 20;

/// What is expected before any session was looked at: an agent and a plain Python that was
/// executed, and some.
const AT_FIRST_BYTES: u64 = 32 * MIB;

/// No session takes less, and no tenant can make another's look as if it took more.
const LEAST_BYTES: u64 = MIB;
const MOST_BYTES: u64 = 256 * MIB;

const SAMPLES: usize = 32;

#[derive(Debug)]
pub(super) struct Estimate {
    samples: VecDeque<u64>,
    bytes: u64,
}

impl Default for Estimate {
    fn default() -> Self {
        Self { samples: VecDeque::new(), bytes: AT_FIRST_BYTES }
    }
}

impl Estimate {
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn learn(&mut self, pss_bytes: u64) {
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(pss_bytes.clamp(LEAST_BYTES, MOST_BYTES));
        let mut sorted: Vec<_> = self.samples.iter().copied().collect();
        sorted.sort_unstable();
        self.bytes = sorted.get(sorted.len() / 2).copied().unwrap_or(AT_FIRST_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_follows_most_sessions_and_ignores_outliers() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.bytes(), AT_FIRST_BYTES);
        for _ in 0..SAMPLES {
            estimate.learn(5 * MIB);
        }
        assert_eq!(estimate.bytes(), 5 * MIB);
        for _ in 0..SAMPLES / 4 {
            estimate.learn(2048 * MIB);
        }
        assert_eq!(estimate.bytes(), 5 * MIB, "a few large ones");
        for _ in 0..SAMPLES {
            estimate.learn(60 * MIB);
        }
        assert_eq!(estimate.bytes(), 60 * MIB, "those of long ago are forgotten");
        for _ in 0..SAMPLES {
            estimate.learn(u64::MAX);
        }
        assert_eq!(estimate.bytes(), MOST_BYTES);
        for _ in 0..SAMPLES {
            estimate.learn(0);
        }
        assert_eq!(estimate.bytes(), LEAST_BYTES);
    }
}
