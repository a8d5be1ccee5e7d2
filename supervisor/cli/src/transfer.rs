//! Transfers files between this host and a session.

mod download;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use tokio::fs::File;
use tokio::io::AsyncRead;
use vivarium_client::UploadKind;

use super::exit::{Exit, Failure};
use super::target::Target;

pub(super) use download::Download;

/// The name of standard input and output.
const STANDARD: &str = "-";

/// Puts a file of this host into a session; returns its name there.
pub(super) async fn put(
    target: &Target,
    session: &str,
    file: &str,
    name: Option<&str>,
    how: UploadKind,
) -> Result<String, Failure> {
    let name = match (name, how) {
        (Some(name), _) => name.to_owned(),
        (None, UploadKind::Archive) => String::new(),
        (None, UploadKind::File) if file == STANDARD => {
            return Err(usage("standard input has no name: give one".to_owned()));
        }
        (None, UploadKind::File) => last_part(file)?.to_owned(),
    };
    let source = open(file).await?;
    if source.is_directory {
        return Err(usage(format!(
            "{file} is a directory: tar -C {file} -c . | vivarium files put --unpack {session} -"
        )));
    }
    target.put_file(session, &name, how, source.content, source.length_bytes).await?;
    Ok(name)
}

/// What is sent.
pub(super) struct Source {
    pub(super) content: Box<dyn AsyncRead + Send + Unpin>,
    /// Only a regular file's is known before it is read.
    pub(super) length_bytes: Option<u64>,
    pub(super) is_directory: bool,
}

/// Opens a file of this host, or standard input.
pub(super) async fn open(file: &str) -> Result<Source, Failure> {
    if file == STANDARD {
        if io::stdin().is_terminal() {
            return Err(usage("standard input is a terminal: pipe something into it".to_owned()));
        }
        let content = Box::new(tokio::io::stdin());
        return Ok(Source { content, length_bytes: None, is_directory: false });
    }
    let unreadable = |error: io::Error| usage(format!("cannot open {file}: {error}"));
    let source = File::open(file).await.map_err(unreadable)?;
    let about = source.metadata().await.map_err(unreadable)?;
    let length_bytes = about.is_file().then_some(about.len());
    Ok(Source { content: Box::new(source), length_bytes, is_directory: about.is_dir() })
}

/// Gets a file from a session; returns its path and size, unless it went to standard output.
pub(super) async fn get(
    target: &Target,
    session: &str,
    name: &str,
    file: Option<&str>,
    replace: bool,
) -> Result<Option<(PathBuf, u64)>, Failure> {
    let download = Download { name, file, replace, is_binary: false };
    download.keep(async |to| target.get_file(session, name, to).await).await
}

fn last_part(path: &str) -> Result<&str, Failure> {
    let last = Path::new(path).file_name().and_then(|name| name.to_str());
    last.ok_or_else(|| usage(format!("{path} has no name: give one")))
}

fn usage(message: String) -> Failure {
    Failure::says(Exit::Usage, message)
}
