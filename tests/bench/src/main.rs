//! The program `vivarium-bench`, which `vivarium bench` runs: measures, and prints what came of it.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use tokio::runtime::Builder;
use vivarium_bench::{Plan, Report, Scenario, append, run, svg, text};
use vivarium_protocol::error_chain;

/// Measures sessions, executions, streamed output and files on this host
#[derive(Debug, Parser)]
#[command(
    name = "vivarium bench",
    bin_name = "vivarium bench",
    version,
    after_help = "\
Exits with 0 if everything was measured, with 3 if nothing could be, and with 1 otherwise.

Examples:
  vivarium bench --quick
  vivarium bench --only egress --only neighbours
  vivarium bench --only asleep --asleep 20000 --awake 1000
  vivarium bench --check --json >figures.json
  vivarium bench --append docs/performance-history.jsonl --label \"$(git describe --always)\""
)]
struct Args {
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Takes half a minute; the results are too rough to quote
    #[arg(long)]
    quick: bool,
    /// Measures this alone; can be given several times
    #[arg(long, value_name = "SCENARIO", value_enum)]
    only: Vec<Scenario>,
    /// Suspends so many sessions in the scenario `asleep`, at least 10
    #[arg(long, value_name = "SESSIONS",
        value_parser = RangedU64ValueParser::<usize>::new().range(10..))]
    asleep: Option<usize>,
    /// Has so many others beside them, at most 4000
    #[arg(long, value_name = "SESSIONS",
        value_parser = RangedU64ValueParser::<usize>::new().range(..=4000))]
    awake: Option<usize>,
    /// Exits with 1 also if a target is missed
    #[arg(long)]
    check: bool,
    /// Also appends the bars to this file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,
    /// Names in that line what was measured
    #[arg(long, value_name = "VERSION", requires = "append", default_value = env!("CARGO_PKG_VERSION"))]
    label: String,
    /// Also draws the results into this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// As `vivarium` exits where there is no daemon.
const UNAVAILABLE: u8 = 3;

fn main() -> ExitCode {
    let args = Args::parse();
    let plan = if args.quick { Plan::QUICK } else { Plan::FULL };
    let plan = Plan {
        asleep: args.asleep.unwrap_or(plan.asleep),
        awake: args.awake.unwrap_or(plan.awake),
        ..plan
    };
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(UNAVAILABLE, &format!("cannot start: {error}")),
    };
    let report = match runtime.block_on(run(plan, &args.only)) {
        Ok(report) => report,
        Err(error) => return fail(UNAVAILABLE, &error_chain(&error)),
    };
    match show(&args, &report) {
        Ok(()) if report.is_whole() && (!args.check || report.meets_bars()) => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => fail(1, &error.to_string()),
    }
}

fn show(args: &Args, report: &Report) -> io::Result<()> {
    let page = if args.json {
        format!("{}\n", serde_json::to_string_pretty(report)?)
    } else {
        text(report)
    };
    io::stdout().lock().write_all(page.as_bytes())?;
    if let Some(path) = &args.append {
        append(path, &args.label, report).map_err(cannot_write(path))?;
    }
    if let Some(path) = &args.plot {
        fs::write(path, svg(report)).map_err(cannot_write(path))?;
    }
    Ok(())
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::other(format!("cannot write {}: {error}", path.display()))
}

fn fail(code: u8, message: &str) -> ExitCode {
    // If standard error is gone there is nobody to tell.
    writeln!(io::stderr().lock(), "vivarium: {message}").unwrap_or_default();
    code.into()
}
