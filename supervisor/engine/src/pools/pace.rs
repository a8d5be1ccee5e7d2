//! How many sessions are started at one time, and how long to rest after each, so that all of it
//! takes no more than a share of the CPUs.
//!
//! A start is taken to keep one CPU busy for as long as it lasts: its processes work one after the
//! other, and where they wait it takes less than its share.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Pace {
    cpus: u32,
    /// When the rests end that follow starts.
    rests: Vec<Instant>,
}

/// A share of the CPUs, as starts at one time and the part of it in which they may start.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    at_once: u32,
    duty: f64,
}

impl Share {
    fn of(share: f64, cpus: u32) -> Self {
        let whole = share * f64::from(cpus);
        let at_once = (1..cpus).find(|count| f64::from(*count) >= whole).unwrap_or(cpus).max(1);
        Self { at_once, duty: (whole / f64::from(at_once)).clamp(f64::MIN_POSITIVE, 1.0) }
    }
}

impl Pace {
    pub(super) const fn new(cpus: u32) -> Self {
        Self { cpus, rests: Vec::new() }
    }

    /// Whether one more may start when so many are starting.
    /// The error says when to ask again, unless a start has to end first.
    pub(super) fn may_start(
        &mut self,
        share: f64,
        starting: usize,
        now: Instant,
    ) -> Result<(), Option<Instant>> {
        self.rests.retain(|end| *end > now);
        let busy = u32::try_from(starting + self.rests.len()).unwrap_or(u32::MAX);
        if busy < Share::of(share, self.cpus).at_once {
            Ok(())
        } else {
            Err(self.rests.iter().min().copied())
        }
    }

    /// One has ended that took so long.
    pub(super) fn ended(&mut self, share: f64, took: Duration, now: Instant) {
        let rest = took.as_secs_f64() * (1.0 / Share::of(share, self.cpus).duty - 1.0);
        // A rest that can not be counted is as good as one of a day.
        let rest = Duration::try_from_secs_f64(rest).unwrap_or(DAY).min(DAY);
        if !rest.is_zero() {
            self.rests.push(now + rest);
        }
    }
}

const DAY: Duration = Duration::from_hours(24);

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp)]
    use super::*;

    #[test]
    fn a_share_is_whole_starts_and_a_part_of_the_time() {
        let share = |share, cpus| {
            let Share { at_once, duty } = Share::of(share, cpus);
            (at_once, duty)
        };
        assert_eq!(share(0.5, 1), (1, 0.5));
        assert_eq!(share(0.5, 2), (1, 1.0));
        assert_eq!(share(0.25, 2), (1, 0.5));
        assert_eq!(share(1.0, 2), (2, 1.0));
        assert_eq!(share(0.5, 8), (4, 1.0));
        assert_eq!(share(0.375, 4), (2, 0.75));
        assert_eq!(share(1.0, 1), (1, 1.0));
    }

    #[test]
    fn starts_are_followed_by_a_pause() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(2);
        assert_eq!(pace.may_start(0.25, 0, now), Ok(()));
        assert_eq!(pace.may_start(0.25, 1, now), Err(None));
        pace.ended(0.25, second, now);
        assert_eq!(pace.may_start(0.25, 0, now), Err(Some(now + second)));
        assert_eq!(pace.may_start(0.25, 0, now + second), Ok(()));
        pace.ended(0.5, second, now + second);
        assert_eq!(pace.may_start(0.5, 0, now + second), Ok(()));
    }
}
