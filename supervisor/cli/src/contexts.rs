//! `vivarium contexts`: the kernels of a daemon's session.

use clap::Args;
use serde_json::json;
use vivarium_api_types::{ContextSpec, ResetReply, ResetScope};
use vivarium_client::Client;

use super::exit::{Exit, Failure};
use super::options::DaemonOptions;
use super::{human, print, target};

/// What to do with contexts.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Lists the contexts of a session.
    List(ListArgs),
    /// Opens a context, with variables and a queue of its own, and prints its id.
    Create(CreateArgs),
    /// Deletes a context and what it runs.
    Delete(One),
    /// Replaces a context's kernel: its variables and processes are gone, files stay.
    Reset(One),
    /// Interrupts the code that a context is running.
    Interrupt(One),
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
  vivarium contexts create demo plots
  vivarium exec --context plots demo -c 'x = 6 * 7'")]
pub(super) struct CreateArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// The new context's id: 1 to 64 of A-Z a-z 0-9 _ - [default: a random one]
    #[arg(value_name = "CONTEXT")]
    id: Option<String>,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct One {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// The context's id; every session has `main`
    #[arg(value_name = "CONTEXT")]
    id: String,
    #[command(flatten)]
    daemon: DaemonOptions,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let (Command::List(ListArgs { daemon, .. })
    | Command::Create(CreateArgs { daemon, .. })
    | Command::Delete(One { daemon, .. })
    | Command::Reset(One { daemon, .. })
    | Command::Interrupt(One { daemon, .. })) = command;
    let client = &mut Client::new(daemon.url.or_configured()?);
    target::runtime()?.block_on(async {
        match command {
            Command::List(args) => list(client, args).await,
            Command::Create(args) => create(client, args).await,
            Command::Delete(One { session, id, daemon }) => {
                client.delete_context(session, id).await?;
                daemon.confirm(id, &json!({"session_id": session, "context": id}), "deleted")
            }
            Command::Reset(One { session, id, daemon }) => {
                let reply = client.reset_context(session, id).await?;
                daemon.confirm(id, &reply, reset_done(&reply))
            }
            Command::Interrupt(One { session, id, daemon }) => {
                let reply = client.interrupt_context(session, id).await?;
                daemon.confirm(id, &reply, &reply.detail)
            }
        }
    })?;
    Ok(Exit::Ok)
}

/// What a reset has done.
pub(super) const fn reset_done(reply: &ResetReply) -> &'static str {
    match reply.scope {
        ResetScope::Context => "reset",
        ResetScope::Session => "reset, and with it every context and process of the session",
    }
}

async fn list(client: &mut Client, args: &ListArgs) -> Result<(), Failure> {
    let contexts = client.list_contexts(&args.session).await?.contexts;
    if args.daemon.json {
        return print::json(&contexts);
    }
    let heading = ["ID", "STATE", "KERNEL", "GENERATION", "RUNNING", "QUEUED"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    for context in contexts {
        rows.push(vec![
            context.id,
            human::word(&context.state),
            or_dash(context.kernel_origin.map(|origin| human::word(&origin))),
            or_dash(context.generation.map(|number| number.to_string())),
            or_dash(context.running),
            context.queued.to_string(),
        ]);
    }
    print::out(print::table(&rows, &[3, 5]).as_bytes())
}

async fn create(client: &mut Client, args: &CreateArgs) -> Result<(), Failure> {
    let context = client.open_context(&args.session, &ContextSpec { id: args.id.clone() }).await?;
    if args.daemon.json {
        print::json(&context)
    } else {
        print::out(format!("{}\n", context.id).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_of_the_whole_session_says_so() {
        let reply = |scope| ResetReply {
            session_id: "demo".to_owned(),
            context: "plots".to_owned(),
            ended_execution_id: None,
            scope,
        };
        assert_eq!(reset_done(&reply(ResetScope::Context)), "reset");
        assert!(reset_done(&reply(ResetScope::Session)).contains("every context"));
    }
}
