//! Why an operation on files failed.

use std::io;

use nix::errno::Errno;
use vivarium_protocol::content::ChunkTooLong;
use vivarium_protocol::message::{FileProblem, FileProblemKind};

#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("the name must be a relative path without \"..\", \".\" or empty parts")]
    Name,
    #[error("an absolute path lies in the working directory or in /tmp")]
    Elsewhere,
    #[error("this session has no /tmp of its own")]
    NoTmp,
    #[error("the path goes through a symbolic link, or out of the directory")]
    Escapes,
    #[error("there is no such file")]
    NotFound,
    #[error("there is something that is not a regular file at this name")]
    NotRegular,
    #[error("there is something that is not a directory in this path")]
    NotDirectory,
    #[error("something is there already that can not be replaced by it")]
    Exists,
    #[error("a directory can not be moved into itself")]
    IntoItself,
    #[error(
        "nothing can be moved between the working directory, /tmp and what is mounted there: copy it"
    )]
    OtherRoot,
    #[error("the session has no space left for it ({0})")]
    NoSpace(Errno),
    #[error("a file of this session may have {0} bytes at most")]
    TooLarge(u64),
    #[error("the archive is refused: {0}")]
    Archive(String),
    #[error("{0}")]
    Aborted(&'static str),
    #[error("{0}")]
    Io(#[source] io::Error),
}

impl FileError {
    pub(crate) fn problem(&self) -> FileProblem {
        let kind = match self {
            Self::Name | Self::Elsewhere | Self::NoTmp | Self::Escapes => FileProblemKind::Path,
            Self::NotFound => FileProblemKind::NotFound,
            Self::NotRegular | Self::NotDirectory => FileProblemKind::Kind,
            Self::NoSpace(_) | Self::TooLarge(_) => FileProblemKind::NoSpace,
            Self::Archive(_) => FileProblemKind::Archive,
            Self::Aborted(_) => FileProblemKind::Aborted,
            Self::Exists => FileProblemKind::Exists,
            Self::IntoItself | Self::OtherRoot | Self::Io(_) => FileProblemKind::Io,
        };
        FileProblem { kind, detail: self.to_string() }
    }
}

impl From<ChunkTooLong> for FileError {
    fn from(_: ChunkTooLong) -> Self {
        Self::Aborted("a chunk of the content is too long")
    }
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ELOOP | Errno::EXDEV => Self::Escapes,
            Errno::ENOENT => Self::NotFound,
            Errno::ENAMETOOLONG => Self::Name,
            // A FIFO without a reader, a socket, a directory.
            Errno::ENXIO | Errno::EISDIR => Self::NotRegular,
            Errno::ENOTDIR => Self::NotDirectory,
            Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => Self::NoSpace(errno),
            other => Self::Io(other.into()),
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Errno::from_raw(number).into(),
            None => Self::Io(error),
        }
    }
}
