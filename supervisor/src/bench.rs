//! `vivarium bench`: what sessions and what goes through them cost on this host, beside what bare
//! Python costs.
//!
//! It starts daemons of its own, exactly as users get them, and measures over HTTP. Absolute times
//! on shared machines say little, so where the same run has something to compare with, what is
//! promised is a ratio or a difference to that: bare `python3 -c pass` takes its turns between the
//! cold starts.

mod daemon;
mod machine;
mod memory;
mod render;
mod report;
mod samples;
mod scenarios;

pub use daemon::DaemonError;
pub use machine::Machine;
pub use memory::MemoryError;
pub use render::text;
pub use report::{Bar, Bound, Findings, Report, Size};
pub use samples::{Rate, Summary};

use crate::client::ClientError;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Cold starts, one-shot runs and bare interpreters.
    pub starts: usize,
    /// Warm executions per series.
    pub executions: usize,
    /// Idle sessions that memory is measured with.
    pub idle_for_memory: usize,
    /// Idle sessions that latency is measured beside.
    pub idle_for_latency: usize,
    /// Prints whose way to the client is timed.
    pub prints: usize,
    /// Executions that print much.
    pub streams: usize,
    /// What each of these prints, in bytes.
    pub stream_bytes: u64,
    /// Images of each size.
    pub images: usize,
    /// Uploads, and downloads.
    pub transfers: usize,
    /// The size of each, in bytes.
    pub transfer_bytes: u64,
}

impl Plan {
    /// What the documented figures are measured with.
    pub const FULL: Self = Self {
        starts: 60,
        executions: 2000,
        idle_for_memory: 100,
        idle_for_latency: 200,
        prints: 500,
        streams: 10,
        stream_bytes: 100_000_000,
        images: 100,
        transfers: 20,
        transfer_bytes: 128_000_000,
    };
    /// A first impression.
    pub const QUICK: Self = Self {
        starts: 10,
        executions: 200,
        idle_for_memory: 10,
        idle_for_latency: 20,
        prints: 50,
        streams: 3,
        stream_bytes: 20_000_000,
        images: 20,
        transfers: 5,
        transfer_bytes: 32_000_000,
    };
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The daemon did not start.
    #[error("the daemon to measure")]
    Daemon(#[from] DaemonError),
    /// It did not answer.
    #[error("the daemon's answer")]
    Client(#[from] ClientError),
    /// What it takes of memory could not be seen.
    #[error("the daemon's memory")]
    Memory(#[from] MemoryError),
    /// Bare Python could not be run for comparison.
    #[error("cannot run {interpreter} for comparison")]
    Interpreter {
        /// Which.
        interpreter: String,
        /// Why not.
        source: std::io::Error,
    },
    /// An execution that should have worked did not.
    #[error("{what} gave {found}")]
    Unexpected {
        /// What was measured.
        what: &'static str,
        /// What came instead of the result.
        found: String,
    },
}

/// Measures everything.
///
/// # Errors
/// [`BenchError`] as soon as something does not work.
pub async fn run(plan: Plan) -> Result<Report, BenchError> {
    scenarios::measure(plan).await
}
