//! What is measured: a file for each scenario, listed in [`measure`].
//!
//! A scenario has a daemon of its own, with a configuration of its own if it needs one, so that
//! it is not measured beside what another has left behind.

mod ask;
mod files;
mod first_output;
mod idle;
mod image;
mod starts;
mod stdout;

use super::daemon::Daemon;
use super::{BenchError, Machine, Plan, Report};

/// Measures everything, in the order of the report.
pub(super) async fn measure(plan: Plan) -> Result<Report, BenchError> {
    let machine = with_daemon("", Machine::ask).await?;
    let mut report = Report::new(machine.clone());
    let context = Context { plan, machine };
    report.add(starts::measure(&context).await?);
    report.add(idle::measure(&context).await?);
    report.add(first_output::measure(&context).await?);
    report.add(stdout::measure(&context).await?);
    report.add(image::measure(&context).await?);
    report.add(files::measure(&context).await?);
    Ok(report)
}

/// What a scenario is told.
#[derive(Debug)]
struct Context {
    /// How much to measure.
    plan: Plan,
    /// Where.
    machine: Machine,
}

/// Measures a daemon that is started for it, with these lines added to its configuration. It is
/// ended in an orderly way whatever becomes of the measuring.
async fn with_daemon<T>(
    config: &str,
    measure: impl AsyncFnOnce(&Daemon) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let daemon = Daemon::start(config).await?;
    let found = measure(&daemon).await;
    daemon.stop().await?;
    found
}
