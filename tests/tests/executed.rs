//! Attacks, hostile code and replaced kernels, where kernels are executed.

#[path = "../suites/every_way.rs"]
mod every_way;

use vivarium_tests::birth::Way;

/// How all sessions of this program come about.
const WAY: Way = Way::Executed;
