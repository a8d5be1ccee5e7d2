//! Images: sessions that are suspended, and sessions that are made from others.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};
use utoipa::{IntoParams, ToSchema};

use super::SessionInfo;

/// The most branches that one request makes.
pub const MAX_BRANCHES: u32 = 100;

/// The image of a suspended session: what there is of it on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageInfo {
    /// Bytes on disk: memory and files, compressed.
    pub size_bytes: u64,
    /// When the session was suspended.
    #[schema(value_type = String, format = DateTime)]
    pub suspended_at: Timestamp,
    /// When the session is deleted unless it is resumed before; null if never.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// Whether calls resume the session.
    pub auto_resume: bool,
}

/// The image of a suspended session, by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredImage {
    /// The suspended session's id.
    pub session_id: String,
    pub environment: String,
    /// SHA-256 of the memory of the template that the session was suspended under, in hexadecimal. It resumes
    /// under any that was built of the same.
    pub template: String,
    /// The number of the session's last execution.
    pub executions: u64,
    #[serde(flatten)]
    pub image: ImageInfo,
}

/// A part of the list of images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImagePage {
    /// In the order of their sessions' ids.
    pub images: Vec<StoredImage>,
    /// The `after` of the next part; null at the end.
    pub next: Option<String>,
}

/// What of a session to export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ExportParams {
    /// The name of one of its checkpoints. Without it, the image of the suspended session.
    pub checkpoint: Option<String>,
}

/// Under which id to import an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ImportParams {
    /// The new session's id. Without it, the id that the session had where it was exported.
    pub id: Option<String>,
}

/// Whether a session can be suspended now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageableReply {
    /// Whether it can. The answer holds until something runs in the session.
    pub imageable: bool,
    /// What is in the way, and what to do about it; empty if nothing is.
    pub reasons: Vec<String>,
}

/// How to branch a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BranchRequest {
    /// How many sessions to make, 1 to 100.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 100, default = 1)]
    pub count: u32,
    /// The checkpoint whose state they get; null for the session's present state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

const fn one() -> u32 {
    1
}

impl Default for BranchRequest {
    fn default() -> Self {
        Self { count: one(), checkpoint: None }
    }
}

/// The sessions that a branch made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BranchReply {
    /// As many as requested: if one cannot be made, the request fails and none is left.
    pub sessions: Vec<SessionInfo>,
}

/// Which checkpoints a session has.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CheckpointMode {
    /// None.
    Off,
    /// Those that requests make.
    #[default]
    Named,
    /// And one after every execution.
    Each,
}

/// How to name a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRequest {
    /// 1 to 64 of A-Z a-z 0-9 _ -, but none of `after-` and a number; null for the least number that none of the session's has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What a session was at a moment, to go back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    pub name: String,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Bytes on disk: memory and files, compressed.
    pub size_bytes: u64,
    /// The number of the session's last execution then.
    pub executions: u64,
}

/// The checkpoints of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointList {
    /// The oldest first.
    pub checkpoints: Vec<Checkpoint>,
}

/// With which checkpoint to compare another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct DiffParams {
    /// The name of another of the session's checkpoints. Without it, the one before.
    pub from: Option<String>,
}

/// Which of a session's variables, the global names of its main context without those that begin with `_`, are
/// different at a checkpoint from what they were at another. Tenant code has chosen names and types: treat them as
/// untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointDiff {
    /// The checkpoint that the other is compared with; null if none is before it, and all variables count as added.
    pub from: Option<String>,
    /// The checkpoint.
    pub to: String,
    /// Variables that were not there.
    pub added: Vec<Variable>,
    /// Variables that are no more there.
    pub removed: Vec<Variable>,
    /// Variables that are bound to another object, or to a number or text of another value, or whose list, dict, set
    /// or tuple has another length. What changed deeper inside an object is not seen.
    pub changed: Vec<Variable>,
    /// Whether variables may be missing here: a checkpoint keeps the 500 newest, and none if the session was
    /// suspended when it was made.
    pub more: bool,
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Variable {
    pub name: String,
    /// The name of its type, with its module unless that is `builtins` or `__main__`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Where a session goes back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The name of one of its checkpoints.
    pub checkpoint: String,
}
