//! What holds where the host offers neither cgroups nor namespaces: hostile code, and the attacks on
//! what is left.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod hostile;
mod one_python;

/// Attacks; see suites/attacks.rs.
mod attacks {
    #[allow(dead_code)] // services are for attacks on layers that are missing here
    mod planted;
    mod restricted_host;
    mod rlimits;
    mod tables;

    use self::tables::contrast;
}

use vivarium_tests::{Daemon, Setup};

/// Whether the host counts a session's processes, so that `max_procs` holds.
pub(crate) const COUNTS_PROCESSES: bool = false;

/// Whether a session has a disk of its own, whose size is limited.
pub(crate) const HAS_OWN_DISK: bool = false;

/// A daemon whose sessions are on such a host.
pub(crate) fn setup() -> Setup {
    Setup::with_start_mode(crate::START_MODE)
}

/// The same, with the defaults.
#[track_caller]
pub(crate) fn daemon() -> Daemon {
    setup().start()
}

/// What the control of a test is to find: kernels are executed here.
pub(crate) const fn control<T: Copy>(executed: T, _of_a_template: T) -> T {
    executed
}
