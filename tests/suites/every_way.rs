//! What holds for every session, however its kernel started: executed, forked from a template, or taken
//! with its whole session from a pool.
//!
//! Three programs run all of this, each in the start mode that its root names: tests/executed.rs,
//! tests/forked.rs and tests/pooled.rs. A test that is added here is added to all of them. The harness
//! checks that each session did start in that mode (harness/start_mode.rs).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod attacks;
mod floors;
mod hostile;
mod one_python;
mod replaced;

use vivarium_tests::{Daemon, Setup};

/// Whether the host counts a session's processes, so that `max_procs` holds.
pub(crate) const COUNTS_PROCESSES: bool = true;

/// Whether a session has a disk of its own, whose size is limited.
pub(crate) const HAS_OWN_DISK: bool = true;

/// A daemon whose sessions start in this program's mode.
pub(crate) fn setup() -> Setup {
    Setup::with_start_mode(crate::START_MODE)
}

/// The same, with the defaults.
#[track_caller]
pub(crate) fn daemon() -> Daemon {
    setup().start()
}

/// What the control of a test is to find where a layer is off: with a kernel that was executed, and
/// with one of a template, which has some of it itself, whatever its sessions have, and whose
/// kernels inherit that.
pub(crate) const fn control<T: Copy>(executed: T, of_a_template: T) -> T {
    if crate::START_MODE.has_template() { of_a_template } else { executed }
}
