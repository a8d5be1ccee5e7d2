//! Packages that a session installs while it runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod gate;
mod inside;
mod mcp;
mod private;
mod sources;
mod upstream;
mod wheels;

use vivarium_tests::Session;

/// Runs code that has to succeed. What it printed.
#[track_caller]
pub(crate) fn run(session: &Session<'_>, code: &str) -> String {
    session.execute(code).ok().stdout().to_owned()
}

/// Runs code that has to raise this.
#[track_caller]
pub(crate) fn raises(session: &Session<'_>, code: &str, exception: &str) {
    assert_eq!(session.execute(code).raised(exception).status(), "error");
}
