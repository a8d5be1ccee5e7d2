//! `vivarium bench`

use super::exit::{Exit, Failure};
use super::{place, print};
use crate::bench::{self, Plan};

/// What to measure.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exits with 0 if every bar is met, else with 1.")]
pub(super) struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// A first impression in a few seconds, too short to quote
    #[arg(long)]
    quick: bool,
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let plan = if args.quick { Plan::QUICK } else { Plan::FULL };
    let report = place::runtime()?
        .block_on(bench::run(plan))
        .map_err(|error| Failure::new(Exit::Unavailable, &error))?;
    if args.json {
        print::json(&report)?;
    } else {
        print::out(bench::text(&report).as_bytes())?;
    }
    Ok(if report.bars.iter().all(|bar| bar.met) { Exit::Ok } else { Exit::Error })
}
