//! `vivarium homes` and `vivarium volumes`: what of a tenant's files outlives sessions.

use clap::Args;
use serde_json::json;
use vivarium_api_types::{FilePage, StorageInfo, VolumeSpec};
use vivarium_client::{Client, Store};

use super::exit::{Exit, Failure};
use super::options::DaemonOptions;
use super::terminal::Terminals;
use super::{files, human, print, target};

/// What to do with homes.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Lists homes.
    List(ListArgs),
    /// Lists a directory of a home.
    Files(FilesArgs),
    /// Prints a file of a home.
    Get(Named),
    /// Deletes files of a home, and directories with everything in them.
    Rm(Named),
    /// Deletes a home that no session has, with all its files.
    Delete(One),
}

/// What to do with volumes.
#[derive(Debug, clap::Subcommand)]
pub(super) enum VolumeCommand {
    /// Creates a volume.
    Create(One),
    /// Lists volumes.
    List(ListArgs),
    /// Lists a directory of a volume.
    Files(FilesArgs),
    /// Prints a file of a volume.
    Get(Named),
    /// Deletes files of a volume, and directories with everything in them.
    Rm(Named),
    /// Deletes a volume that no session has, with all its files.
    Delete(One),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct One {
    /// A home's id, which is its sessions' or `@tenant`; a volume's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    daemon: DaemonOptions,
}

#[derive(Debug, Args)]
pub(super) struct FilesArgs {
    #[command(flatten)]
    one: One,
    /// A directory in it
    #[arg(value_name = "DIR", default_value = "", hide_default_value = true)]
    dir: String,
    /// Includes everything below it
    #[arg(short, long)]
    recursive: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium homes get demo notes.txt >notes.txt")]
pub(super) struct Named {
    #[command(flatten)]
    one: One,
    /// A file in it
    #[arg(value_name = "FILE")]
    file: String,
}

impl Named {
    const fn daemon(&self) -> &DaemonOptions {
        &self.one.daemon
    }
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let daemon = match command {
        Command::List(ListArgs { daemon }) | Command::Delete(One { daemon, .. }) => daemon,
        Command::Files(args) => &args.one.daemon,
        Command::Get(args) | Command::Rm(args) => args.daemon(),
    };
    let client = &mut Client::new(daemon.url.or_configured()?);
    target::runtime()?.block_on(async {
        match command {
            Command::List(args) => list_homes(client, args).await,
            Command::Files(args) => list_files(client, Store::Home(&args.one.name), args).await,
            Command::Get(args) => get(client, Store::Home(&args.one.name), &args.file).await,
            Command::Rm(args) => {
                Ok(client.delete_stored(Store::Home(&args.one.name), &args.file).await?)
            }
            Command::Delete(one) => {
                client.delete_store(Store::Home(&one.name)).await?;
                one.daemon.confirm(&one.name, &json!({"id": one.name}), "deleted")
            }
        }
    })?;
    Ok(Exit::Ok)
}

pub(super) fn main_volumes(command: &VolumeCommand) -> Result<Exit, Failure> {
    let daemon = match command {
        VolumeCommand::List(ListArgs { daemon })
        | VolumeCommand::Create(One { daemon, .. })
        | VolumeCommand::Delete(One { daemon, .. }) => daemon,
        VolumeCommand::Files(args) => &args.one.daemon,
        VolumeCommand::Get(args) | VolumeCommand::Rm(args) => args.daemon(),
    };
    let client = &mut Client::new(daemon.url.or_configured()?);
    target::runtime()?.block_on(async {
        match command {
            VolumeCommand::List(args) => list_volumes(client, args).await,
            VolumeCommand::Create(one) => {
                let spec = VolumeSpec { name: one.name.clone() };
                let volume = client.create_volume(&spec).await?;
                one.daemon.confirm(&one.name, &volume, "created")
            }
            VolumeCommand::Files(args) => {
                list_files(client, Store::Volume(&args.one.name), args).await
            }
            VolumeCommand::Get(args) => {
                get(client, Store::Volume(&args.one.name), &args.file).await
            }
            VolumeCommand::Rm(args) => {
                Ok(client.delete_stored(Store::Volume(&args.one.name), &args.file).await?)
            }
            VolumeCommand::Delete(one) => {
                client.delete_store(Store::Volume(&one.name)).await?;
                one.daemon.confirm(&one.name, &json!({"name": one.name}), "deleted")
            }
        }
    })?;
    Ok(Exit::Ok)
}

async fn list_homes(client: &mut Client, args: &ListArgs) -> Result<(), Failure> {
    let homes = client.list_homes().await?.homes;
    if args.daemon.json {
        return print::json(&homes);
    }
    let rows = homes.into_iter().map(|home| row(home.id, &home.storage));
    print::out(table("ID", rows).as_bytes())
}

async fn list_volumes(client: &mut Client, args: &ListArgs) -> Result<(), Failure> {
    let volumes = client.list_volumes().await?.volumes;
    if args.daemon.json {
        return print::json(&volumes);
    }
    let rows = volumes.into_iter().map(|volume| row(volume.name, &volume.storage));
    print::out(table("NAME", rows).as_bytes())
}

fn table(name: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    let heading = [name, "USED", "MAX", "FILES", "LAST USED", "IN USE"].map(str::to_owned).to_vec();
    let rows: Vec<_> = [heading].into_iter().chain(rows).collect();
    print::table(&rows, &[1, 2, 3])
}

fn row(name: String, storage: &StorageInfo) -> Vec<String> {
    let files = storage.used_inodes.map_or_else(|| "-".to_owned(), |count| count.to_string());
    vec![
        name,
        human::size_or_dash(storage.used_bytes),
        human::size_or_dash(storage.max_bytes),
        files,
        human::when(storage.last_used_at, jiff::Timestamp::now()),
        human::yes_or_no(storage.in_use),
    ]
}

async fn list_files(
    client: &mut Client,
    store: Store<'_>,
    args: &FilesArgs,
) -> Result<(), Failure> {
    let mut page = FilePage {
        path: args.dir.clone(),
        recursive: args.recursive,
        limit: 1000,
        ..FilePage::default()
    };
    let mut found = Vec::new();
    loop {
        let list = client.list_stored(store, &page).await?;
        found.extend(list.entries);
        page.after = list.next;
        if page.after.is_none() {
            break;
        }
    }
    if args.one.daemon.json {
        return print::json(&found);
    }
    print::out(files::table(&found, Terminals::look().stdout).as_bytes())
}

async fn get(client: &mut Client, store: Store<'_>, file: &str) -> Result<(), Failure> {
    let mut response = client.read_stored(store, file).await?;
    while let Some(chunk) = response.chunk().await? {
        print::out(&chunk)?;
    }
    Ok(())
}
