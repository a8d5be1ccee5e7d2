//! Attacks, hostile code and replaced kernels, where sessions are taken from a pool.

#[path = "../suites/every_way.rs"]
mod every_way;

use vivarium_tests::start_mode::StartMode;

/// How all sessions of this program come about.
const START_MODE: StartMode = StartMode::Pooled;
