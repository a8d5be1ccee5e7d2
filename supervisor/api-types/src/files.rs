//! Files of a session's workdir.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use vivarium_protocol::message::FileKind;

use super::response::schema;

/// Which files to list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct FilePage {
    /// The directory; the workdir if not given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Whether also what is in directories below it.
    pub recursive: bool,
    /// Those after this one: the `next` of the part before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most this many, 1 to 1000.
    #[param(default = 100)]
    pub limit: u32,
}

impl Default for FilePage {
    fn default() -> Self {
        Self { path: String::new(), recursive: false, after: None, limit: 100 }
    }
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileInfo {
    /// Path relative to the workdir.
    pub path: String,
    /// `file`, `directory`, `link` (never followed) or `other`.
    #[schema(schema_with = schema::names::<FileKind>)]
    pub kind: FileKind,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// When it was last modified, as the session says.
    #[schema(value_type = String, format = DateTime)]
    pub modified_at: Timestamp,
    /// Guessed from a file's name; null for what is no file.
    pub mime_type: Option<String>,
}

/// Part of a list of files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileList {
    /// What is there, in byte order of the paths.
    pub entries: Vec<FileInfo>,
    /// What to give as `after` for the next part; null if this was the last.
    pub next: Option<String>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilesWritten {
    /// The file, or the directory into which an archive was unpacked.
    pub path: String,
    /// How many files.
    pub files: u64,
    /// Their sizes together.
    pub size_bytes: u64,
}
