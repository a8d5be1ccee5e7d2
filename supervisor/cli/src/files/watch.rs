//! `vivarium files watch`.

use clap::Args;
use serde_json::{Value, json};
use vivarium_api_types::{FileEventInfo, WatchParams};
use vivarium_client::{Client, FileWatchEvent};

use crate::exit::Failure;
use crate::options::UrlOption;
use crate::print;
use crate::terminal::{Terminals, escape, escape_json};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vivarium files watch demo
  vivarium files watch --json demo out | jq --unbuffered -r .path")]
pub(crate) struct WatchArgs {
    /// The session's id
    #[arg(value_name = "SESSION")]
    session: String,
    /// A directory in the session [default: its working directory]
    #[arg(value_name = "DIR", default_value = "", hide_default_value = true)]
    dir: String,
    /// Leaves out the directories below it
    #[arg(long)]
    no_recursive: bool,
    /// Prints each event as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) url: UrlOption,
}

pub(super) async fn watch(client: &mut Client, args: &WatchArgs) -> Result<(), Failure> {
    let params = WatchParams { path: args.dir.clone(), recursive: !args.no_recursive };
    let is_terminal = Terminals::look().stdout;
    let mut watch = client.watch_files(&args.session, &params).await?;
    while let Some(event) = watch.next().await? {
        if args.json {
            print::out(format!("{}\n", escape_json(&as_json(&event).to_string())).as_bytes())?;
            continue;
        }
        match &event {
            FileWatchEvent::Ready => print::note("watching; Ctrl-C ends it"),
            FileWatchEvent::Overflow => print::note("some changes were missed: list the directory"),
            FileWatchEvent::Change(kind, info) => {
                print::out(line((*kind).into(), info, is_terminal).as_bytes())?;
            }
        }
    }
    print::note("the session or the directory is gone");
    Ok(())
}

fn line(kind: &str, info: &FileEventInfo, is_terminal: bool) -> String {
    let named = |path: &str| {
        let path = if is_terminal { escape(path) } else { path.into() };
        format!("{path}{}", if info.directory { "/" } else { "" })
    };
    let from = info.from.as_deref().map(|from| format!("{} -> ", named(from)));
    format!("{kind:<8}  {}{}\n", from.unwrap_or_default(), named(&info.path))
}

/// The event's data, and its type as `event`.
fn as_json(event: &FileWatchEvent) -> Value {
    match event {
        FileWatchEvent::Ready => json!({"event": "ready"}),
        FileWatchEvent::Overflow => json!({"event": "overflow"}),
        FileWatchEvent::Change(kind, info) => {
            let FileEventInfo { path, from, directory } = info;
            let kind = <&str>::from(*kind);
            match from {
                Some(from) => {
                    json!({"event": kind, "path": path, "from": from, "directory": directory})
                }
                None => json!({"event": kind, "path": path, "directory": directory}),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_protocol::message::FileEventKind;

    #[test]
    fn a_change_is_one_line() {
        let moved = FileEventInfo {
            path: "b\x1b.csv".into(),
            from: Some("a.csv".into()),
            directory: false,
        };
        assert_eq!(line("moved", &moved, true), "moved     a.csv -> b\\x1b.csv\n");
        let made = FileEventInfo { path: "d".into(), from: None, directory: true };
        assert_eq!(line("created", &made, false), "created   d/\n");
        let event = FileWatchEvent::Change(FileEventKind::Created, made);
        assert_eq!(as_json(&event), json!({"event": "created", "path": "d", "directory": true}));
    }
}
