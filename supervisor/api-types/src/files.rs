//! Files of a session's workdir.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use vivarium_protocol::message::FileKind;

use super::schema;

/// Which files to list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct FilePage {
    /// A directory, relative to the workdir or absolute; the workdir if not given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Whether to include the content of directories below it.
    pub recursive: bool,
    /// The `next` of the previous part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most this many, 1 to 1000.
    #[param(default = 100, minimum = 1, maximum = 1000)]
    pub limit: u32,
}

impl Default for FilePage {
    fn default() -> Self {
        Self { path: String::new(), recursive: false, after: None, limit: 100 }
    }
}

/// A file, directory or link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileInfo {
    /// Path relative to the workdir; absolute for files in `/tmp`.
    pub path: String,
    /// `file`, `directory`, `link` (never followed) or `other`.
    #[schema(schema_with = schema::names::<FileKind>)]
    pub kind: FileKind,
    pub size_bytes: u64,
    /// Time of the last modification, which tenant code can set.
    #[schema(value_type = String, format = DateTime)]
    pub modified_at: Timestamp,
    /// Permissions in octal, such as `0644`.
    pub mode: String,
    /// Guessed from the name; null unless it is a file.
    pub mime_type: Option<String>,
}

/// A change of a file, directory or link. Permissions change before it is moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FileChange {
    /// Its new path, beneath the same root. Missing parent directories are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_to: Option<String>,
    /// Whether to replace a file, or an empty directory by a directory.
    pub replace: bool,
    /// New permissions in octal, `0000` to `0777`; not of links.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^0?[0-7]{3}$")]
    pub mode: Option<String>,
}

/// Which changes to watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct WatchParams {
    /// A directory, relative to the workdir or absolute; the workdir if not given.
    pub path: String,
    /// Whether to include directories below it.
    #[param(default = true)]
    pub recursive: bool,
}

impl Default for WatchParams {
    fn default() -> Self {
        Self { path: String::new(), recursive: true }
    }
}

/// A change below a directory that is watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileEventInfo {
    /// Path relative to the workdir; absolute for files in `/tmp`.
    pub path: String,
    /// The path before; only of `moved`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether it is a directory.
    pub directory: bool,
}

/// Part of a list of files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileList {
    /// In byte order of the paths.
    pub entries: Vec<FileInfo>,
    /// The `after` of the next part; null at the end.
    pub next: Option<String>,
}

/// The result of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilesWritten {
    /// The file, or the directory into which an archive was unpacked.
    pub path: String,
    /// Number of files.
    pub files: u64,
    /// Sum of their sizes.
    pub size_bytes: u64,
}
