//! The clock that all processes of a host share.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of `CLOCK_MONOTONIC` (clock_gettime(2)). Sessions have no time namespace.
#[must_use]
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000)
}
