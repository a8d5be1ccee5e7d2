//! The events of a streamed execution.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::outcome::{Cause, DisplayKind, State, Status};

use super::schema;
use super::{ChangedFile, ExecutionUsage, KernelInfo, MimeBundle, Outcome, OutputFile, Sizes};

/// `started`: the execution begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartedEvent<'a> {
    /// Unique within the session.
    pub execution_id: Cow<'a, str>,
    pub session_id: Cow<'a, str>,
}

/// `stdout` and `stderr`: printed text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputEvent<'a> {
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: Cow<'a, str>,
}

/// `display`: a display, figure or frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DisplayEvent<'a> {
    /// What to do with it: `display` and `image` show it, `update` shows it in place of the one
    /// with its id, `clear` forgets what was shown so far, `video_frame` is one of an animation.
    #[schema(schema_with = schema::names::<DisplayKind>)]
    pub kind: DisplayKind,
    /// The `display_id`, if the code gave one.
    pub id: Option<Cow<'a, str>>,
    /// Size of each representation, decoded, in bytes.
    #[serde(default)]
    #[schema(schema_with = schema::sizes)]
    pub sizes: Sizes,
    #[schema(schema_with = schema::mime_bundle)]
    pub mime: MimeBundle,
}

/// `done`: the execution is over. The outcome, without the content of earlier events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DoneEvent<'a> {
    /// Unique within the session.
    pub execution_id: Cow<'a, str>,
    pub session_id: Cow<'a, str>,
    #[schema(schema_with = schema::names::<Status>)]
    pub status: Status,
    /// The reason, if the status alone does not say.
    #[schema(schema_with = schema::names_or_null::<Cause>)]
    pub cause: Option<Cause>,
    /// The evidence, in words; may be empty.
    pub detail: Cow<'a, str>,
    /// Whether variables and modules of the session survived.
    #[schema(schema_with = schema::names::<State>)]
    pub state: State,
    /// Whether the kernel was lost, and the session was rolled back to a checkpoint.
    #[serde(default)]
    pub rolled_back: bool,
    /// Null if it was rejected before there was a kernel.
    pub kernel: Option<Cow<'a, KernelInfo>>,
    /// Whether this request created the session.
    pub session_created: bool,
    /// Exit code of a command; null for code, and for a command that was killed.
    pub exit_code: Option<i32>,
    /// Whether some of stdout was not sent.
    pub stdout_truncated: bool,
    /// Whether some of stderr was not sent.
    pub stderr_truncated: bool,
    /// The requested files.
    pub files: Cow<'a, [OutputFile]>,
    /// Files that the execution created or changed.
    pub files_changed: Cow<'a, [ChangedFile]>,
    /// Whether there are more changed files.
    pub files_changed_more: bool,
    /// Time from the code's start to its end, in milliseconds.
    pub duration_ms: f64,
    pub usage: ExecutionUsage,
}

impl<'a> DoneEvent<'a> {
    #[must_use]
    pub fn new(outcome: &'a Outcome, stdout_truncated: bool, stderr_truncated: bool) -> Self {
        Self {
            execution_id: Cow::Borrowed(&outcome.execution_id),
            session_id: Cow::Borrowed(&outcome.session_id),
            status: outcome.status,
            cause: outcome.cause,
            detail: Cow::Borrowed(&outcome.detail),
            state: outcome.state,
            rolled_back: outcome.rolled_back,
            kernel: outcome.kernel.as_ref().map(Cow::Borrowed),
            session_created: outcome.session_created,
            exit_code: outcome.exit_code,
            stdout_truncated,
            stderr_truncated,
            files: Cow::Borrowed(&outcome.files),
            files_changed: Cow::Borrowed(&outcome.files_changed),
            files_changed_more: outcome.files_changed_more,
            duration_ms: outcome.duration_ms,
            usage: outcome.usage,
        }
    }
}
