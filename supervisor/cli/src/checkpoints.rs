//! `vivarium checkpoints` and `vivarium rollback`: what a session was, to go back to.

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use vivarium_api_types::{Checkpoint, CheckpointDiff, CheckpointRequest, RollbackRequest};
use vivarium_client::Client;

use super::exit::{Exit, Failure};
use super::options::DaemonOptions;
use super::terminal::escape;
use super::{human, print, target};

/// What to do with checkpoints.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Lists the checkpoints of a session, the oldest first.
    List(ListArgs),
    /// Keeps what a session is now, memory and files, and prints the checkpoint's name.
    Create(CreateArgs),
    /// Lists the variables that were added (+), removed (-) and changed (~) up to a checkpoint.
    Diff(DiffArgs),
    /// Deletes a checkpoint.
    Delete(One),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium checkpoints create demo before
  vivarium exec demo -c 'rows.clear()'
  vivarium rollback demo before")]
pub(super) struct CreateArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// The new checkpoint's name: 1 to 64 of A-Z a-z 0-9 _ - [default: a number]
    #[arg(value_name = "CHECKPOINT")]
    name: Option<String>,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct One {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// The checkpoint's name
    #[arg(value_name = "CHECKPOINT")]
    name: String,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A variable has changed that is bound to another object, or to a number or text of another value, or whose list, dict,
set or tuple has another length. What changed deeper inside an object is not seen.")]
pub(super) struct DiffArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// The checkpoint's name
    #[arg(value_name = "CHECKPOINT")]
    name: String,
    /// The checkpoint to compare it with [default: the one before]
    #[arg(long, value_name = "OTHER")]
    from: Option<String>,
    #[command(flatten)]
    daemon: DaemonOptions,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let (Command::List(ListArgs { daemon, .. })
    | Command::Create(CreateArgs { daemon, .. })
    | Command::Diff(DiffArgs { daemon, .. })
    | Command::Delete(One { daemon, .. })) = command;
    let client = &mut Client::new(daemon.url.or_configured()?);
    target::runtime()?.block_on(async {
        match command {
            Command::List(args) => list(client, args).await,
            Command::Create(CreateArgs { session, name, daemon }) => {
                let request = CheckpointRequest { name: name.clone() };
                let made = client.make_checkpoint(session, &request).await?;
                if daemon.json {
                    return print::json(&made);
                }
                print::out(format!("{}\n", made.name).as_bytes())
            }
            Command::Diff(DiffArgs { session, name, from, daemon }) => {
                let diff = client.diff_checkpoints(session, name, from.as_deref()).await?;
                if daemon.json {
                    return print::json(&diff);
                }
                if diff.more {
                    print::note(
                        "not all names of these checkpoints are known: others may differ too",
                    );
                }
                print::out(lines(&diff).as_bytes())
            }
            Command::Delete(One { session, name, daemon }) => {
                client.delete_checkpoint(session, name).await?;
                daemon.confirm(name, &json!({"session_id": session, "checkpoint": name}), "deleted")
            }
        }
    })?;
    Ok(Exit::Ok)
}

/// `vivarium rollback`
pub(super) fn rollback(One { session, name, daemon }: &One) -> Result<Exit, Failure> {
    let client = &mut Client::new(daemon.url.or_configured()?);
    let request = RollbackRequest { checkpoint: name.clone() };
    let info = target::runtime()?.block_on(client.roll_back(session, &request))?;
    daemon.confirm(session, &info, &format!("rolled back to {name}"))?;
    Ok(Exit::Ok)
}

async fn list(client: &mut Client, args: &ListArgs) -> Result<(), Failure> {
    let checkpoints = client.list_checkpoints(&args.session).await?.checkpoints;
    if args.daemon.json {
        return print::json(&checkpoints);
    }
    print::out(table(checkpoints).as_bytes())
}

pub(super) fn table(checkpoints: Vec<Checkpoint>) -> String {
    let mut rows = vec![["NAME", "SIZE", "EXECUTIONS", "CREATED"].map(str::to_owned).to_vec()];
    let now = Timestamp::now();
    for checkpoint in checkpoints {
        rows.push(vec![
            checkpoint.name,
            human::size(checkpoint.size_bytes),
            checkpoint.executions.to_string(),
            human::when(checkpoint.created_at, now),
        ]);
    }
    print::table(&rows, &[1, 2])
}

/// A line for each variable, of all that is added, then removed, then changed.
fn lines(CheckpointDiff { added, removed, changed, .. }: &CheckpointDiff) -> String {
    let marked = [("+", added), ("-", removed), ("~", changed)];
    let rows = marked.into_iter().flat_map(|(mark, variables)| {
        variables.iter().map(move |it| {
            let name = format!("{mark} {}", one_line(&it.name));
            vec![name, one_line(&it.kind)]
        })
    });
    print::table(&rows.collect::<Vec<_>>(), &[])
}

/// What tenant code calls something, on a line of its own.
fn one_line(text: &str) -> String {
    escape(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use vivarium_api_types::Variable;

    use super::*;

    #[test]
    fn a_diff_has_a_line_for_each_variable_whatever_it_is_called() {
        let of = |name: &str, kind: &str| vec![Variable { name: name.into(), kind: kind.into() }];
        let diff = CheckpointDiff {
            from: None,
            to: "a".into(),
            added: of("rows", "list"),
            removed: of("x", "a\n+ b"),
            changed: of("\u{1b}[2J\u{202e}", "int"),
            more: false,
        };
        let shown =
            ["+ rows           list\n", "- x              a + b\n", "~ \\x1b[2J\\u202e  int\n"];
        assert_eq!(lines(&diff), shown.concat());
    }
}
