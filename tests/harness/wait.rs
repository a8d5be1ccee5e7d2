//! Waiting for events. The only sleeps of the tests are in here.

#![allow(clippy::disallowed_methods)] // sleep

use std::time::{Duration, Instant};

/// Long enough for a busy machine and for an emulated one. Only a failing test waits this long.
pub const DEADLINE: Duration = Duration::from_mins(2);

/// Polls until `event` gives something.
///
/// # Panics
/// At the deadline, saying what was waited for.
pub fn until<T>(what: &str, mut event: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = event() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lets time pass between two things that are to happen at random times.
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Polls until `condition` holds.
pub fn until_true(what: &str, mut condition: impl FnMut() -> bool) {
    until(what, || condition().then_some(()));
}
