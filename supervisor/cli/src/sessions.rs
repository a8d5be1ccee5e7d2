//! `vivarium sessions`

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use vivarium_api_types::{SessionQuery, SessionSpec};
use vivarium_client::Client;
use vivarium_server::config::duration;

use super::exit::{Exit, Failure};
use super::inputs::milliseconds;
use super::options::{EnvOption, SessionOptions, UrlOption, pairs};
use super::terminal::escape;
use super::{human, print, target};

/// What to do with sessions.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Creates a session and prints its id.
    Create(CreateArgs),
    /// Lists sessions.
    List(Daemon),
    /// Shows a session.
    Show(One),
    /// Replaces a session's kernel: variables and processes are gone, files stay.
    Reset(One),
    /// Interrupts the code that a session is running.
    Interrupt(One),
    /// Deletes a session and its working directory.
    Delete(One),
    /// Restarts a session's idle timeout.
    Keepalive(One),
}

#[derive(Debug, Args)]
pub(super) struct Daemon {
    /// Prints JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    url: UrlOption,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  session=$(vivarium sessions create --max-memory-mb 512 --metadata user=ada)
  vivarium sessions create demo --network none --idle-timeout 10m")]
pub(super) struct CreateArgs {
    /// The new session's id: 1 to 64 of A-Z a-z 0-9 _ - [default: a random one]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    env: EnvOption,
    #[command(flatten)]
    options: Box<SessionOptions>,
    /// Ends the session after this time without use, such as 10m [default: session.idle_timeout]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "New session")]
    idle_timeout: Option<Duration>,
    /// Attaches a string, which `show --json` returns; repeatable
    #[arg(long, value_name = "NAME=VALUE", help_heading = "New session")]
    metadata: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct One {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    daemon: Daemon,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let (Command::Create(CreateArgs { daemon, .. })
    | Command::List(daemon)
    | Command::Show(One { daemon, .. })
    | Command::Reset(One { daemon, .. })
    | Command::Interrupt(One { daemon, .. })
    | Command::Delete(One { daemon, .. })
    | Command::Keepalive(One { daemon, .. })) = command;
    let client = &mut Client::new(daemon.url.or_configured()?);
    target::runtime()?.block_on(async {
        match command {
            Command::Create(args) => create(client, args).await,
            Command::List(daemon) => list(client, daemon.json).await,
            Command::Show(one) => show(client, one).await,
            Command::Reset(one) => confirm(one, &client.reset(&one.session).await?, "reset"),
            Command::Interrupt(one) => {
                let reply = client.interrupt(&one.session).await?;
                confirm(one, &reply, &reply.detail)
            }
            Command::Keepalive(one) => {
                confirm(one, &client.keepalive(&one.session).await?, "kept alive")
            }
            Command::Delete(one) => {
                client.delete_session(&one.session).await?;
                confirm(one, &json!({"session_id": one.session}), "deleted")
            }
        }
    })?;
    Ok(Exit::Ok)
}

async fn create(client: &mut Client, args: &CreateArgs) -> Result<(), Failure> {
    let spec = SessionSpec {
        id: args.session.clone(),
        idle_timeout_ms: args.idle_timeout.map(milliseconds),
        env: args.env.read()?,
        metadata: pairs("--metadata", &args.metadata)?,
        ..args.options.spec()
    };
    let session = client.create_session(&spec).await?;
    if args.daemon.json {
        print::json(&session)
    } else {
        print::out(format!("{}\n", session.id).as_bytes())
    }
}

async fn list(client: &mut Client, json: bool) -> Result<(), Failure> {
    let sessions = client.all_sessions(SessionQuery::default(), usize::MAX).await?;
    if json {
        return print::json(&sessions);
    }
    let now = Timestamp::now();
    let heading = ["ID", "STATE", "ENVIRONMENT", "NETWORK", "CREATED", "EXPIRES", "EXECUTIONS"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for session in &sessions {
        rows.push(vec![
            session.id.clone(),
            human::word(&session.state),
            session.environment.clone(),
            human::word(&session.network),
            human::when(session.created_at, now),
            human::when(session.expires_at, now),
            session.usage.executions.to_string(),
        ]);
    }
    print::out(print::table(&rows, &[6]).as_bytes())
}

async fn show(client: &mut Client, one: &One) -> Result<(), Failure> {
    let session = client.session(&one.session).await?;
    if one.daemon.json {
        return print::json(&session);
    }
    let now = Timestamp::now();
    let time = |at| format!("{at:.0} ({})", human::when(at, now));
    let mut rows: Vec<Vec<String>> = [
        ("id", session.id.clone()),
        ("state", human::word(&session.state)),
        ("environment", session.environment.clone()),
        ("network", human::word(&session.network)),
        ("created", time(session.created_at)),
        ("last used", time(session.last_used_at)),
        ("expires", time(session.expires_at)),
        ("executions", session.usage.executions.to_string()),
        ("queued", session.usage.queued.to_string()),
        ("cpu", format!("{:.1} ms", session.usage.cpu_ms)),
        ("memory", human::size_or_dash(session.usage.memory_bytes)),
        ("disk", human::size_or_dash(session.usage.disk_bytes)),
    ]
    .map(|(name, value)| vec![name.to_owned(), value])
    .to_vec();
    for report in &session.protection {
        rows.push(vec![
            report.layer.to_string(),
            format!("{}: {}", report.status, escape(&report.detail)),
        ]);
    }
    print::out(print::table(&rows, &[]).as_bytes())
}

fn confirm(one: &One, reply: &impl Serialize, done: &str) -> Result<(), Failure> {
    if one.daemon.json {
        print::json(reply)
    } else {
        print::out(format!("{}: {done}\n", one.session).as_bytes())
    }
}
