//! `vivarium branch`: sessions from the state of another.

use vivarium_api_types::{BranchRequest, MAX_BRANCHES};
use vivarium_client::Client;

use super::exit::{Exit, Failure};
use super::options::DaemonOptions;
use super::{print, target};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  vivarium branch demo
  vivarium branch demo --count 3
  vivarium branch demo --checkpoint before")]
pub(super) struct Args {
    /// The session whose state they get, running or suspended; it stays as it is
    #[arg(value_name = "SESSION")]
    session: String,
    /// How many, up to 100: all of them, or none if one fails
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = count())]
    count: u32,
    /// Their state is that of this checkpoint of the session, and not its present one
    #[arg(long, value_name = "CHECKPOINT")]
    checkpoint: Option<String>,
    #[command(flatten)]
    daemon: DaemonOptions,
}

fn count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(MAX_BRANCHES))
}

pub(super) fn main(args: &Args) -> Result<Exit, Failure> {
    let client = &mut Client::new(args.daemon.url.or_configured()?);
    let request = BranchRequest { count: args.count, checkpoint: args.checkpoint.clone() };
    let reply = target::runtime()?.block_on(client.branch_session(&args.session, &request))?;
    if args.daemon.json {
        print::json(&reply.sessions)?;
    } else {
        let ids: String = reply.sessions.iter().map(|one| format!("{}\n", one.id)).collect();
        print::out(ids.as_bytes())?;
    }
    Ok(Exit::Ok)
}
