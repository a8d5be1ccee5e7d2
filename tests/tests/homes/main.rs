//! Homes and volumes: what is written there outlives sessions and daemons, is nobody else's, and
//! nothing that is planted in one makes anybody touch anything else. With subordinate ids, whose
//! files the daemon can not open itself, and without.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod cli;
mod hostile;
mod lasting;
mod quota;
mod tenants;
mod volumes;

use serde_json::{Value, json};
use vivarium_tests::daemon::{Daemon, Setup};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::{Client, Response};
use vivarium_tests::program::{self, Runner};
use vivarium_tests::session::Session;

/// Everything that can be offered.
const ALLOWED: &str = "allowed = [\"session\", \"tenant\", \"volumes\"]";

/// A daemon that offers homes and volumes, with these lines more in `[homes]`.
fn setup(runner: Runner, more: &str) -> Setup {
    Setup::default().config("homes", &format!("{ALLOWED}\n{more}")).runner(runner)
}

/// Who runs daemons: a user with subordinate ids, where there is one, and one without.
fn runners() -> Vec<Runner> {
    let mut runners = vec![program::nobody()];
    if host::has(&[Requirement::SubordinateIds]) {
        runners.push(Runner::default());
    }
    runners
}

/// A session with the home of its id.
#[track_caller]
fn at_home<'d>(daemon: &'d Daemon, id: &str) -> Session<'d> {
    daemon.session_with(&json!({"id": id, "home": "session"}))
}

/// Runs code that works, and returns its value.
#[track_caller]
fn run(session: &Session<'_>, code: &str) -> String {
    session.execute(code).ok().result().to_owned()
}

#[track_caller]
fn end(session: &Session<'_>) {
    assert_eq!(session.request("DELETE", "", None).status, 204);
}

fn get(daemon: &Daemon, path: &str) -> Response {
    Client::connect(&daemon.unix()).send("GET", path, &[], None)
}

fn delete(daemon: &Daemon, path: &str) -> Response {
    daemon.request("DELETE", path, None)
}

/// The paths of a list of files.
#[track_caller]
fn paths(daemon: &Daemon, store: &str) -> Vec<String> {
    let list = get(daemon, &format!("{store}/files?recursive=true")).expect_success();
    let path = |file: &Value| file["path"].as_str().unwrap().to_owned();
    list["entries"].as_array().unwrap().iter().map(path).collect()
}
