//! `vivarium sessions`

mod images;
mod update;

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use vivarium_api_types::{PolicyEntry, SessionQuery, SessionSpec, SessionState};
use vivarium_client::Client;
use vivarium_config::duration;

use super::contexts::reset_done;
use super::exit::{Exit, Failure};
use super::inputs::milliseconds;
use super::options::{
    CheckpointOptions, DaemonOptions, EnvOption, HomeOptions, SessionOptions, named, pairs,
};
use super::terminal::escape;
use super::{human, print, target};
use images::SessionsArgs;
use update::UpdateArgs;

/// What to do with sessions.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Creates a session and prints its id.
    Create(CreateArgs),
    /// Lists sessions.
    List(ListArgs),
    /// Shows a session.
    Show(ShowArgs),
    /// Changes metadata, times and limits of a session.
    Update(UpdateArgs),
    /// Replaces the kernel of a session's main context: variables and processes are gone, files stay.
    Reset(One),
    /// Interrupts the code that a session's main context is running.
    Interrupt(One),
    /// Deletes a session and its working directory.
    Delete(One),
    /// Restarts a session's idle timeout.
    Keepalive(One),
    /// Suspends sessions: writes their memory and files to disk, and ends their processes.
    Suspend(SessionsArgs),
    /// Resumes suspended sessions.
    Resume(SessionsArgs),
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
    daemon: DaemonOptions,
    #[command(flatten)]
    env: EnvOption,
    #[command(flatten)]
    options: Box<SessionOptions>,
    #[command(flatten)]
    home: HomeOptions,
    /// Ends the session after this time without use, such as 10m [default: session.idle_timeout]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "New session")]
    idle_timeout: Option<Duration>,
    /// Ends the session then, whatever it does: after a time, such as 2h, or at 2026-01-01T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = update::deadline, help_heading = "New session")]
    deadline: Option<Timestamp>,
    /// Resumes the session by request only, not by any call
    #[arg(long, help_heading = "New session")]
    no_auto_resume: bool,
    #[command(flatten)]
    checkpoints: CheckpointOptions,
    /// Attaches a string, by which `list` finds the session; repeatable
    #[arg(long, value_name = "NAME=VALUE", help_heading = "New session")]
    metadata: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium sessions list --state idle --metadata user=ada")]
pub(super) struct ListArgs {
    /// Only sessions in this state; repeatable: in one of these
    #[arg(long, value_name = "STATE", value_parser = named(STATES))]
    state: Vec<SessionState>,
    /// Only sessions with this in their metadata; repeatable: with all of these
    #[arg(long, value_name = "NAME=VALUE")]
    metadata: Vec<String>,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    one: One,
    /// Shows each limit, time and quota that holds, and where it comes from, instead
    #[arg(long)]
    policy: bool,
}

#[derive(Debug, Args)]
pub(super) struct One {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    daemon: DaemonOptions,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let (Command::Create(CreateArgs { daemon, .. })
    | Command::List(ListArgs { daemon, .. })
    | Command::Update(UpdateArgs { one: One { daemon, .. }, .. })
    | Command::Show(ShowArgs { one: One { daemon, .. }, .. })
    | Command::Reset(One { daemon, .. })
    | Command::Interrupt(One { daemon, .. })
    | Command::Delete(One { daemon, .. })
    | Command::Keepalive(One { daemon, .. })
    | Command::Suspend(SessionsArgs { daemon, .. })
    | Command::Resume(SessionsArgs { daemon, .. })) = command;
    let client = &mut Client::new(daemon.url.or_configured()?);
    target::runtime()?.block_on(async {
        match command {
            Command::Suspend(args) => {
                return images::each(client, args, Client::suspend_session).await;
            }
            Command::Resume(args) => {
                return images::each(client, args, Client::resume_session).await;
            }
            Command::Create(args) => create(client, args).await,
            Command::List(args) => list(client, args).await,
            Command::Update(args) => {
                let session = client.update_session(&args.one.session, &args.patch()?).await?;
                confirm(&args.one, &session, "updated")
            }
            Command::Show(args) if args.policy => show_policy(client, &args.one).await,
            Command::Show(args) => show(client, &args.one).await,
            Command::Reset(one) => {
                let reply = client.reset(&one.session).await?;
                confirm(one, &reply, reset_done(&reply))
            }
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
        }?;
        Ok(Exit::Ok)
    })
}

/// The states of sessions that can be found.
const STATES: [SessionState; 6] = {
    use SessionState::{Idle, Interrupting, Replacing, Running, Starting, Suspended};
    [Starting, Idle, Running, Interrupting, Replacing, Suspended]
};

impl CreateArgs {
    fn spec(&self) -> Result<SessionSpec, Failure> {
        Ok(SessionSpec {
            id: self.session.clone(),
            idle_timeout_ms: self.idle_timeout.map(milliseconds),
            env: self.env.read()?,
            deadline: self.deadline,
            auto_resume: self.no_auto_resume.then_some(false),
            checkpoint: self.checkpoints.mode(),
            auto_rollback: self.checkpoints.rolls_back(),
            metadata: pairs("--metadata", &self.metadata)?,
            home: self.home.home(),
            volumes: self.home.volumes(),
            ..self.options.spec()
        })
    }
}

async fn create(client: &mut Client, args: &CreateArgs) -> Result<(), Failure> {
    let session = client.create_session(&args.spec()?).await?;
    if args.daemon.json {
        print::json(&session)
    } else {
        print::out(format!("{}\n", session.id).as_bytes())
    }
}

async fn list(client: &mut Client, args: &ListArgs) -> Result<(), Failure> {
    let query = SessionQuery {
        state: args.state.clone(),
        metadata: pairs("--metadata", &args.metadata)?,
        ..SessionQuery::default()
    };
    let sessions = client.all_sessions(query, usize::MAX).await?;
    if args.daemon.json {
        return print::json(&sessions);
    }
    let now = Timestamp::now();
    let heading =
        ["ID", "STATE", "ENVIRONMENT", "NETWORK", "CREATED", "EXPIRES", "EXECUTIONS", "IMAGE"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for session in &sessions {
        rows.push(vec![
            session.id.clone(),
            human::word(&session.state),
            session.environment.clone(),
            human::word(&session.network),
            human::when(session.created_at, now),
            images::expires(session).map_or_else(|| "-".to_owned(), |at| human::when(at, now)),
            session.usage.executions.to_string(),
            session.image.map_or_else(|| "-".to_owned(), |image| images::summary(&image, now)),
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
        ("expires", images::expires(&session).map_or_else(|| "-".to_owned(), time)),
        ("executions", session.usage.executions.to_string()),
        ("queued", session.usage.queued.to_string()),
        ("cpu", format!("{:.1} ms", session.usage.cpu_ms)),
        ("memory", human::size_or_dash(session.usage.memory_bytes)),
        ("disk", human::size_or_dash(session.usage.disk_bytes)),
    ]
    .map(|(name, value)| vec![name.to_owned(), value])
    .to_vec();
    rows.extend(session.image.iter().flat_map(|image| images::rows(image, now)));
    rows.extend(session.deadline.map(|at| vec!["deadline".to_owned(), time(at)]));
    for (name, value) in &session.metadata {
        let pair = format!("{name}={value}");
        rows.push(vec!["metadata".to_owned(), escape(&pair).into_owned()]);
    }
    for report in &session.protection {
        rows.push(vec![
            report.layer.to_string(),
            format!("{}: {}", report.status, escape(&report.detail)),
        ]);
    }
    print::out(print::table(&rows, &[]).as_bytes())
}

async fn show_policy(client: &mut Client, one: &One) -> Result<(), Failure> {
    let session = client.session(&one.session).await?;
    if one.daemon.json {
        return print::json(&session.policy);
    }
    let mut rows = vec![["KEY", "VALUE", "SOURCE"].map(str::to_owned).to_vec()];
    for PolicyEntry { key, value, source } in session.policy {
        rows.push(vec![key, escape(&value.to_string()).into_owned(), human::word(&source)]);
    }
    print::out(print::table(&rows, &[]).as_bytes())
}

fn confirm(one: &One, reply: &impl Serialize, done: &str) -> Result<(), Failure> {
    one.daemon.confirm(&one.session, reply, done)
}
