//! Attacks and hostile code, where the host offers neither cgroups nor namespaces.

#[path = "../suites/restricted.rs"]
mod every_way;

use vivarium_tests::start_mode::StartMode;

/// How all sessions of this program come about.
const START_MODE: StartMode = StartMode::Restricted;
