//! The administration of a daemon, as its operator has it: by command and by route, under load.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod acts;
mod flow;
mod sources;

use serde_json::Value;
use vivarium_tests::{Daemon, program};

/// What `vivarium admin` answers on the daemon's Unix socket, with more arguments.
fn admin(daemon: &Daemon, arguments: &[&str]) -> program::Finished {
    let url = daemon.unix().url();
    program::run(&[&["admin"], arguments, &["--url", &url]].concat())
}

fn admin_json(daemon: &Daemon, arguments: &[&str]) -> Value {
    let said = admin(daemon, &[arguments, &["--json"]].concat()).expect_code(0).stdout();
    serde_json::from_str(&said).unwrap()
}
