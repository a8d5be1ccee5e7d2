//! What is measured: a file for each scenario, listed in [`measure`].
//!
//! A scenario has a daemon of its own, with a configuration of its own if it needs one, so that
//! it is not measured beside what another has left behind.

mod asleep;
mod burst;
mod calls;
mod commands;
mod concurrent;
mod dialects;
mod egress;
mod environment;
mod files;
mod first_output;
mod growth;
mod idle;
mod image;
mod neighbours;
mod outside;
mod packages;
mod ports;
mod ready;
mod requests;
mod reset;
mod size;
mod starts;
mod stdout;
mod suspend;
mod sustained;
mod terminal;
mod wasm;
mod work;

use clap::ValueEnum;

use super::daemon::Daemon;
use super::{BenchError, Machine, Plan, Report};

/// In the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Scenario {
    Starts,
    Reset,
    Sustained,
    Burst,
    Idle,
    Growth,
    Size,
    Suspend,
    Asleep,
    FirstOutput,
    Commands,
    Terminal,
    Dialects,
    Calls,
    Work,
    Wasm,
    Ports,
    Egress,
    Packages,
    Neighbours,
    Stdout,
    Image,
    Files,
}

impl Scenario {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Measures these scenarios, or all if none is named. A scenario in which something does not work is
/// part of the report, and does not keep the others from being measured.
pub(super) async fn measure(plan: Plan, only: &[Scenario]) -> Result<Report, BenchError> {
    let machine = with_daemon("", Machine::of_daemon).await?;
    let mut report = Report::new(machine.clone());
    let scientific = environment::scientific_interpreter(&machine.interpreter).await;
    if scientific.is_none() {
        let modules = environment::MODULES.join(", ");
        report.notes.push(format!("no interpreter has {modules}: nothing was measured with them"));
    }
    let context = Context { plan, machine, scientific };
    let wanted = |scenario: &&Scenario| only.is_empty() || only.contains(scenario);
    for scenario in Scenario::value_variants().iter().filter(wanted) {
        let found = match scenario {
            Scenario::Starts => starts::measure(&context).await,
            Scenario::Reset => reset::measure(&context).await,
            Scenario::Sustained => sustained::measure(&context).await,
            Scenario::Burst => burst::measure(&context).await,
            Scenario::Idle => idle::measure(&context).await,
            Scenario::Growth => growth::measure(&context).await,
            Scenario::Size => size::measure(&context).await,
            Scenario::Suspend => suspend::measure(&context).await,
            Scenario::Asleep => asleep::measure(&context).await,
            Scenario::FirstOutput => first_output::measure(&context).await,
            Scenario::Commands => commands::measure(&context).await,
            Scenario::Terminal => terminal::measure(&context).await,
            Scenario::Dialects => dialects::measure(&context).await,
            Scenario::Calls => calls::measure(&context).await,
            Scenario::Work => work::measure(&context).await,
            Scenario::Wasm => wasm::measure(&context).await,
            Scenario::Ports => ports::measure(&context).await,
            Scenario::Egress => egress::measure(&context).await,
            Scenario::Packages => packages::measure(&context).await,
            Scenario::Neighbours => neighbours::measure(&context).await,
            Scenario::Stdout => stdout::measure(&context).await,
            Scenario::Image => image::measure(&context).await,
            Scenario::Files => files::measure(&context).await,
        };
        report.take(*scenario, found);
    }
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
