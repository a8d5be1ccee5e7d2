//! `vivarium top`: a live view of a daemon.

mod draw;
mod live;
mod once;
mod poll;
mod rows;
mod view;

use std::time::Duration;

use vivarium_config::duration;

use super::exit::{Exit, Failure};
use super::options::UrlOption;
use super::target;
use super::terminal::Terminals;

/// What to watch, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Time between refreshes, such as 500ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    interval: Duration,
    /// Prints everything once and exits; CPU is then the average over a session's life
    #[arg(long)]
    once: bool,
    /// Like --once, in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    url: UrlOption,
}

/// Polling more often is work for the daemon that nobody can see.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let remote = args.url.or_configured()?;
    if args.once || args.json {
        return target::block_on(once::print(remote, args.json));
    }
    if !Terminals::look().stdout {
        let why = "top needs a terminal: --once and --json print to files and pipes";
        return Err(Failure::says(Exit::Usage, why));
    }
    target::block_on(live::watch(remote, args.interval.max(MIN_INTERVAL)))
}
