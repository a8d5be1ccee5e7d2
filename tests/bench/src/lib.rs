//! `vivarium bench`: what sessions, executions and transfers cost on this host, beside bare Python.
//!
//! It starts daemons of its own, exactly as users get them, and measures over HTTP. Absolute times
//! on shared machines say little, so where the same run has something to compare with, what is
//! promised is a ratio or a difference to that: bare `python3 -c pass` takes its turns between the
//! starts.

#![forbid(unsafe_code)]

mod daemon;
mod disk;
mod history;
mod machine;
mod memory;
mod plot;
mod render;
mod report;
mod samples;
mod scenarios;
mod series;

pub use daemon::DaemonError;
pub use disk::DiskError;
pub use history::append;
pub use machine::Machine;
pub use memory::MemoryError;
pub use plot::svg;
pub use render::text;
pub use report::{Bar, Bound, Failure, Findings, Growth, Report, Size};
pub use samples::{Frequency, Rate, Summary};
pub use scenarios::Scenario;

use std::time::Duration;

use vivarium_client::ClientError;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Starts of each kind, one-shot runs and bare interpreters.
    pub starts: usize,
    /// Resets of each kind.
    pub resets: usize,
    /// How long sessions are made, used and deleted by many clients.
    pub sustained: Duration,
    /// How many sessions are asked for at once, and how often.
    pub bursts: &'static [(usize, usize)],
    /// Warm executions per series.
    pub executions: usize,
    /// Idle sessions that the memory of the daemon is measured with.
    pub idle_for_memory: usize,
    /// Sessions among which latency is measured: more each time.
    pub growth: &'static [usize],
    /// Idle sessions whose own memory is measured: more each time.
    pub idle_for_size: &'static [usize],
    /// Sessions of each kind that are suspended and resumed.
    pub suspends: usize,
    /// How often as many branches as possible are made at once.
    pub branchings: usize,
    /// Sessions of each kind that could be suspended and are not.
    pub unused: usize,
    /// Sessions that are suspended before some of them wake.
    pub asleep: usize,
    /// Sessions that are not, beside these.
    pub awake: usize,
    /// The least sleepers that wake in each way.
    pub wakes: usize,
    /// Commands of each kind.
    pub commands: usize,
    /// Executions by the API and by each dialect.
    pub dialect_calls: usize,
    /// Calls of a client's function by one execution.
    pub calls: usize,
    /// Requests to a server in a session, and to one outside.
    pub port_requests: usize,
    /// Packages that are installed in a session, and outside.
    pub installs: usize,
    /// Keystrokes of each kind.
    pub keystrokes: usize,
    /// Prints whose way to the client is timed.
    pub prints: usize,
    /// Executions that print much.
    pub streams: usize,
    /// What each of these prints, in bytes.
    pub stream_bytes: u64,
    /// Images of each size.
    pub images: usize,
    pub transfers: usize,
    /// The size of each, in bytes.
    pub transfer_bytes: u64,
}

impl Plan {
    /// For the figures in docs/performance.md.
    pub const FULL: Self = Self {
        starts: 60,
        resets: 100,
        sustained: Duration::from_secs(8),
        bursts: &[(1, 30), (10, 10), (100, 3), (1000, 1)],
        executions: 2000,
        idle_for_memory: 100,
        growth: &[1, 10, 100, 1000],
        idle_for_size: &[100, 1000],
        suspends: 60,
        branchings: 5,
        unused: 1000,
        asleep: 200,
        awake: 20,
        wakes: 60,
        commands: 200,
        dialect_calls: 500,
        calls: 1000,
        port_requests: 500,
        installs: 15,
        keystrokes: 500,
        prints: 500,
        streams: 10,
        stream_bytes: 100_000_000,
        images: 100,
        transfers: 20,
        transfer_bytes: 128_000_000,
    };
    /// For a first impression.
    pub const QUICK: Self = Self {
        starts: 10,
        resets: 10,
        sustained: Duration::from_secs(1),
        bursts: &[(1, 5), (10, 2)],
        executions: 200,
        idle_for_memory: 10,
        growth: &[1, 10],
        idle_for_size: &[10],
        suspends: 10,
        branchings: 2,
        unused: 100,
        asleep: 30,
        awake: 5,
        wakes: 10,
        commands: 20,
        dialect_calls: 50,
        calls: 100,
        port_requests: 50,
        installs: 3,
        keystrokes: 50,
        prints: 50,
        streams: 3,
        stream_bytes: 20_000_000,
        images: 20,
        transfers: 5,
        transfer_bytes: 32_000_000,
    };
}

/// Why a scenario, or the whole bench, could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("the daemon to measure")]
    Daemon(#[from] DaemonError),
    #[error("the daemon's answer")]
    Client(#[from] ClientError),
    #[error("the daemon's memory")]
    Memory(#[from] MemoryError),
    #[error("the daemon's disk")]
    Disk(#[from] DiskError),
    #[error("cannot run {interpreter} for comparison")]
    Interpreter { interpreter: String, source: std::io::Error },
    #[error("{what} gave {found}")]
    Unexpected { what: &'static str, found: String },
}

/// Runs these scenarios, or every one if none is named.
///
/// # Errors
/// [`BenchError`] if there is no daemon to measure at all.
pub async fn run(plan: Plan, only: &[Scenario]) -> Result<Report, BenchError> {
    scenarios::measure(plan, only).await
}
