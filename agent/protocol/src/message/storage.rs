//! Messages to and from `vivarium-agent storage`, which works on one home or volume from outside of
//! sessions.
//!
//! What is made in a session belongs to a subordinate id, so the daemon, an ordinary user, can neither
//! read nor remove it. This program can, in the namespace of those ids. It is started for one operation
//! on one directory, which it gets open and beneath which it stays.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Failure, FileOperation, FileReply};

/// Supervisor to `vivarium-agent storage`. With it go (`SCM_RIGHTS`) the directory, and the user
/// namespace that holds the subordinate ids, if there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageRequest {
    /// [`crate::PROTOCOL_VERSION`] of the supervisor.
    pub protocol_version: u32,
    /// What to do.
    pub operation: StorageOperation,
}

/// What to do with a home or volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StorageOperation {
    /// Give the directory, and all that is in it, to these host ids, unless the user has it already.
    Prepare {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
    /// Add up what it takes.
    Measure {
        /// Stop after so many files, directories and links.
        max_inodes: u64,
    },
    /// Remove all that is in it.
    Clear,
    /// Check that it holds nothing but what an environment may have, make that unchangeable and these
    /// ids' own, and hash it.
    Seal(SealRequest),
    /// `Read`, `List`, `Stat` or `Delete`. Content follows the answer on the same socket.
    File(FileOperation),
}

/// `vivarium-agent storage` to supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StorageReply {
    /// The directory and all in it belong to the id.
    Prepared,
    /// What it takes.
    Measured(StorageUsage),
    /// Nothing is left in it.
    Cleared,
    /// What the environment is, or why it is none.
    Sealed(Result<SealedInfo, String>),
    /// The result of an operation on files, or why there is none.
    File(Result<FileReply, super::FileProblem>),
    /// It could not be done.
    Failed(Failure),
}

/// What a home or volume takes of its filesystem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageUsage {
    /// Bytes of blocks. A file that has several names counts once, and a hole in one not at all.
    pub bytes: u64,
    /// Files, directories and links.
    pub inodes: u64,
    /// Whether it is more than this: it was left at that.
    pub is_cut: bool,
}

/// How an environment is sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealRequest {
    /// Whose it is from now on: the daemon's own.
    pub uid: u32,
    /// The same for the group.
    pub gid: u32,
    /// The one absolute path that a symbolic link may have: the base environment's interpreter.
    pub interpreter: PathBuf,
    /// The most bytes of its files together.
    pub max_bytes: u64,
    /// The most files, directories and links.
    pub max_inodes: u64,
}

/// An environment that was sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedInfo {
    /// SHA-256 over paths, kinds, modes and contents, in lower-case hexadecimal digits.
    pub hash: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// Files, directories and links.
    pub inodes: u64,
    /// Names of `.dist-info` directories in `site-packages`, such as `six-1.16.0`, sorted.
    pub distributions: Vec<String>,
}
