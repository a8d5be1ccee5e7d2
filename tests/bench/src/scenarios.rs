//! What is measured: a file for each scenario, listed in [`measure`].
//!
//! A scenario has a daemon of its own, with a configuration of its own if it needs one, so that
//! it is not measured beside what another has left behind.

mod burst;
mod commands;
mod concurrent;
mod egress;
mod environment;
mod files;
mod first_output;
mod growth;
mod idle;
mod image;
mod neighbours;
mod outside;
mod ports;
mod ready;
mod requests;
mod reset;
mod size;
mod starts;
mod stdout;
mod sustained;
mod terminal;

use super::daemon::Daemon;
use super::{BenchError, Machine, Plan, Report};

/// Measures everything, in the order of the report. A scenario in which something does not work is
/// part of the report, and does not keep the others from being measured.
pub(super) async fn measure(plan: Plan) -> Result<Report, BenchError> {
    let machine = with_daemon("", Machine::of_daemon).await?;
    let mut report = Report::new(machine.clone());
    let scientific = environment::scientific_interpreter(&machine.interpreter).await;
    if scientific.is_none() {
        let modules = environment::MODULES.join(", ");
        report.notes.push(format!("no interpreter has {modules}: nothing was measured with them"));
    }
    let context = Context { plan, machine, scientific };
    report.take("starts", starts::measure(&context).await);
    report.take("reset", reset::measure(&context).await);
    report.take("sustained", sustained::measure(&context).await);
    report.take("burst", burst::measure(&context).await);
    report.take("idle", idle::measure(&context).await);
    report.take("growth", growth::measure(&context).await);
    report.take("size", size::measure(&context).await);
    report.take("first_output", first_output::measure(&context).await);
    report.take("commands", commands::measure(&context).await);
    report.take("terminal", terminal::measure(&context).await);
    report.take("ports", ports::measure(&context).await);
    report.take("egress", egress::measure(&context).await);
    report.take("neighbours", neighbours::measure(&context).await);
    report.take("stdout", stdout::measure(&context).await);
    report.take("image", image::measure(&context).await);
    report.take("files", files::measure(&context).await);
    Ok(report)
}

#[derive(Debug)]
struct Context {
    plan: Plan,
    machine: Machine,
    /// The interpreter that has the scientific modules, if there is one.
    scientific: Option<String>,
}

/// Measures a daemon that is started for it, with these lines added to its configuration, when it
/// has prepared what it prepares. It is ended in an orderly way whatever becomes of the measuring.
async fn with_daemon<T>(
    config: &str,
    measure: impl AsyncFnOnce(&Daemon) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let daemon = Daemon::start(config).await?;
    let found = match ready::prepared(&daemon).await {
        Ok(_) => measure(&daemon).await,
        Err(error) => Err(error),
    };
    daemon.stop().await?;
    found
}

/// The same with a daemon for each of these configurations.
async fn with_daemons<T>(
    configs: &[String],
    measure: impl AsyncFnOnce(&[Daemon]) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let mut daemons = Vec::new();
    let found = match start_all(configs, &mut daemons).await {
        Ok(()) => measure(&daemons).await,
        Err(error) => Err(error),
    };
    for daemon in daemons {
        daemon.stop().await?;
    }
    found
}

async fn start_all(configs: &[String], daemons: &mut Vec<Daemon>) -> Result<(), BenchError> {
    for config in configs {
        daemons.push(Daemon::start(config).await?);
    }
    for daemon in daemons {
        ready::prepared(daemon).await?;
    }
    Ok(())
}
