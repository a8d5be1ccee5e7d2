//! Attacks, hostile code and replaced kernels, where sessions were suspended and resumed.

#[path = "../suites/every_way.rs"]
mod every_way;

use vivarium_tests::start_mode::StartMode;

/// How all sessions of this program come about.
const START_MODE: StartMode = StartMode::Resumed;
