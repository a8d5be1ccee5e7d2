//! How long to wait after starts that failed: longer each time.

use std::time::Duration;

use tokio::time::Instant;

/// After the first.
const FIRST: Duration = Duration::from_secs(1);

const LAST: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    pub(crate) fn failed(&mut self, now: Instant) {
        let wait = FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(LAST);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + wait);
    }

    pub(crate) const fn succeeded(&mut self) {
        self.failures = 0;
        self.until = None;
    }

    /// Until when to wait, if that is not over.
    pub(crate) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_twice_as_long_up_to_a_minute() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.until(now), None);
        for wait_s in [1, 2, 4, 8, 16, 32, 60, 60] {
            backoff.failed(now);
            let wait = Duration::from_secs(wait_s);
            assert_eq!(backoff.until(now), Some(now + wait));
            assert_eq!(backoff.until(now + wait), None);
        }
        backoff.succeeded();
        assert_eq!(backoff.until(now), None);
        backoff.failed(now);
        assert_eq!(backoff.until(now), Some(now + FIRST));
    }
}
