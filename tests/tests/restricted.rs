//! Attacks and hostile code, where the host offers neither cgroups nor namespaces.

#[path = "../suites/restricted.rs"]
mod every_way;

use vivarium_tests::birth::Way;

/// How all sessions of this program come about.
const WAY: Way = Way::Restricted;
