//! `vivarium bench`

use std::fs;
use std::path::PathBuf;

use super::exit::{Exit, Failure};
use super::{place, print};
use crate::bench::{self, Plan};

/// What to measure.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exits with 0 if everything was measured and every bar is met, else with 1."
)]
pub(super) struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// A first impression in half a minute, too short to quote
    #[arg(long)]
    quick: bool,
    /// Draw the figures into this file too, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
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
    if let Some(path) = &args.plot {
        fs::write(path, bench::svg(&report)).map_err(|error| {
            Failure::says(Exit::Error, format!("cannot write {}: {error}", path.display()))
        })?;
    }
    Ok(if report.is_met() { Exit::Ok } else { Exit::Error })
}
