//! `vivarium sessions`

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;
use vivarium_api_types::{SessionInfo, SessionSpec};
use vivarium_client::{Client, Method};
use vivarium_server::config::duration;

use super::exit::{Exit, Failure};
use super::inputs::milliseconds;
use super::options::{SessionOptions, UrlOption, pairs};
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
    let mut client = Client::new(daemon.url.or_configured()?);
    target::runtime()?.block_on(async {
        match command {
            Command::Create(args) => create(&mut client, args).await,
            Command::List(daemon) => list(&mut client, daemon.json).await,
            Command::Show(one) => show(&mut client, one).await,
            Command::Reset(one) => post(&mut client, one, "reset").await,
            Command::Interrupt(one) => post(&mut client, one, "interrupt").await,
            Command::Keepalive(one) => post(&mut client, one, "keepalive").await,
            Command::Delete(one) => {
                let path = target::session_path(&one.session);
                let answer: Value = target::request(&mut client, Method::DELETE, &path).await?;
                confirm(&answer, one, "deleted")
            }
        }
    })?;
    Ok(Exit::Ok)
}

async fn create(client: &mut Client, args: &CreateArgs) -> Result<(), Failure> {
    let spec = SessionSpec {
        id: args.session.clone(),
        idle_timeout_ms: args.idle_timeout.map(milliseconds),
        metadata: pairs("--metadata", &args.metadata)?,
        ..args.options.spec()?
    };
    let session: SessionInfo = client.json(Method::POST, "/v1/sessions", Some(&spec)).await?;
    if args.daemon.json {
        print::json(&session)
    } else {
        print::out(format!("{}\n", session.id).as_bytes())
    }
}

async fn list(client: &mut Client, json: bool) -> Result<(), Failure> {
    let sessions = target::list_sessions(client, usize::MAX).await?;
    if json {
        return print::json(&sessions);
    }
    let now = Timestamp::now();
    let heading = ["ID", "STATE", "ENVIRONMENT", "NETWORK", "CREATED", "EXPIRES", "EXECUTIONS"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for session in &sessions {
        rows.push(vec![
            session.id.clone(),
            word(&session.state),
            session.environment.clone(),
            word(&session.network),
            human::when(session.created_at, now),
            human::when(session.expires_at, now),
            session.usage.executions.to_string(),
        ]);
    }
    print::out(print::table(&rows, &[6]).as_bytes())
}

async fn show(client: &mut Client, one: &One) -> Result<(), Failure> {
    let path = target::session_path(&one.session);
    let session: SessionInfo = target::request(client, Method::GET, &path).await?;
    if one.daemon.json {
        return print::json(&session);
    }
    let now = Timestamp::now();
    let time = |at| format!("{at:.0} ({})", human::when(at, now));
    let mut rows: Vec<Vec<String>> = [
        ("id", session.id.clone()),
        ("state", word(&session.state)),
        ("environment", session.environment.clone()),
        ("network", word(&session.network)),
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

async fn post(client: &mut Client, one: &One, action: &str) -> Result<(), Failure> {
    let path = format!("{}/{action}", target::session_path(&one.session));
    let answer: Value = target::request(client, Method::POST, &path).await?;
    let done = match action {
        "reset" => "reset",
        "interrupt" => "interrupt asked for",
        _ => "kept alive",
    };
    confirm(&answer, one, answer.get("detail").and_then(Value::as_str).unwrap_or(done))
}

fn confirm(answer: &Value, one: &One, done: &str) -> Result<(), Failure> {
    if one.daemon.json && !answer.is_null() {
        print::json(answer)
    } else if one.daemon.json {
        print::json(&serde_json::json!({"session_id": one.session}))
    } else {
        print::out(format!("{}: {done}\n", one.session).as_bytes())
    }
}

/// A value's name in the API.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => "?".to_owned(),
    }
}
