//! Sessions of network `trusted`: what they reach, and that there is no other way out.
//!
//! The gate is played by the tests ([`played`]), with the rules that the daemon gave it: what is
//! promised here is that code has no way out but the gate, and that the gate is told the right thing.
//! What the real one does with a connection has tests of its own, in its crate. Both meet in [`real`],
//! [`attacks`] and [`ends_tls`].

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod attacks;
mod ends_tls;
mod losses;
mod outside;
mod played;
mod rates;
mod reaching;
mod real;
mod secrets;
mod tenants;
mod ways;

use serde_json::{Value, json};
use vivarium_tests::Setup;

use crate::played::Gate;

/// A daemon whose sessions may have the network, and these lines of `[egress]`.
fn setup(gate: &Gate, egress: &str) -> Setup {
    let networks = "allowed_networks = [\"none\", \"loopback\", \"trusted\"]";
    let egress = format!("gate = \"unix:{}\"\n{egress}", gate.path().display());
    Setup::default().config("sandbox", networks).config("egress", &egress)
}

fn trusted() -> Value {
    json!({"network": "trusted"})
}

/// Code that prints the status and the body of a request.
fn get(url: &str) -> String {
    format!(
        "import urllib.request, urllib.error\n\
         try:\n    r = urllib.request.urlopen({url:?}, timeout=30)\n\
         except urllib.error.HTTPError as e:\n    r = e\n\
         print(r.status, r.read().decode())"
    )
}
