//! Bodies of responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray, VariantNames};
use utoipa::ToSchema;
use vivarium_protocol::layer::Report;
use vivarium_protocol::message::Origin;
use vivarium_protocol::outcome::{Cause, Exception, State, Status};
use vivarium_protocol::policy::Network;

use super::image::ImageInfo;
use super::{
    FileFormat, HomeKind, LimitsInfo, NotebookOutput, Place, PolicyEntry, ResetScope, TextCut,
    VolumeMount, schema,
};

mod host;

pub use host::{
    Capacity, EnvironmentInfo, HostInfo, MemoryCapacity, PoolInfo, TemplateInfo, TenantInfo,
    TenantList,
};

/// Representations of a value by MIME type: text as it is, everything else in base64.
pub type MimeBundle = BTreeMap<String, String>;

/// Sizes of representations by MIME type, decoded, in bytes.
pub type Sizes = BTreeMap<String, u64>;

/// The outcome of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    /// Unique within the session.
    pub execution_id: String,
    pub session_id: String,
    #[schema(schema_with = schema::names::<Status>)]
    pub status: Status,
    /// The reason, if the status alone does not say.
    #[schema(schema_with = schema::names_or_null::<Cause>)]
    pub cause: Option<Cause>,
    /// The evidence, in words; may be empty.
    pub detail: String,
    /// Whether variables and modules of the session survived.
    #[schema(schema_with = schema::names::<State>)]
    pub state: State,
    /// Whether the kernel was lost, and the session was rolled back to a checkpoint.
    #[serde(default)]
    pub rolled_back: bool,
    /// Null if it was rejected before there was a kernel.
    pub kernel: Option<KernelInfo>,
    /// Whether this request created the session.
    pub session_created: bool,
    /// Exit code of a command; null for code, and for a command that was killed.
    pub exit_code: Option<i32>,
    /// Size of stdout, as far as it is kept.
    #[serde(default)]
    pub stdout_bytes: u64,
    pub stdout: String,
    /// Whether there was more than the limit.
    pub stdout_truncated: bool,
    /// Size of stderr, as far as it is kept.
    #[serde(default)]
    pub stderr_bytes: u64,
    pub stderr: String,
    /// Whether there was more than the limit.
    pub stderr_truncated: bool,
    /// The uncaught exception.
    #[schema(schema_with = schema::exception)]
    pub exception: Option<Exception>,
    /// The value of the final expression.
    #[schema(value_type = Option<ValueInfo>)]
    pub result: Option<Arc<ValueInfo>>,
    /// Objects passed to `display()`, after updates and clearing.
    pub displays: Vec<Display>,
    /// Images, in the order in which they were shown.
    pub images: Vec<EncodedImage>,
    /// Frames of animations.
    pub video_frames: Vec<EncodedImage>,
    /// All of this in order, as a notebook has it (nbformat 4.5); only if `answer.format` asks for
    /// it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::notebook::unread"
    )]
    pub outputs: Option<Vec<NotebookOutput>>,
    /// The order of all of this.
    #[serde(skip)]
    pub order: Vec<Place>,
    /// The texts that `max_output_chars` has cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cuts: Vec<TextCut>,
    /// The requested files.
    pub files: Vec<OutputFile>,
    /// Files that the execution created or changed.
    pub files_changed: Vec<ChangedFile>,
    /// Whether there are more changed files.
    pub files_changed_more: bool,
    /// Time from the code's start to its end, in milliseconds.
    pub duration_ms: f64,
    pub usage: ExecutionUsage,
    /// How often the code has raised each audit event of Python (PEP 578), as far as its kernel tells;
    /// only with the policy `audit_events`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::counts)]
    pub audit_events: Option<BTreeMap<String, u64>>,
    /// The reprs of the values of each call of `print`, as far as its kernel keeps them; only with the
    /// policy `prints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prints: Option<Vec<Vec<String>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelInfo {
    /// Whose kernel it is; `main` unless the request has named another. Of a command, which runs
    /// beside it, always `main`.
    pub context: String,
    /// Counts the context's kernels from 1. If it differs between two executions, variables and
    /// modules are lost.
    pub generation: u64,
    /// Whether no code had run in it before.
    pub fresh: bool,
    /// Why the previous kernel ended; null for the first.
    pub previous_end: Option<PreviousEnd>,
}

/// Why a kernel ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviousEnd {
    #[schema(schema_with = schema::names::<Cause>)]
    pub cause: Cause,
    /// The evidence, in words.
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValueInfo {
    /// Size of the repr.
    #[serde(default)]
    pub size_bytes: u64,
    /// Size of each representation, decoded, in bytes.
    #[serde(default)]
    #[schema(schema_with = schema::sizes)]
    pub sizes: Sizes,
    /// Name of the class.
    #[serde(rename = "type")]
    pub type_name: String,
    pub repr: String,
    #[schema(schema_with = schema::mime_bundle)]
    pub mime: MimeBundle,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Display {
    /// The `display_id`, if the code gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Size of each representation, decoded, in bytes.
    #[serde(default)]
    #[schema(schema_with = schema::sizes)]
    pub sizes: Sizes,
    #[schema(schema_with = schema::mime_bundle)]
    pub mime: MimeBundle,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EncodedImage {
    /// Such as `image/png`.
    pub mime_type: String,
    /// Size of the image, decoded.
    #[serde(default)]
    pub size_bytes: u64,
    /// Base64.
    pub data: String,
}

/// A requested file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputFile {
    /// Path relative to the workdir.
    pub name: String,
    /// How the content is encoded: as requested, else by what it is. Null if there is no content
    /// and no format was requested.
    pub format: Option<FileFormat>,
    /// Guessed from the name, or else from the content.
    pub mime_type: String,
    pub size_bytes: u64,
    /// Content as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Content in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Why there is no content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A file that an execution made, changed or deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedFile {
    /// Path relative to the workdir.
    pub name: String,
    pub size_bytes: u64,
    /// Whether it is gone. Left out if it is not. May be a directory that was moved away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionUsage {
    /// CPU time of all its context's processes during it, in milliseconds. Children that were
    /// never waited for are in it with the cgroup layer, if they used more than 10 ms.
    pub cpu_ms: f64,
    /// Highest memory, in bytes. With a memory controller: charged to the whole session while
    /// the execution ran, or to its context alone if others ran meanwhile (Linux 6.12; before that
    /// only if it was the highest so far). Else the kernel process's largest resident set since it
    /// was started.
    pub memory_peak_bytes: u64,
    /// Bytes read from disks; null without an io controller, and if others ran meanwhile.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to disks; null without an io controller, and if others ran meanwhile.
    pub io_write_bytes: Option<u64>,
    /// Ticks of the code's work, as its kernel counts them; only with the policy `max_work`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<u64>,
}

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
    Idle,
    Running,
    /// The running code was interrupted and has not stopped yet.
    Interrupting,
    /// Its kernel is being replaced.
    Replacing,
    /// Its state is on disk, and none of its processes is left.
    Suspended,
    Closed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionInfo {
    pub id: String,
    pub tenant: String,
    pub environment: String,
    pub state: SessionState,
    /// Whether the kernel was `forked` from the environment's template or `executed`; null before
    /// there is one. Both are confined alike.
    #[schema(schema_with = schema::names_or_null::<Origin>)]
    pub kernel_origin: Option<Origin>,
    /// Every layer of the sandbox, as read back from inside.
    #[schema(schema_with = schema::protection)]
    pub protection: Vec<Report>,
    pub limits: LimitsInfo,
    /// What the session can reach.
    #[schema(schema_with = schema::names::<Network>)]
    pub network: Network,
    /// Whose home it has at `/home/sandbox`.
    #[serde(default)]
    #[schema(schema_with = schema::names::<HomeKind>)]
    pub home: HomeKind,
    /// The volumes that it has.
    #[serde(default)]
    pub volumes: Vec<VolumeMount>,
    /// Where it may connect to; absent unless its network is `trusted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_allow: Option<Vec<String>>,
    pub usage: SessionUsage,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Time of the last execution or keepalive.
    #[schema(value_type = String, format = DateTime)]
    pub last_used_at: Timestamp,
    /// When the session is deleted unless it is used before.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// Milliseconds without an execution or keepalive after which the session is reaped.
    pub idle_timeout_ms: u64,
    /// When the session ends, whatever it does; null if it may live for ever.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Timestamp>,
    /// The ids of the executions that run now.
    pub running: Vec<String>,
    /// As the client gave it.
    pub metadata: BTreeMap<String, String>,
    /// What there is of it on disk; absent unless it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageInfo>,
    /// What holds for the session and its tenant, and where each value came from; only when one
    /// session is requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<PolicyEntry>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionUsage {
    /// CPU time, in milliseconds.
    pub cpu_ms: f64,
    /// Memory charged to the session now; null without a memory controller.
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
    /// Bytes that came through the egress gate, of connections that have ended; absent unless the
    /// network is `trusted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_in_bytes: Option<u64>,
    /// Bytes that went out through it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_out_bytes: Option<u64>,
    /// Executions that have ended.
    pub executions: u64,
    /// Executions waiting.
    pub queued: u64,
    /// Processes without the agent; only when one session is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Workdir and temporary files; only when one session is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Proportional set size of the agent; only when one session is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_pss_bytes: Option<u64>,
    /// Proportional set size of the kernel; only when one session is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_pss_bytes: Option<u64>,
}

/// Part of a list of sessions, ordered by id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionPage {
    pub sessions: Vec<SessionInfo>,
    /// The `after` of the next part; null at the end.
    pub next: Option<String>,
}

/// The result of an interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InterruptReply {
    pub session_id: String,
    /// Null if nothing was running.
    pub execution_id: Option<String>,
    /// Whether the execution has ended.
    pub interrupted: bool,
    pub detail: String,
}

/// The result of a reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResetReply {
    pub session_id: String,
    /// The context whose kernel was replaced.
    pub context: String,
    /// The execution that the reset ended there; null if nothing was running.
    pub ended_execution_id: Option<String>,
    /// How much was ended with the kernel.
    pub scope: ResetScope,
}

/// The result of a keepalive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeepaliveReply {
    pub session_id: String,
    /// When the session is deleted unless it is used before.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}
