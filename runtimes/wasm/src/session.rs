//! A template: it forks kernels, and each of them gets a session here. The agent's library does what is to be done to be
//! in that session, and confined, as it does for an interpreter; what is left is the engine's own.
//!
//! Nothing of a session is in a template's memory, so nothing of one is in another: settings, directories and random
//! numbers are made after the fork.

use vivarium_agent::ffi::program;
use wasmtime::{Error, Result, bail};

use crate::guest::Terms;
use crate::signals::kept::Kept;
use crate::{confine, ffi};

/// Checks that the agent and this program speak one version of the protocol.
///
/// # Errors
/// If they do not.
pub fn check(version: &str) -> Result<()> {
    program::check_protocol(version.parse()?).map_err(Error::msg)
}

/// Waits for sessions. Returns in each fork, with its terms; a template ends here.
///
/// # Errors
/// If it cannot begin to serve, or the fork not get on.
pub(crate) fn fork_kernels() -> Result<Terms> {
    // What the engine and Rust's runtime have set, and confining takes away.
    let kept = Kept::of_this_process()?;
    let arguments = ffi::fork_kernels()?;
    kept.restore()?;
    // As one that is executed does when it starts.
    confine()?;
    // Without it all kernels of a template would draw the same numbers: a fork copies the generator.
    rand::rng().reseed()?;
    let arguments: Result<Vec<_>, _> = arguments.into_iter().map(String::from_utf8).collect();
    let arguments = arguments?;
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [_, "kernel", rest @ ..] => Terms::of_arguments(rest),
        _ => bail!("the agent's library knows another program: install both of one release"),
    }
}

/// Tells the supervisor why there is no template, unless it serves.
pub fn refuse(reason: String) {
    ffi::refuse(reason);
}
