//! Every attack class of SPEC section 1, tried from inside.
//!
//! One file per layer, each attack from a kernel and from a command. It is made twice: with every
//! layer on it fails with exactly this errno, and with its own layer off
//! (`sandbox.disable_layers`) it works, or gets as far as the kernel's own check of its arguments,
//! so that the test can fail. Where a second layer refuses the same, that one is off too in the
//! control, or the table says which one it is.

mod births;
mod cgroup;
mod commands;
mod credentials;
mod env_scrub;
mod landlock;
mod mounts;
mod namespaces;
mod network;
mod planted;
mod program;
mod rlimits;
mod seccomp;
mod whole;

use vivarium_tests::Daemon;
use vivarium_tests::probe::{self, Row};

use crate::every_way::{daemon, setup};

/// Checks a table in a daemon with every layer, and another with these off.
#[track_caller]
fn with_and_without(layers: &[&str], with: &[Row<'_>], without: &[Row<'_>]) {
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
fn contrast(layers: &[&str], rows: &[(&str, &str, &str)]) {
    let on: Vec<Row<'_>> = rows.iter().map(|(attack, on, _)| (*attack, *on)).collect();
    let off: Vec<Row<'_>> = rows.iter().map(|(attack, _, off)| (*attack, *off)).collect();
    with_and_without(layers, &on, &off);
}

/// A directory of the host that a session without mounts can write to: the runtime directory of
/// its own daemon, whose id it has.
fn program_dir(daemon: &Daemon) -> String {
    daemon.dir().join("run").display().to_string()
}
