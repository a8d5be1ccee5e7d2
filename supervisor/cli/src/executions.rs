//! `vivarium executions`: what runs, or has run, in a session of a daemon.

use clap::Args;
use jiff::Timestamp;
use vivarium_api_types::{ExecutionSummary, Progress};
use vivarium_client::{Client, Event, Execution, Remote};

use super::exit::{Exit, Failure};
use super::input::{self, AtEnd};
use super::options::UrlOption;
use super::outcome::{self, OutcomeSummary};
use super::printer::Printer;
use super::target::{self, EventStream, Target};
use super::{human, print};

/// What to do with executions.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Lists what waits or runs in a session.
    List(ListArgs),
    /// Prints what an execution prints, from the first that is kept, until it ends.
    Attach(AttachArgs),
    /// Writes standard input to a command that was started with --interactive.
    Write(WriteArgs),
    /// Sends a signal to a command; to code, SIGINT alone.
    Signal(SignalArgs),
    /// Waits until an execution ends, and ends with its exit code.
    Wait(WaitArgs),
}

#[derive(Debug, Args)]
struct One {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// The execution's id
    #[arg(value_name = "EXECUTION")]
    id: String,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// Includes those that have ended, while their results are kept
    #[arg(short, long)]
    all: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    url: UrlOption,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Ctrl-C ends this alone: the execution goes on.

Examples:
  id=$(vivarium exec --background --interactive demo --argv python3 -i -q)
  vivarium executions attach --interactive demo \"$id\"")]
pub(super) struct AttachArgs {
    #[command(flatten)]
    one: One,
    /// Passes standard input on to a command that was started with --interactive
    #[arg(short, long)]
    interactive: bool,
    #[command(flatten)]
    url: UrlOption,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo 'print(6 * 7)' | vivarium executions write demo 3")]
pub(super) struct WriteArgs {
    #[command(flatten)]
    one: One,
    /// Closes the command's input afterwards
    #[arg(long)]
    close: bool,
    #[command(flatten)]
    url: UrlOption,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium executions signal demo 3
  vivarium executions signal demo 3 HUP")]
pub(super) struct SignalArgs {
    #[command(flatten)]
    one: One,
    /// Its name, with or without SIG. KILL ends what the command has started, too
    #[arg(value_name = "SIGNAL", default_value = "TERM")]
    signal: String,
    #[command(flatten)]
    url: UrlOption,
}

#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    #[command(flatten)]
    one: One,
    /// Prints the outcome as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    url: UrlOption,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let (Command::List(ListArgs { url, .. })
    | Command::Attach(AttachArgs { url, .. })
    | Command::Write(WriteArgs { url, .. })
    | Command::Signal(SignalArgs { url, .. })
    | Command::Wait(WaitArgs { url, .. })) = command;
    let remote = url.or_configured()?;
    let mut client = Client::new(remote.clone());
    target::block_on(async {
        match command {
            Command::List(args) => list(&mut client, args).await.map(|()| Exit::Ok),
            Command::Attach(args) => attach(remote, args).await,
            Command::Write(WriteArgs { one, close, .. }) => {
                let at_end = if *close { AtEnd::Close } else { AtEnd::LeaveOpen };
                let target = Target::Daemon(remote);
                if input::forward(&target, &one.session, &one.id, at_end).await? {
                    return Ok(Exit::Ok);
                }
                let why = "the command has ended, or its standard input is not open: start it with \
                           --interactive";
                Err(Failure::says(Exit::Error, why))
            }
            Command::Signal(SignalArgs { one, signal, .. }) => {
                client.signal(&one.session, &one.id, signal).await?;
                Ok(Exit::Ok)
            }
            Command::Wait(args) => wait(client, remote, args).await,
        }
    })
}

async fn list(client: &mut Client, args: &ListArgs) -> Result<(), Failure> {
    let mut executions = client.all_executions(&args.session).await?;
    executions.retain(|execution| args.all || execution.state != Progress::Done);
    if args.json {
        return print::json(&executions);
    }
    print::out(table(&executions, Timestamp::now()).as_bytes())
}

fn table(executions: &[ExecutionSummary], now: Timestamp) -> String {
    let heading = ["ID", "KIND", "STATE", "STATUS", "QUEUED", "STARTED", "ENDED"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for execution in executions {
        let when =
            |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| human::when(at, now));
        rows.push(vec![
            execution.id.clone(),
            human::word(&execution.kind),
            human::word(&execution.state),
            execution.status.as_ref().map_or_else(|| "-".to_owned(), human::word),
            human::when(execution.queued_at, now),
            when(execution.started_at),
            when(execution.ended_at),
        ]);
    }
    print::table(&rows, &[])
}

async fn attach(remote: Remote, args: &AttachArgs) -> Result<Exit, Failure> {
    let AttachArgs { one: One { session, id }, interactive, .. } = args;
    let execution = Execution::attach(Client::new(remote.clone()), session, id, None).await?;
    let mut printer = Printer::new(None, true, false);
    let follow = printer.follow(EventStream::Daemon(Box::new(execution)));
    if !interactive {
        return follow.await;
    }
    let target = Target::Daemon(remote);
    input::beside(follow, input::forward(&target, session, id, AtEnd::Close)).await
}

async fn wait(mut client: Client, remote: Remote, args: &WaitArgs) -> Result<Exit, Failure> {
    let WaitArgs { one: One { session, id }, json, .. } = args;
    let mut execution = Execution::attach(Client::new(remote), session, id, None).await?;
    let mut exception = None;
    let done = loop {
        match execution.next().await? {
            Some(Event::Error(error)) => exception = Some(error),
            Some(Event::Done(done)) => break done,
            Some(_) => {}
            None => return Err(outcome::missing()),
        }
    };
    if *json {
        print::json(&client.execution(session, id).await?.outcome)?;
    }
    Ok(OutcomeSummary::new(&done, exception.as_ref()).exit())
}
