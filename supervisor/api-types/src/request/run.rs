//! Running something in a session of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::policy::Network;

use super::{FileSpec, OutputSpec, ReprSpec};
use crate::schema;
use crate::{
    AnswerForm, ApprovalSpec, AuditEventsSpec, Echo, ImportsSpec, JsonText, Keep, LimitsSpec,
    MaxChars, Preset, ToolSpec,
};

/// Code or a command to run in a session of its own, which ends with it: `code`, `argv` or
/// `shell`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The code's file name, as for `execute`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// How far the value and displays are written out.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::object::optional"
    )]
    pub repr: Option<ReprSpec>,
    /// The program, looked for on PATH unless it has a slash, and its arguments.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::object::strings"
    )]
    #[schema(min_items = 1)]
    pub argv: Option<Vec<String>>,
    /// A command line for `/bin/sh -c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Standard input of a command as text; empty if neither is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Standard input in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_base64: Option<String>,
    /// The working directory, in the workdir; the workdir itself if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Files to put into the workdir first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::object::list"
    )]
    pub files: Vec<FileSpec>,
    /// Files to return.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::object::list"
    )]
    #[schema(max_items = 256)]
    pub outputs: Vec<OutputSpec>,
    /// Limits tighter than the configured ones.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::object::optional"
    )]
    pub limits: Option<LimitsSpec>,
    /// What the session can reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::names::<Network>)]
    pub network: Option<Network>,
    /// What somebody has to allow first: no less than the tenant's rule.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::object::optional"
    )]
    pub approval: Option<ApprovalSpec>,
    /// Milliseconds it may run; the configured time if not given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::scalar::milliseconds"
    )]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// Name of a configured environment; `default` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Variables for the session.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::scalar::unique_map"
    )]
    pub env: BTreeMap<String, String>,
    /// The most characters of each text that the answer tells: stdout, stderr, the result's and a
    /// display's plain text, an exception's message and traceback. Other text forms that are longer
    /// are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 100, maximum = 9_007_199_254_740_991_u64)]
    pub max_output_chars: Option<MaxChars>,
    /// Which part of a text longer than `max_output_chars` is kept.
    #[serde(default, deserialize_with = "crate::object::name")]
    pub keep: Keep,
    /// How the answer tells what came of it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::object::optional"
    )]
    pub answer: Option<AnswerForm>,
    /// Functions of the client's that its code can call: `from vivarium import tools`. For code. At most 128.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::object::list"
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
    /// The most work, in ticks: backward jumps, function starts and generator resumes of its own
    /// code. Needs Python 3.12.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_work: Option<u64>,
    /// Which modules its code may import itself: `allow` or `deny`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::object::optional"
    )]
    pub imports: Option<ImportsSpec>,
    /// Counts Python's audit events (PEP 578), and raises an error for those in `deny`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::object::optional"
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
        deserialize_with = "crate::scalar::unique_map"
    )]
    #[schema(value_type = BTreeMap<String, Object>)]
    pub modules: BTreeMap<String, JsonText>,
    /// End it, and its session, when the client goes away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_on_disconnect: bool,
}
