//! The events of a streamed execution, as clients read them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::outcome::{Cause, DisplayKind, State, Status};

use super::response::schema;
use super::{ChangedFile, ExecutionUsage, KernelInfo, MimeBundle, Outcome, OutputFile};

/// `started`: it begins to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartedEvent<'a> {
    /// The execution, within its session.
    pub execution_id: Cow<'a, str>,
    /// The session.
    pub session_id: Cow<'a, str>,
}

/// `stdout` and `stderr`: it printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputEvent<'a> {
    /// The text that was printed; what is not UTF-8 is replaced.
    pub text: Cow<'a, str>,
}

/// `display`: it showed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DisplayEvent<'a> {
    /// What to do with it: `display` and `image` show it, `update` shows it in place of the one
    /// with its id, `clear` forgets what was shown so far, `video_frame` is one of an animation.
    #[schema(schema_with = schema::names::<DisplayKind>)]
    pub kind: DisplayKind,
    /// Which display it is, where the code has named it.
    pub id: Option<Cow<'a, str>>,
    /// Its representations.
    pub mime: MimeBundle,
}

/// `done`: it is over. The outcome, without what the events before it have told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DoneEvent<'a> {
    /// The execution, within its session.
    pub execution_id: Cow<'a, str>,
    /// The session.
    pub session_id: Cow<'a, str>,
    /// How it ended.
    #[schema(schema_with = schema::names::<Status>)]
    pub status: Status,
    /// Why, where the status alone does not say.
    #[schema(schema_with = schema::names_or_null::<Cause>)]
    pub cause: Option<Cause>,
    /// The evidence, in words. Empty where there is nothing to say.
    pub detail: Cow<'a, str>,
    /// Whether variables and modules of the session survived.
    #[schema(schema_with = schema::names::<State>)]
    pub state: State,
    /// The kernel it ran in; null if it was rejected before there was one.
    pub kernel: Option<Cow<'a, KernelInfo>>,
    /// Whether this request made the session.
    pub session_created: bool,
    /// What a command exited with; null for code, and for a command that was killed.
    pub exit_code: Option<i32>,
    /// Whether it printed more to stdout than was sent.
    pub stdout_truncated: bool,
    /// Whether it printed more to stderr than was sent.
    pub stderr_truncated: bool,
    /// Files that were asked for.
    pub files: Cow<'a, [OutputFile]>,
    /// Files that the execution made or changed.
    pub files_changed: Cow<'a, [ChangedFile]>,
    /// Whether there are more of these.
    pub files_changed_more: bool,
    /// Time from the code's start to its end, in milliseconds.
    pub duration_ms: f64,
    /// What it used.
    pub usage: ExecutionUsage,
}

impl<'a> DoneEvent<'a> {
    /// From the outcome, and from whether its events have all that was printed.
    #[must_use]
    pub fn new(outcome: &'a Outcome, stdout_truncated: bool, stderr_truncated: bool) -> Self {
        Self {
            execution_id: Cow::Borrowed(&outcome.execution_id),
            session_id: Cow::Borrowed(&outcome.session_id),
            status: outcome.status,
            cause: outcome.cause,
            detail: Cow::Borrowed(&outcome.detail),
            state: outcome.state,
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
