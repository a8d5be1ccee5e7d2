//! Bodies of requests. Unknown fields are refused by name.
//!
//! Requests spell out the fields that they share, since serde's `flatten` does not go with
//! `deny_unknown_fields`, by which a misspelt field is named.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::policy::Network;

use super::schema;
use super::{
    AnswerForm, ApprovalSpec, AuditEventsSpec, CheckpointMode, Echo, HomeKind, ImportsSpec,
    JsonText, Keep, LimitsSpec, MaxChars, NamesSpec, Preset, ToolSpec, VolumeMount,
};

mod run;

pub use run::RunRequest;

/// The most a session's metadata may take as JSON, in bytes.
pub const MAX_METADATA_BYTES: usize = 4096;

/// A session to create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionSpec {
    /// 1 to 64 of `A-Z a-z 0-9 _ -`; random if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_-]+$")]
    pub id: Option<String>,
    /// Name of an environment, built or configured; `default` if not given. The tenant's own come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Limits tighter than the configured ones.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub limits: Option<LimitsSpec>,
    /// What the session can reach: `none`, `loopback` or, where the operator allows it, `trusted` or `full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::names::<Network>)]
    pub network: Option<Network>,
    /// Where a session of network `trusted` may connect to, within what the operator allows and in
    /// its place: `HOST`, `HOST:PORT`, `*.DOMAIN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub egress_allow: Option<Vec<String>>,
    /// What somebody has to allow first: no less than the tenant's rule.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub approval: Option<ApprovalSpec>,
    /// Variables for the kernel.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "super::scalar::unique_map"
    )]
    pub env: BTreeMap<String, String>,
    /// Milliseconds without an execution or keepalive after which the session is reaped. No
    /// longer than the configured time.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::scalar::milliseconds"
    )]
    #[schema(minimum = 1)]
    pub idle_timeout_ms: Option<u64>,
    /// When the session ends, whatever it does: a time to come, no later than the configured
    /// `session.max_lifetime` from now.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::scalar::time"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Timestamp>,
    /// Strings that the session's description shows, for the client's own use.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "super::scalar::unique_map"
    )]
    pub metadata: BTreeMap<String, String>,
    /// Files that outlive the session, at `/home/sandbox`, which is then its HOME: `off`, `session`
    /// (those of earlier sessions of the same id) or `tenant` (shared by the tenant's sessions).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::names::<HomeKind>)]
    pub home: Option<HomeKind>,
    /// Volumes of the tenant that it can reach, at most 16.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::object::list"
    )]
    #[schema(max_items = 16)]
    pub volumes: Vec<VolumeMount>,
    /// Whether calls resume the session where it is suspended, as they do by default; else they get 409
    /// `suspended`, and `POST …/resume` or a rollback resumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = true)]
    pub auto_resume: Option<bool>,
    /// Which checkpoints it has: `off`, `named` (those that requests make) or `each` (and one after every
    /// execution); as `images.checkpoint` says if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::names::<CheckpointMode>)]
    pub checkpoint: Option<CheckpointMode>,
    /// Whether code that loses its kernel has the session roll back to its last checkpoint, before it is
    /// answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = false)]
    pub auto_rollback: Option<bool>,
    /// Functions of the client's that code of all its executions can call. At most 128.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::object::list"
    )]
    #[schema(max_items = 128)]
    pub tools: Vec<ToolSpec>,
    /// Whether the tools' names are put into the code's globals too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tools_as_globals: bool,
    /// Tool servers of the operator's whose tools its code can call: those that the tenant may have
    /// (`session.tool_servers`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub tool_servers: Vec<String>,
    /// Policies of the language by one name, `compute`, `files`, `network` or `full`: what holds that
    /// the fields below do not say. Policies only tighten those of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Preset>,
    /// The most work of each execution, in ticks: backward jumps, function starts and generator resumes of its own
    /// code. Needs Python 3.12.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_work: Option<u64>,
    /// Which modules its code may import itself: `allow` or `deny`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub imports: Option<ImportsSpec>,
    /// Counts Python's audit events (PEP 578), and raises an error for those in `deny`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub audit_events: Option<AuditEventsSpec>,
    /// Whose values are shown: of the `last` expression if not given, of `all`, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Echo>,
    /// Whether the answer has the values that were printed, in `prints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prints: Option<bool>,
    /// Distributions of the environment that its code does not find, by their names: their files are
    /// not in the session at all. Besides those that the environment hides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub hidden: Vec<String>,
}

/// A file to put into the workdir before the code runs: `text`, or `data` in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Path relative to the workdir.
    pub name: String,
    /// Content as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Content in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// A file to return after the code has run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// Path relative to the workdir.
    pub name: String,
    /// How to encode the content. If not given: as text if it is UTF-8 without NUL, else in
    /// base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<FileFormat>,
}

/// How the content of a file is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    Text,
    Base64,
}

/// How far the repr of a value is written out. What is not given is as in IPython.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReprSpec {
    /// The most elements of each list, tuple, set, frozenset, dict or dict view; 1000 if not given.
    /// `...` stands for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_items: Option<u64>,
    /// The most characters. A note at the end says how many there are in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100)]
    pub max_chars: Option<u64>,
    /// The most containers inside each other. `[...]` stands for a deeper one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_depth: Option<u64>,
}

/// Code to run in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecuteRequest {
    pub code: String,
    /// The context that runs it; `main` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The code's file name in tracebacks: a path in the workdir. If there is a file of that name,
    /// `__file__` is its path, and modules beside it can be imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// How far the value and displays are written out.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub repr: Option<ReprSpec>,
    /// The working directory while it runs, in the workdir. If not given it is where the code before
    /// has left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables of `os.environ` while it runs.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "super::scalar::unique_map"
    )]
    pub env: BTreeMap<String, String>,
    /// Milliseconds it may run; the configured time if not given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::scalar::milliseconds"
    )]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// Whether somebody has to allow it first: no less than the rule of its tenant and session. Only
    /// `executions`: where its code may connect to is its session's.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub approval: Option<ApprovalSpec>,
    /// Files to put into the workdir first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::object::list"
    )]
    pub files: Vec<FileSpec>,
    /// Files to return.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::object::list"
    )]
    #[schema(max_items = 256)]
    pub outputs: Vec<OutputSpec>,
    /// The most characters of each text that the answer tells: stdout, stderr, the result's and a
    /// display's plain text, an exception's message and traceback. Other text forms that are longer
    /// are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 100, maximum = 9_007_199_254_740_991_u64)]
    pub max_output_chars: Option<MaxChars>,
    /// Which part of a text longer than `max_output_chars` is kept.
    #[serde(default, deserialize_with = "super::object::name")]
    pub keep: Keep,
    /// How the answer tells what came of it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub answer: Option<AnswerForm>,
    /// Functions of the client's that its code can call: `from vivarium import tools`. They come before those of its
    /// session that have the same names. At most 128.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::object::list"
    )]
    #[schema(max_items = 128)]
    pub tools: Vec<ToolSpec>,
    /// Whether the tools' names are put into the code's globals too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tools_as_globals: bool,
    /// Tool servers of the operator's whose tools its code can call: those that the tenant may have
    /// (`session.tool_servers`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub tool_servers: Vec<String>,
    /// Policies of the language by one name, `compute`, `files`, `network` or `full`: what holds that
    /// the fields below do not say. Policies only tighten those of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Preset>,
    /// The most work, in ticks: backward jumps, function starts and generator resumes of its own
    /// code. Needs Python 3.12.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_work: Option<u64>,
    /// Which modules its code may import itself: `allow` or `deny`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub imports: Option<ImportsSpec>,
    /// Counts Python's audit events (PEP 578), and raises an error for those in `deny`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub audit_events: Option<AuditEventsSpec>,
    /// Whose values are shown: of the `last` expression if not given, of `all`, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Echo>,
    /// Whether the answer has the values that were printed, in `prints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prints: Option<bool>,
    /// Modules that its code can import, and no other: objects of JSON by name, whose members are the
    /// module's names. At most 64, of 1 MiB together.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "super::scalar::unique_map"
    )]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub modules: BTreeMap<String, JsonText>,
    /// Which names it leaves to the next execution: `keep` or `drop`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub names: Option<NamesSpec>,
    /// Whether to answer, with `status` `waiting` and `calls`, when code waits for the answer to a call: `POST
    /// …/continue` goes on. For clients that follow no events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait_for_calls: bool,
    /// Interrupt it when the client goes away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_on_disconnect: bool,
}
