//! Tables of attacks, each made with a layer and without.

use vivarium_tests::probe::{self, Row};

use crate::every_way::{daemon, setup};

/// Checks a table in a daemon with every layer, and another with these off.
#[track_caller]
pub(super) fn with_and_without(layers: &[&str], with: &[Row<'_>], without: &[Row<'_>]) {
    let on = daemon();
    probe::check(&on.session(), with);
    on.stop_and_check();
    let off = setup().without(layers).start();
    let session = off.session();
    for layer in layers {
        assert_eq!(session.layer(layer)["status"], "off");
    }
    probe::check(&session, without);
    off.stop_and_check();
}

/// Checks a table of attack, word with every layer, and word without these.
#[track_caller]
pub(super) fn contrast(layers: &[&str], rows: &[(&str, &str, &str)]) {
    let on: Vec<Row<'_>> = rows.iter().map(|(attack, on, _)| (*attack, *on)).collect();
    let off: Vec<Row<'_>> = rows.iter().map(|(attack, _, off)| (*attack, *off)).collect();
    with_and_without(layers, &on, &off);
}
