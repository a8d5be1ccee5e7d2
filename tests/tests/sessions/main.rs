//! What sessions and executions promise: SPEC section 2.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod capacity;
mod code;
mod contexts;
mod interrupts;
mod life;
mod output;
mod pool;
mod prepared;
mod processes;
mod queue;
mod resets;
mod timeouts;
mod usage;
mod watching;

use vivarium_tests::{Setup, Shared};

/// For tests that ask nothing of it that another would notice.
static DAEMON: Shared = Shared::new(Setup::default);
