//! What the engine answers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray, VariantNames};
use utoipa::ToSchema;
use vivarium_protocol::layer::Report;
use vivarium_protocol::message::Origin;
use vivarium_protocol::outcome::{Cause, Exception, State, Status};
use vivarium_protocol::policy::Network;

use super::{FileFormat, LimitsInfo};

mod host;
pub(crate) mod schema;

pub use host::{
    Capacity, EnvironmentInfo, HostInfo, MemoryCapacity, PoolInfo, TemplateInfo, TenantInfo,
    TenantList,
};

/// Representations of a value by MIME type: text as it is, everything else in base64.
pub type MimeBundle = BTreeMap<String, String>;

/// What became of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    /// The execution, within its session.
    pub execution_id: String,
    /// The session.
    pub session_id: String,
    /// How it ended.
    #[schema(schema_with = schema::names::<Status>)]
    pub status: Status,
    /// Why, where the status alone does not say.
    #[schema(schema_with = schema::names_or_null::<Cause>)]
    pub cause: Option<Cause>,
    /// The evidence, in words. Empty where there is nothing to say.
    pub detail: String,
    /// Whether variables and modules of the session survived.
    #[schema(schema_with = schema::names::<State>)]
    pub state: State,
    /// The kernel it ran in; null if it was rejected before there was one.
    pub kernel: Option<KernelInfo>,
    /// Whether this request made the session.
    pub session_created: bool,
    /// What a command exited with; null for code, and for a command that was killed.
    pub exit_code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// Whether there was more.
    pub stdout_truncated: bool,
    /// What it printed as errors.
    pub stderr: String,
    /// Whether there was more.
    pub stderr_truncated: bool,
    /// The exception the code did not catch.
    #[schema(schema_with = schema::exception)]
    pub exception: Option<Exception>,
    /// The value of the final expression.
    pub result: Option<ValueInfo>,
    /// What `display()` was given, with updates applied and without what was cleared.
    pub displays: Vec<Display>,
    /// Images, in the order in which they were shown.
    pub images: Vec<EncodedImage>,
    /// Frames of animations.
    pub video_frames: Vec<EncodedImage>,
    /// Files that were asked for.
    pub files: Vec<OutputFile>,
    /// Files that the execution made or changed.
    pub files_changed: Vec<ChangedFile>,
    /// Whether there are more of these.
    pub files_changed_more: bool,
    /// Time from the code's start to its end, in milliseconds.
    pub duration_ms: f64,
    /// What it used.
    pub usage: ExecutionUsage,
}

/// The kernel that an execution ran in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelInfo {
    /// Which of the session's kernels, counted from 1. Where it has changed between two
    /// executions, variables and modules are lost.
    pub generation: u64,
    /// Whether no code had run in it before this.
    pub fresh: bool,
    /// Why the kernel before it ended; null for the first.
    pub previous_end: Option<PreviousEnd>,
}

/// Why a kernel ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviousEnd {
    /// The cause.
    #[schema(schema_with = schema::names::<Cause>)]
    pub cause: Cause,
    /// The evidence, in words.
    pub detail: String,
}

/// The value of a final expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValueInfo {
    /// `repr()` of it.
    pub repr: String,
    /// Its class's name.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its representations.
    pub mime: MimeBundle,
}

/// One displayed object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Display {
    /// Which display it is, where the code has named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its representations.
    pub mime: MimeBundle,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EncodedImage {
    /// Such as `image/png`.
    pub mime_type: String,
    /// Its bytes in base64.
    pub data: String,
}

/// A file that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputFile {
    /// Path relative to the workdir.
    pub name: String,
    /// How its content is given: as it was asked for, else by what it is. Null if there is none
    /// and nothing was asked for.
    pub format: Option<FileFormat>,
    /// By its name, or else by its content: a hint.
    pub mime_type: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its content as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its content in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Why there is no content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A file that an execution made or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedFile {
    /// Path relative to the workdir.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
}

/// What an execution used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionUsage {
    /// CPU time of all the session's processes during it, in milliseconds. Children that were
    /// never waited for are in it with the cgroup layer, if they used more than 10 ms.
    pub cpu_ms: f64,
    /// Highest memory, in bytes. With a memory controller: charged to the whole session while
    /// the execution ran (Linux 6.12; before that only if it was the session's highest so far).
    /// Else the kernel process's largest resident set since it was started.
    pub memory_peak_bytes: u64,
    /// Bytes read from disks; null without an io controller.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to disks; null without an io controller.
    pub io_write_bytes: Option<u64>,
}

/// What a session is doing.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
    IntoStaticStr,
    VariantArray,
    VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SessionState {
    /// Its first kernel is not ready yet.
    Starting,
    /// It waits for code.
    Idle,
    /// It runs code.
    Running,
    /// It runs code that was told to stop.
    Interrupting,
    /// Its kernel is being replaced.
    Replacing,
    /// It is over.
    Closed,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// Its environment's name.
    pub environment: String,
    /// What it is doing.
    pub state: SessionState,
    /// How the kernel in place came about: `forked` from the environment's template, or `executed`.
    /// Null before there is one. It is confined alike.
    #[schema(schema_with = schema::names_or_null::<Origin>)]
    pub kernel_origin: Option<Origin>,
    /// Every layer of the sandbox, as read back from inside.
    #[schema(schema_with = schema::protection)]
    pub protection: Vec<Report>,
    /// What it may use.
    pub limits: LimitsInfo,
    /// What it can reach.
    #[schema(schema_with = schema::names::<Network>)]
    pub network: Network,
    /// What it has used.
    pub usage: SessionUsage,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last ran code or was kept alive.
    #[schema(value_type = String, format = DateTime)]
    pub last_used_at: Timestamp,
    /// When it is reaped if nothing happens until then.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// As the client gave it.
    pub metadata: BTreeMap<String, String>,
}

/// What a session has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionUsage {
    /// CPU time, in milliseconds.
    pub cpu_ms: f64,
    /// Memory now charged to the session; null where no memory controller says.
    pub memory_bytes: Option<u64>,
    /// Highest memory ever charged to the session, in bytes; without a memory controller, the
    /// highest of any execution.
    pub memory_peak_bytes: u64,
    /// Most processes and threads of tenant code at one time; null without a pids controller,
    /// and before Linux 6.1.
    pub processes_peak: Option<u64>,
    /// Bytes read from disks; null without an io controller.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to disks; null without an io controller.
    pub io_write_bytes: Option<u64>,
    /// Executions that have ended.
    pub executions: u64,
    /// Executions waiting.
    pub queued: u64,
    /// Processes of the session, the agent not counted; only when one session is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Workdir and temporary files; only when one session is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Proportional set size of the agent; only when one session is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_pss_bytes: Option<u64>,
    /// Proportional set size of the kernel; only when one session is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_pss_bytes: Option<u64>,
}

/// Part of a list of sessions, ordered by id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
    /// What to give as `after` for the next part; null if this was the last.
    pub next: Option<String>,
}

/// What became of an interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InterruptReply {
    /// The session.
    pub session_id: String,
    /// The execution that was running; null if none was.
    pub execution_id: Option<String>,
    /// Whether the execution has ended.
    pub interrupted: bool,
    /// In words.
    pub detail: String,
}

/// A session was reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResetReply {
    /// The session.
    pub session_id: String,
    /// The execution that was ended by it; null if none was running.
    pub ended_execution_id: Option<String>,
}

/// A session lives on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeepaliveReply {
    /// The session.
    pub session_id: String,
    /// When it is reaped if nothing happens until then.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}
