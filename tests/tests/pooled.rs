//! Attacks, hostile code and replaced kernels, where sessions are taken from a pool.

#[path = "../suites/every_way.rs"]
mod every_way;

use vivarium_tests::birth::Way;

/// How all sessions of this program come about.
const WAY: Way = Way::Pooled;
