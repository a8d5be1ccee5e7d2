//! `vivarium files`: the files of a daemon's sessions.

mod entries;
mod watch;

use clap::Args;
use jiff::Timestamp;
use vivarium_api_types::FileInfo;
use vivarium_client::{Client, UploadKind};
use vivarium_protocol::message::FileKind;

use super::exit::{Exit, Failure};
use super::options::UrlOption;
use super::target::{self, Target};
use super::terminal::{Terminals, escape};
use super::{human, print, transfer};
use entries::{ChmodArgs, MkdirArgs, MvArgs, StatArgs};
use watch::WatchArgs;

/// What to do with files of a session.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Copies a file into a session.
    Put(PutArgs),
    /// Copies a file from a session.
    Get(GetArgs),
    /// Lists a directory of a session.
    List(ListArgs),
    /// Shows a file, directory or link of a session.
    Stat(StatArgs),
    /// Makes directories, and those they lie in.
    Mkdir(MkdirArgs),
    /// Moves a file, directory or link within a session.
    Mv(MvArgs),
    /// Changes the permissions of files and directories.
    Chmod(ChmodArgs),
    /// Deletes files, and directories with everything in them.
    Rm(RmArgs),
    /// Prints the changes below a directory of a session as they happen.
    Watch(WatchArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium files put demo data.csv
  tar -C project -c . | vivarium files put --unpack demo -")]
pub(super) struct PutArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// A local file, or - for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Its name in the session; with --unpack, a directory there
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Unpacks FILE, an uncompressed tar archive
    #[arg(long)]
    unpack: bool,
    #[command(flatten)]
    url: UrlOption,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium files get demo result.csv
  vivarium files get demo result.csv - | head")]
pub(super) struct GetArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// Its name in the session
    #[arg(value_name = "NAME")]
    name: String,
    /// A local file or directory, or - for standard output
    #[arg(value_name = "FILE")]
    file: Option<String>,
    /// Replaces an existing local file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    url: UrlOption,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// A directory in the session [default: its working directory]
    #[arg(value_name = "DIR", default_value = "", hide_default_value = true)]
    dir: String,
    /// Includes everything below it
    #[arg(short, long)]
    recursive: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    url: UrlOption,
}

#[derive(Debug, Args)]
pub(super) struct RmArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// Names in the session
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    url: UrlOption,
}

pub(super) fn main(command: &Command) -> Result<Exit, Failure> {
    let (Command::Put(PutArgs { url, .. })
    | Command::Get(GetArgs { url, .. })
    | Command::List(ListArgs { url, .. })
    | Command::Stat(StatArgs { url, .. })
    | Command::Mkdir(MkdirArgs { url, .. })
    | Command::Mv(MvArgs { url, .. })
    | Command::Chmod(ChmodArgs { url, .. })
    | Command::Rm(RmArgs { url, .. })
    | Command::Watch(WatchArgs { url, .. })) = command;
    let remote = url.or_configured()?;
    let client = &mut Client::new(remote.clone());
    let target = Target::Daemon(remote);
    target::block_on(async {
        match command {
            Command::Put(args) => {
                let how = if args.unpack { UploadKind::Archive } else { UploadKind::File };
                let name = args.name.as_deref();
                transfer::put(&target, &args.session, &args.file, name, how).await?;
            }
            Command::Get(args) => {
                let file = args.file.as_deref();
                let got =
                    transfer::get(&target, &args.session, &args.name, file, args.force).await?;
                if let Some((path, size_bytes)) = got {
                    let size = human::size(size_bytes);
                    print::note(&format!("wrote {} ({size})", path.display()));
                }
            }
            Command::List(args) => {
                let files = target.list_files(&args.session, &args.dir, args.recursive).await?;
                if args.json {
                    print::json(&files)?;
                } else {
                    print::out(table(&files, Terminals::look().stdout).as_bytes())?;
                }
            }
            Command::Stat(args) => entries::stat(client, args).await?,
            Command::Mkdir(args) => entries::mkdir(client, args).await?,
            Command::Mv(args) => entries::mv(client, args).await?,
            Command::Chmod(args) => entries::chmod(client, args).await?,
            Command::Watch(args) => watch::watch(client, args).await?,
            Command::Rm(args) => {
                for name in &args.names {
                    client.delete_file(&args.session, name).await?;
                }
            }
        }
        Ok(Exit::Ok)
    })
}

/// Files, one a line, with names that tenant code gave: a terminal gets them escaped.
pub(super) fn table(files: &[FileInfo], is_terminal: bool) -> String {
    let now = Timestamp::now();
    let mut rows = vec![["SIZE", "MODIFIED", "NAME"].map(str::to_owned).to_vec()];
    for file in files {
        let modified = human::when(file.modified_at, now);
        let name = if is_terminal { escape(&file.path) } else { file.path.as_str().into() };
        let mark = match file.kind {
            FileKind::Directory => "/",
            FileKind::Link => "@",
            FileKind::File | FileKind::Other => "",
        };
        rows.push(vec![human::size(file.size_bytes), modified, format!("{name}{mark}")]);
    }
    print::table(&rows, &[0])
}
