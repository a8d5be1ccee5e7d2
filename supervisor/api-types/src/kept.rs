//! An execution, during and after its run.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::outcome::Status;

use super::Outcome;
use super::schema;

/// The progress of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    Queued,
    /// Somebody has to allow it before its turn can come.
    AwaitingApproval,
    Running,
    Done,
}

/// What an execution runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionKind {
    #[default]
    Code,
    Command,
}

/// An execution in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionSummary {
    /// Unique within the session.
    pub id: String,
    pub kind: ExecutionKind,
    pub state: Progress,
    /// How it ended; null until it has.
    #[schema(schema_with = schema::names_or_null::<Status>)]
    pub status: Option<Status>,
    /// When the request came.
    #[schema(value_type = String, format = DateTime)]
    pub queued_at: Timestamp,
    /// When it began to run; null before, and if it never did.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    /// When it ended; null until it has.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
}

/// Part of a list of executions, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionPage {
    /// Those that wait or run, and those whose result is still kept.
    pub executions: Vec<ExecutionSummary>,
    /// The `after` of the next part; null at the end.
    pub next: Option<String>,
}

/// An execution: how far it has come, and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionInfo {
    pub state: Progress,
    /// Null until it is over. A streamed execution keeps at most the first 256 KiB of each of
    /// stdout and stderr.
    #[schema(value_type = Option<Outcome>)]
    pub outcome: Option<Arc<Outcome>>,
}

impl Outcome {
    /// Its approximate size.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let displays = self.displays.iter();
        let displays = displays
            .map(|shown| length(&shown.id) + bundle(&shown.mime) + 64 * (1 + shown.sizes.len()));
        let images = self.images.iter().chain(&self.video_frames);
        let images = images.map(|image| image.mime_type.len() + image.data.len() + 64);
        let files = self.files.iter().map(|file| {
            file.name.len() + length(&file.text) + length(&file.data) + length(&file.error) + 128
        });
        let changed = self.files_changed.iter().map(|file| file.name.len() + 64);
        let exception = self.exception.as_ref().map_or(0, |exception| {
            exception.type_name.len() + exception.message.len() + exception.traceback.len()
        });
        let previous = self.kernel.as_ref().and_then(|kernel| kernel.previous_end.as_ref());
        let result = self.result.as_ref().map_or(0, |value| value.weight_bytes());
        size_of::<Self>()
            + self.detail.len()
            + previous.map_or(0, |end| end.detail.len())
            + self.stdout.len()
            + self.stderr.len()
            + exception
            + result
            + self.order.len() * size_of::<super::Place>()
            + self.audit_events.iter().flatten().map(|(name, _)| name.len() + 64).sum::<usize>()
            + self.prints.iter().flatten().flatten().map(|value| value.len() + 32).sum::<usize>()
            + displays.chain(images).chain(files).chain(changed).sum::<usize>()
    }
}

impl super::ValueInfo {
    /// Its approximate size.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.repr.len() + self.type_name.len() + bundle(&self.mime) + 64 * self.sizes.len()
    }
}

fn bundle(mime: &super::MimeBundle) -> usize {
    mime.iter().map(|(kind, content)| kind.len() + content.len() + 64).sum()
}
