//! What the end-to-end tests are written with: a daemon of their own, an HTTP client, the
//! host's facts, and the search for what is left behind.
//!
//! The programs are the built ones, and are only ever spoken to as a user would: over HTTP, by
//! their command line, by signals. Nothing here waits for time to pass: [`wait::until`] polls
//! for an event, with a deadline that only a failing test reaches.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    reason = "a panic is how a test fails, and standard error is where it says why"
)]

pub mod chromium;
pub mod daemon;
pub mod events;
pub mod gate;
pub mod host;
pub mod http;
pub mod internet;
pub mod modules;
pub mod outcome;
pub mod probe;
pub mod processes;
pub mod program;
mod remains;
pub mod resolver;
pub mod session;
pub mod shared;
pub mod start_mode;
pub mod tenants;
pub mod terminal;
pub mod tls;
pub mod wait;

pub use daemon::{Daemon, Setup};
pub use outcome::Outcome;
pub use session::Session;
pub use shared::Shared;
pub use terminal::Terminal;
