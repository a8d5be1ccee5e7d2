//! Fuzz targets: everything that parses bytes of tenants or strangers, under libFuzzer.
//!
//! `./run TARGET` runs one ([docs/testing.md](../../../docs/testing.md)). The parsers are links to
//! their own files, so that they are reached without being public and built without what is beside
//! them. A target has to hold more than that nothing panics: most parsers are fed the same bytes
//! whole and in parts, and have to say the same.

#![no_main]
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "the parsers have more users where they are at home"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic is a finding")]

mod calls_wire;
mod cli;
mod code_policy;
mod config;
mod engine;
mod envelope;
mod gate;
mod image;
mod jupyter_wire;
mod kernel_wire;
mod rpc;
mod settings;
mod sse;
mod suggest;
mod sys;
mod tar;
mod targets;

// The parsers name the crate that they are at home in.
extern crate self as vivarium_engine;

pub use code_policy::contradictions;
pub use engine::{is_valid_id, too_low};

/// As where the frames of calls are at home.
const MAX_CALL_BYTES: usize = 1 << 20;

use std::sync::LazyLock;

/// Which target this process runs.
static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("VIVARIUM_FUZZ_TARGET").unwrap_or_default();
    let found = targets::ALL.iter().find(|(known, _)| *known == name);
    let Some((_, target)) = found else {
        let known: Vec<_> = targets::ALL.iter().map(|(known, _)| *known).collect();
        panic!("VIVARIUM_FUZZ_TARGET is {name:?}, and none of {}", known.join(", "));
    };
    *target
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
