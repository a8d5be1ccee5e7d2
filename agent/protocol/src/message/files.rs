//! Operations on the files of a session's workdir.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

/// What to do with files of a session. Paths are those of [`crate::places`], and resolved beneath
/// their root through no symbolic link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileOperation {
    /// Send a regular file's content, or part of it.
    Read {
        /// The file.
        path: String,
        /// From which byte on.
        offset: u64,
        /// At most so many bytes; all if `None`.
        length: Option<u64>,
    },
    /// Make a file of what comes, or replace the one that is there when all of it has come.
    Write {
        /// The file.
        path: String,
    },
    /// Unpack the tar archive that comes. Directories and regular files only.
    Unpack {
        /// Into which directory; the workdir if empty.
        path: String,
    },
    /// List a directory.
    List {
        /// Which; the workdir if empty.
        path: String,
        /// Whether also what is in directories below it.
        recursive: bool,
        /// Names after this one, in byte order.
        after: String,
        /// At most so many.
        limit: u32,
    },
    /// Remove a file, a link, or a directory with all that is in it.
    Delete {
        /// The path of the entry.
        path: String,
    },
    /// Say what is at a path.
    Stat {
        /// The path; a root too.
        path: String,
    },
    /// Make a directory, and those it lies in where they are missing.
    MakeDirectory {
        /// The directory.
        path: String,
    },
    /// Give a file, directory or link another name beneath the same root, making the directories that
    /// it lies in.
    Move {
        /// Its path.
        path: String,
        /// Its new path.
        to: String,
        /// Whether to replace a file that is there.
        replace: bool,
    },
    /// Send a directory's content as a tar archive, in [`crate::content`]'s chunks.
    Archive {
        /// Which; a root too.
        path: String,
    },
    /// Send changes below a directory as they come, in [`crate::frame`]s of at most
    /// [`WATCH_FRAME_BYTES`], each a list of [`FileEvent`]s. Ends with the socket, or the directory.
    Watch {
        /// Which; a root too.
        path: String,
        /// Whether also in directories below it.
        recursive: bool,
    },
    /// Change the permissions of a regular file or directory.
    SetMode {
        /// Its path.
        path: String,
        /// Permission bits, at most 0o777.
        mode: u32,
    },
}

/// The result of an operation on files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileReply {
    /// The content of this file follows, `length` bytes of it, unless it shrinks meanwhile.
    Content {
        /// The file.
        entry: FileEntry,
        /// How much follows.
        length: u64,
    },
    /// The files are written.
    Written {
        /// How many.
        files: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// What is there.
    Listed {
        /// In byte order of their paths.
        entries: Vec<FileEntry>,
        /// Whether there are more.
        more: bool,
    },
    /// It is gone.
    Deleted,
    /// The archive of this directory follows. Without the last, empty chunk it is not whole.
    Archive(FileEntry),
    /// Changes from now on are sent.
    Watching,
    /// What is there now.
    Entry(FileEntry),
    /// The directory is there.
    DirectoryMade {
        /// Whether it was not before.
        new: bool,
    },
}

/// A file or directory of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its path, relative to the workdir; absolute beneath another root. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// File, directory or other.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// When it was last modified, in milliseconds since 1970.
    pub modified_ms: i64,
    /// Its permission bits.
    pub mode: u32,
}

/// The largest frame of events.
pub const WATCH_FRAME_BYTES: usize = 2 << 20;

/// A change below a directory that is watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEvent {
    /// What happened.
    pub kind: FileEventKind,
    /// The path, as in a [`FileEntry`]; empty for [`FileEventKind::Overflow`].
    pub path: String,
    /// The path before, of what was moved.
    pub from: Option<String>,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// The kind of a [`FileEvent`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FileEventKind {
    /// It is new.
    Created,
    /// A file was written.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another path.
    Moved,
    /// Events were lost, or not everything is watched: look again.
    Overflow,
}

/// The kind of a [`FileEntry`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link. Never followed.
    Link,
    /// A pipe, socket or device. Never opened.
    Other,
}

/// Why an operation on files failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileProblem {
    /// The reason as a code.
    pub kind: FileProblemKind,
    /// The reason in words.
    pub detail: String,
}

/// The reasons for a [`FileProblem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileProblemKind {
    /// The path is not one beneath the workdir, or goes through a symbolic link.
    Path,
    /// Nothing is there.
    NotFound,
    /// What is there is not a regular file, or not a directory where one is needed.
    Kind,
    /// No space, or no inode, is left to the session, or the file would be too large.
    NoSpace,
    /// The archive is not one, or holds what is not unpacked.
    Archive,
    /// The sender went away before the end, or too many transfers are under way.
    Aborted,
    /// The system refused.
    Io,
    /// Something is there already.
    Exists,
}
