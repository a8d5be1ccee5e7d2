//! Images: sessions that are suspended and resumed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bounds;
mod branches;
mod checkpoints;
mod clock;
mod contexts;
mod cycles;
mod each;
mod full;
mod hostile;
mod kills;
mod large;
mod lives;
mod obstacles;
mod portable;
mod restarts;
mod seal;
mod sealed;
mod state;
mod upgrades;

use serde_json::json;
use vivarium_tests::http::Response;
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, Session, Setup};

/// A daemon whose sessions can be suspended, with these modules in its template.
fn images(preimport: &[&str]) -> Setup {
    let lines = format!("images = true\npreimport = {preimport:?}");
    Setup::with_start_mode(StartMode::Forked).config("environments.default", &lines)
}

/// A daemon of two tenants, whose sessions can be suspended.
fn of_two_tenants() -> (Daemon, Token, Token) {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(&entry("one", &one, ""), &entry("other", &other, ""));
    let daemon = Setup::default()
        .config("environments.default", "template = \"auto\"\nimages = true")
        .config("[tenant]", &tenants)
        .start();
    daemon.until_logged("template ready");
    (daemon, one, other)
}

fn suspend(session: &Session<'_>) -> Response {
    session.request("POST", "/suspend", None)
}

fn resume(session: &Session<'_>) -> Response {
    session.request("POST", "/resume", None)
}

/// Suspends a session and resumes it.
#[track_caller]
fn sleep_once(session: &Session<'_>) {
    assert_eq!(suspend(session).expect_success()["state"], "suspended");
    assert_eq!(resume(session).expect_success()["state"], "idle");
}

/// Python's threads end before the system's do.
const UNTIL_ALONE: &str = "
import os, time
while len(os.listdir('/proc/self/task')) > 1: time.sleep(0.001)";

/// A session of this id.
#[track_caller]
fn session_named<'d>(daemon: &'d Daemon, id: &str) -> Session<'d> {
    daemon.session_with(&json!({"id": id}))
}
