//! `vivarium images`: what there is on disk of suspended sessions, here and on another host.

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use vivarium_api_types::StoredImage;
use vivarium_client::Client;

use super::exit::{Exit, Failure};
use super::options::DaemonOptions;
use super::transfer::{self, Download};
use super::{human, print, target};

/// What to do with images.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Lists the images of suspended sessions.
    List(ListArgs),
    /// Shows the image of a suspended session.
    Show(One),
    /// Writes the image of a suspended session, or a checkpoint, to a file for another host.
    Export(ExportArgs),
    /// Makes a suspended session of an exported image, and prints its id.
    Import(ImportArgs),
    /// Deletes the images of suspended sessions, and so the sessions.
    Rm(Several),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct One {
    /// The suspended session's id
    #[arg(value_name = "SESSION")]
    session: String,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct Several {
    /// The suspended sessions' ids
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The other host has to have the same key (images.key_file) and the same environment.

Examples:
  vivarium sessions suspend demo
  vivarium images export demo
  vivarium images export demo - | ssh other vivarium images import -")]
pub(super) struct ExportArgs {
    /// The suspended session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// The file to write, or a directory for it; - is standard output [default: SESSION.tar]
    #[arg(value_name = "FILE")]
    file: Option<String>,
    /// Exports this checkpoint of the session, which need not be suspended
    #[arg(long, value_name = "CHECKPOINT")]
    checkpoint: Option<String>,
    /// Replaces a file that exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium images import demo.tar
  vivarium images import demo.tar --id demo-2")]
pub(super) struct ImportArgs {
    /// An exported image; - is standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// The new session's id [default: the one it had where it was exported]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    daemon: DaemonOptions,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let (Command::List(ListArgs { daemon, .. })
    | Command::Show(One { daemon, .. })
    | Command::Export(ExportArgs { daemon, .. })
    | Command::Import(ImportArgs { daemon, .. })
    | Command::Rm(Several { daemon, .. })) = command;
    let client = &mut Client::new(daemon.url.or_configured()?);
    target::runtime()?.block_on(async {
        match command {
            Command::List(_) => list(client, daemon).await,
            Command::Show(one) => {
                let image = client.image(&one.session).await?;
                if daemon.json { print::json(&image) } else { show(&image) }
            }
            Command::Export(args) => export(client, args).await,
            Command::Import(args) => import(client, args).await,
            Command::Rm(args) => {
                for id in &args.sessions {
                    client.delete_image(id).await?;
                    daemon.confirm(id, &json!({"session_id": id}), "deleted")?;
                }
                Ok(())
            }
        }
    })?;
    Ok(Exit::Ok)
}

async fn list(client: &mut Client, daemon: &DaemonOptions) -> Result<(), Failure> {
    let images = client.all_images().await?;
    if daemon.json {
        return print::json(&images);
    }
    let now = Timestamp::now();
    let heading = ["SESSION", "ENVIRONMENT", "SIZE", "EXECUTIONS", "SUSPENDED", "EXPIRES"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for StoredImage { session_id, environment, executions, image, .. } in images {
        rows.push(vec![
            session_id,
            environment,
            human::size(image.size_bytes),
            executions.to_string(),
            human::when(image.suspended_at, now),
            image.expires_at.map_or_else(|| "-".to_owned(), |at| human::when(at, now)),
        ]);
    }
    print::out(print::table(&rows, &[2, 3]).as_bytes())
}

fn show(
    StoredImage { session_id, environment, template, executions, image }: &StoredImage,
) -> Result<(), Failure> {
    let now = Timestamp::now();
    let when = |at: Timestamp| format!("{at:.0} ({})", human::when(at, now));
    let rows = [
        ("session", session_id.clone()),
        ("environment", environment.clone()),
        ("size", format!("{} ({} bytes)", human::size(image.size_bytes), image.size_bytes)),
        ("executions", executions.to_string()),
        ("suspended", when(image.suspended_at)),
        ("expires", image.expires_at.map_or_else(|| "never".to_owned(), when)),
        ("auto resume", human::yes_or_no(image.auto_resume)),
        ("template", template.clone()),
    ];
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    print::out(print::table(&rows, &[]).as_bytes())
}

async fn export(client: &mut Client, args: &ExportArgs) -> Result<(), Failure> {
    let ExportArgs { session, file, checkpoint, force, daemon } = args;
    let name = format!("{session}.tar");
    let download =
        Download { name: &name, file: file.as_deref(), replace: *force, is_binary: true };
    let written = download.keep(async |to| {
        let response = client.export_image(session, checkpoint.as_deref()).await?;
        Ok(response.copy_to(to).await?)
    });
    let Some((path, size_bytes)) = written.await? else { return Ok(()) };
    let reply = json!({"session_id": session, "file": path, "size_bytes": size_bytes});
    let done = format!("{}, {}", path.display(), human::size(size_bytes));
    daemon.confirm(session, &reply, &done)
}

async fn import(client: &mut Client, args: &ImportArgs) -> Result<(), Failure> {
    let source = transfer::open(&args.file).await?;
    if source.is_directory {
        let why = format!("{} is a directory: name an exported image", args.file);
        return Err(Failure::says(Exit::Usage, why));
    }
    let session =
        client.import_image(args.id.as_deref(), source.content, source.length_bytes).await?;
    if args.daemon.json {
        return print::json(&session);
    }
    print::out(format!("{}\n", session.id).as_bytes())
}
