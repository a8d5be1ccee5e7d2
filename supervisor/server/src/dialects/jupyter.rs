//! Jupyter: the REST API and the `WebSocket` of a kernel gateway, for notebooks and what runs them.
//!
//! A kernel is a session. [`rest`] answers requests, [`socket`] carries the messages of one client,
//! [`shell`] answers them. What a kernel does is requests of the native API ([`super::native`]); kept
//! here is only what that does not have ([`kernel`]).

mod assist;
mod execute;
mod history;
mod kernel;
mod kernels;
pub mod rest;
mod shell;
pub mod socket;
mod specs;
pub mod wire;

use jiff::Timestamp;

pub use kernel::{Facts, Kernel};
pub use kernels::Kernels;

/// The time as all clients read it: some want one to six digits after the point, and a Z.
fn now() -> String {
    written(Timestamp::now())
}

fn written(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_digits_and_a_z() {
        let time: Timestamp = "2026-01-01T12:00:00.123456789Z".parse().unwrap();
        assert_eq!(written(time), "2026-01-01T12:00:00.123456Z");
        assert_eq!(written(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000000Z");
    }
}
