//! Where a download goes on this host.
//!
//! Must never replace a file without `--force`, nor anything but a file, nor leave half of one.

use std::fs::{self, FileType, Permissions};
use std::io::{self, IsTerminal};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::Builder;
use tokio::fs::File;
use tokio::io::AsyncWrite;

use super::{STANDARD, last_part, usage};
use crate::exit::Failure;

/// Other names of standard output: opened anew, a file there would be written from its beginning.
const STANDARD_OUTPUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// What is received, and where it is to go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Download<'a> {
    /// Its last part is the name of the file where none is given.
    pub(crate) name: &'a str,
    pub(crate) file: Option<&'a str>,
    /// Whether a file that exists is replaced.
    pub(crate) replace: bool,
    /// Whether it must not go to a terminal.
    pub(crate) is_binary: bool,
}

#[derive(Debug)]
enum Destination {
    StandardOutput,
    /// A character device or FIFO, which is written to as it is.
    Stream(PathBuf),
    /// A file, which appears when it is complete. `target` is `path` with its links followed.
    File {
        path: PathBuf,
        target: PathBuf,
    },
}

impl Download<'_> {
    /// Writes what is received; returns path and size, unless it went to standard output.
    pub(crate) async fn keep(
        &self,
        receive: impl AsyncFnOnce(&mut (dyn AsyncWrite + Send + Unpin)) -> Result<u64, Failure>,
    ) -> Result<Option<(PathBuf, u64)>, Failure> {
        match self.destination()? {
            Destination::StandardOutput => {
                self.refuse_terminal("standard output", &io::stdout())?;
                receive(&mut tokio::io::stdout()).await?;
                Ok(None)
            }
            Destination::Stream(path) => {
                let opened = File::options().write(true).open(&path).await;
                let stream = opened.map_err(|error| unwritable(&path, &error))?.into_std().await;
                self.refuse_terminal(&path.display().to_string(), &stream)?;
                let size_bytes = receive(&mut File::from_std(stream)).await?;
                Ok(Some((path, size_bytes)))
            }
            Destination::File { path, target } => {
                let size_bytes = self.write_file(&path, &target, receive).await?;
                Ok(Some((path, size_bytes)))
            }
        }
    }

    fn destination(&self) -> Result<Destination, Failure> {
        let path = match self.file {
            Some(file) if file == STANDARD || STANDARD_OUTPUT.contains(&file) => {
                return Ok(Destination::StandardOutput);
            }
            Some(file) if Path::new(file).is_dir() => Path::new(file).join(last_part(self.name)?),
            Some(file) => PathBuf::from(file),
            None => PathBuf::from(last_part(self.name)?),
        };
        if path.symlink_metadata().is_err() {
            return Ok(Destination::File { target: path.clone(), path });
        }
        let shown = path.display();
        let about = path.metadata().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                usage(format!("{shown} is a symbolic link to a file that does not exist"))
            }
            _ => unwritable(&path, &error),
        })?;
        match about.file_type() {
            kind if kind.is_char_device() || kind.is_fifo() => Ok(Destination::Stream(path)),
            kind if !kind.is_file() => Err(usage(format!("{shown} is {}", name_of(kind)))),
            _ if !self.replace => {
                Err(usage(format!("{shown} is there already: name another, or use --force")))
            }
            _ => {
                let target = path.canonicalize().map_err(|error| unwritable(&path, &error))?;
                Ok(Destination::File { path, target })
            }
        }
    }

    fn refuse_terminal(&self, name: &str, to: &impl IsTerminal) -> Result<(), Failure> {
        if self.is_binary && to.is_terminal() {
            let why = "is a terminal, and this is binary: name a file, or redirect the output";
            return Err(usage(format!("{name} {why}")));
        }
        Ok(())
    }

    async fn write_file(
        &self,
        path: &Path,
        target: &Path,
        receive: impl AsyncFnOnce(&mut (dyn AsyncWrite + Send + Unpin)) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        let unwritable = |error: io::Error| unwritable(path, &error);
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        fs::metadata(parent).map_err(unwritable)?;
        // With the mode that other programs' files have: a temporary file is readable by its owner
        // only.
        let temporary = Builder::new()
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(parent)
            .map_err(unwritable)?;
        let mut to = File::from_std(temporary.reopen().map_err(unwritable)?);
        let size_bytes = receive(&mut to).await?;
        let kept = if self.replace {
            temporary.persist(target)
        } else {
            temporary.persist_noclobber(target)
        };
        kept.map_err(|error| unwritable(error.error))?;
        Ok(size_bytes)
    }
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_socket() => "a socket",
        _ => "a block device",
    }
}

/// Errors that do not come from the system itself name the temporary file.
fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let why = match error.raw_os_error() {
        Some(_) => error.to_string(),
        None => error.kind().to_string(),
    };
    usage(format!("cannot write {}: {why}", path.display()))
}

#[cfg(test)]
mod tests;
