//! `vivarium files mkdir`, `mv`, `chmod` and `stat`.

use clap::Args;
use jiff::Timestamp;
use vivarium_api_types::{FileChange, FileInfo};
use vivarium_client::{Client, ClientError};

use crate::exit::{Exit, Failure};
use crate::options::UrlOption;
use crate::terminal::{Terminals, escape};
use crate::{human, print};

#[derive(Debug, Args)]
pub(crate) struct MkdirArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// Directories in the session; those that exist are left as they are
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<String>,
    #[command(flatten)]
    pub(super) url: UrlOption,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium files mv demo draft.csv result.csv
  vivarium files mv --force demo result.csv old/")]
pub(crate) struct MvArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// Its name in the session
    #[arg(value_name = "NAME")]
    name: String,
    /// Its new name; with a / at the end, the directory to move it into. Missing ones are made
    #[arg(value_name = "TO")]
    to: String,
    /// Replaces an existing file, or an empty directory by a directory
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(super) url: UrlOption,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium files chmod demo 755 build.sh")]
pub(crate) struct ChmodArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// Permissions in octal, such as 644 or 0755
    #[arg(value_name = "MODE")]
    mode: String,
    /// Files and directories in the session
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    pub(super) url: UrlOption,
}

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// A file, directory or link in the session; a link is shown itself
    #[arg(value_name = "NAME")]
    name: String,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) url: UrlOption,
}

pub(super) async fn mkdir(client: &mut Client, args: &MkdirArgs) -> Result<(), Failure> {
    for dir in &args.dirs {
        client.make_directory(&args.session, dir).await?;
    }
    Ok(())
}

pub(super) async fn mv(client: &mut Client, args: &MvArgs) -> Result<(), Failure> {
    let mut to = args.to.clone();
    if to.ends_with('/') {
        let name = args.name.trim_end_matches('/');
        to.push_str(name.rsplit('/').next().unwrap_or(name));
    }
    let change = FileChange { move_to: Some(to), replace: args.force, mode: None };
    match client.change_file(&args.session, &args.name, &change).await {
        Err(ClientError::Problem { code, detail, .. }) if code == "file_exists" => {
            let why = format!("{detail}: name another, or use --force");
            Err(Failure::says(Exit::Error, why))
        }
        moved => Ok(moved.map(drop)?),
    }
}

pub(super) async fn chmod(client: &mut Client, args: &ChmodArgs) -> Result<(), Failure> {
    let change = FileChange { mode: Some(args.mode.clone()), ..FileChange::default() };
    for name in &args.names {
        client.change_file(&args.session, name, &change).await?;
    }
    Ok(())
}

pub(super) async fn stat(client: &mut Client, args: &StatArgs) -> Result<(), Failure> {
    let file = client.stat_file(&args.session, &args.name).await?;
    if args.json {
        return print::json(&file);
    }
    print::out(shown(&file, Timestamp::now(), Terminals::look().stdout).as_bytes())
}

fn shown(file: &FileInfo, now: Timestamp, is_terminal: bool) -> String {
    let path = if is_terminal { escape(&file.path) } else { file.path.as_str().into() };
    let modified = format!("{:.0} ({})", file.modified_at, human::when(file.modified_at, now));
    let mut rows = vec![
        ("path", path.into_owned()),
        ("kind", <&str>::from(file.kind).to_owned()),
        ("size", format!("{} ({} bytes)", human::size(file.size_bytes), file.size_bytes)),
        ("modified", modified),
        ("mode", file.mode.clone()),
    ];
    rows.extend(file.mime_type.clone().map(|mime_type| ("type", mime_type)));
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    print::table(&rows, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_protocol::message::FileKind;

    #[test]
    fn a_file_is_shown_with_its_exact_size_and_a_name_that_a_terminal_can_take() {
        let file = FileInfo {
            path: "a\x1b[2J.csv".into(),
            kind: FileKind::File,
            size_bytes: 1536,
            modified_at: "2026-07-01T12:00:00Z".parse().unwrap(),
            mode: "0644".into(),
            mime_type: Some("text/csv".into()),
        };
        let now = "2026-07-01T12:05:00Z".parse().unwrap();
        assert_eq!(
            shown(&file, now, true),
            "path      a\\x1b[2J.csv\nkind      file\nsize      1.5 KiB (1536 bytes)\n\
             modified  2026-07-01T12:00:00Z (5 min ago)\nmode      0644\ntype      text/csv\n"
        );
        assert!(shown(&file, now, false).contains('\x1b'));
    }
}
