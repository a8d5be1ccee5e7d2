//! Templates: what a kernel that is forked from one has of it and of others, and what becomes of
//! sessions when a template fails. What holds for all sessions alike is in suites/every_way.rs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod canaries;
mod faults;
mod interpreters;
mod likeness;
mod lives;
mod randomness;
mod spares;
mod unfit;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vivarium_tests::processes::Process;
use vivarium_tests::start_mode::StartMode;
use vivarium_tests::{Daemon, Setup};

/// A daemon whose kernels are forked from a template that has done this.
fn template(preimport: &[&str], warmup: &str) -> Setup {
    // A JSON string is a TOML string.
    let warmup = serde_json::to_string(warmup).unwrap();
    let lines = format!("preimport = {preimport:?}\nwarmup = {warmup}");
    Setup::with_start_mode(StartMode::Forked).config("environments.default", &lines)
}

fn send(process: &Process, signal: Signal) {
    kill(Pid::from_raw(process.pid), signal).unwrap();
}

/// How many templates were built, or were not.
fn built(daemon: &Daemon, outcome: &str) -> u64 {
    let labels = format!("{{environment=\"default\",outcome=\"{outcome}\"}}");
    daemon.metric(&format!("vivarium_template_builds_total{labels}")).unwrap_or_default()
}
