//! E2B: sandboxes with code, commands and files, for its SDKs.
//!
//! A sandbox is a session. [`control`] is the API beside the sandboxes; [`envd`] and [`interpreter`]
//! are the two servers that E2B has in each of them. What they do is requests of the native API
//! ([`super::native`]); kept here is only what that does not have ([`sandboxes`]).

pub mod connect;
pub mod control;
pub mod envd;
pub mod envelope;
pub mod errors;
mod events;
pub mod interpreter;
mod listing;
mod new;
mod paths;
pub mod route;
pub mod sandboxes;
mod session;

use std::sync::Arc;

use super::native::Native;
use sandboxes::Sandbox;

/// The port of a sandbox that answers for its files and processes.
pub const ENVD_PORT: u16 = 49983;

/// The port of a sandbox that runs code.
pub const INTERPRETER_PORT: u16 = 49999;

/// The version of E2B's own server whose protocol is spoken: SDKs ask for what it can do.
const ENVD_VERSION: &str = "0.6.9";

/// The one user of a sandbox, by the name that E2B gives it.
const USER: &str = "user";

/// A sandbox, and the API as its client may use it.
pub struct Client<N: Native> {
    pub native: N,
    /// The same, for what goes on without the client's connection.
    pub background: N,
    pub sandbox: Arc<Sandbox>,
}
