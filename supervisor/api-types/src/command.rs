//! Commands: processes beside the kernel, in the same sandbox.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{AnswerForm, ApprovalSpec, FileSpec, Keep, MaxChars, OutputSpec};

/// A process to run in a session's sandbox, beside its kernel: `argv` or `shell`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRequest {
    /// The program, looked for on PATH unless it has a slash, and its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1)]
    pub argv: Option<Vec<String>>,
    /// A command line for `/bin/sh -c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Standard input as text; empty if neither is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Standard input in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_base64: Option<String>,
    /// Its working directory, in the workdir; the workdir itself if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Standard input is left open: write to it with `POST
    /// /v1/sessions/{id}/executions/{execution_id}/stdin`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin_open: bool,
    /// Variables for it alone, beside the session's.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "super::scalar::unique_map"
    )]
    pub env: BTreeMap<String, String>,
    /// Run it on a terminal of this size, its controlling one: all it prints is then its `stdout`.
    /// What is written to it is typed there, so Ctrl-C is the byte 3; closing it types Ctrl-D. `TERM`
    /// is `xterm-256color` unless `env` has it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::object::optional"
    )]
    pub pty: Option<PtySize>,
    /// Answer at once with the execution's id, and let it run until its own `timeout_ms`, a reset or
    /// the session's end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Let it go on when the session is reset: in the background, and with the cgroup layer, without
    /// which a reset ends every process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub survives_reset: bool,
    /// Wait for its turn, behind the code that the session was sent before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
    /// Milliseconds it may run; if not given the configured time, and any time for one in the
    /// background or on a terminal.
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
    /// Interrupt it when the client goes away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_on_disconnect: bool,
}

/// The most columns or rows of a terminal.
pub const MAX_PTY_SIZE: u16 = 4096;

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PtySize {
    /// Characters in a row, 1 to 4096.
    #[schema(minimum = 1, maximum = 4096)]
    pub columns: u16,
    /// Rows, 1 to 4096.
    #[schema(minimum = 1, maximum = 4096)]
    pub rows: u16,
}

/// A command that runs in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackgroundReply {
    pub session_id: String,
    /// By which its state and events are found, and with which it is written to and signalled.
    pub execution_id: String,
}

/// A signal for a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// Its name, as in signal(7): `SIGTERM`. `SIGKILL` also ends what the command has started.
    pub signal: String,
}

/// What was written to a command's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StdinReply {
    /// How many bytes of the body.
    pub written_bytes: u64,
    /// Whether it was closed after them.
    pub closed: bool,
}
