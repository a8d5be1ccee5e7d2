//! The HTTP API: what it takes, what it refuses and how it says so. Each test asks over TCP and
//! over a Unix socket.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod changes;
mod connections;
mod documents;
mod input;
mod processes;
mod refusals;
mod strangers;
mod tenants;
mod usage;

use vivarium_tests::Daemon;
use vivarium_tests::http::{Client, Endpoint, Response};

/// Runs a test over both transports of one daemon, which has to be well afterwards.
fn over_both(test: impl Fn(&Daemon, &Endpoint)) {
    let daemon = Daemon::start();
    over_both_of(&daemon, test);
    daemon.stop_and_check();
}

fn over_both_of(daemon: &Daemon, test: impl Fn(&Daemon, &Endpoint)) {
    for endpoint in [daemon.tcp(), daemon.unix()] {
        test(daemon, &endpoint);
        assert_eq!(Client::connect(&endpoint).json("GET", "/healthz", None).status, 200);
    }
}

/// Posts bytes as JSON.
fn post(endpoint: &Endpoint, path: &str, body: &[u8]) -> Response {
    Client::connect(endpoint).send("POST", path, &[], Some(body))
}
