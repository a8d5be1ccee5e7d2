//! `vivarium bench`: what a session costs on this host, beside what bare Python costs.
//!
//! It starts a daemon of its own, exactly as users get it, and measures over HTTP on loopback.
//! Absolute times on shared machines say little, so every figure that is promised is a ratio
//! or a difference to something measured in the same run: bare `python3 -c pass` takes its
//! turns between the cold starts.

mod daemon;
mod render;
mod samples;
mod scenarios;

use serde::Serialize;

pub use daemon::DaemonError;
pub use render::text;
pub use samples::Summary;

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
}

impl Plan {
    /// What the documented figures are measured with.
    pub const FULL: Self =
        Self { starts: 60, executions: 2000, idle_for_memory: 100, idle_for_latency: 200 };
    /// A first impression.
    pub const QUICK: Self =
        Self { starts: 10, executions: 200, idle_for_memory: 10, idle_for_latency: 20 };
}

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// Times, in milliseconds.
    pub times_ms: Vec<Summary>,
    /// Sizes, in bytes.
    pub sizes_bytes: Vec<Size>,
    /// What is promised, and what was found.
    pub bars: Vec<Bar>,
}

/// The machine it ran on.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// CPUs this process may use.
    pub cpus: usize,
    /// The interpreter.
    pub interpreter: String,
    /// Its version.
    pub python_version: String,
    /// Layers enforced, and those that are not.
    pub layers: String,
}

/// One size.
#[derive(Debug, Clone, Serialize)]
pub struct Size {
    /// Of what.
    pub name: String,
    /// How large, in bytes.
    pub bytes: u64,
}

/// One promise.
#[derive(Debug, Clone, Serialize)]
pub struct Bar {
    /// What is promised.
    pub name: String,
    /// What was found.
    pub found: f64,
    /// What it may be at most.
    pub at_most: f64,
    /// Of both.
    pub unit: &'static str,
    /// Whether it holds.
    pub met: bool,
}

impl Bar {
    fn at_most(name: &str, found: f64, at_most: f64, unit: &'static str) -> Self {
        Self { name: name.to_owned(), found, at_most, unit, met: found <= at_most }
    }
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
    let mut daemon = daemon::Daemon::start().await?;
    let report = scenarios::measure(&mut daemon, plan).await;
    daemon.stop().await?;
    report
}
