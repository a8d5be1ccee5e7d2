//! An execution, during and after its run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Outcome;

/// The progress of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    Queued,
    Running,
    Done,
}

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
        let displays = displays.map(|shown| length(&shown.id) + bundle(&shown.mime) + 64);
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
        let result = self.result.as_ref().map_or(0, super::ValueInfo::weight_bytes);
        size_of::<Self>()
            + self.detail.len()
            + previous.map_or(0, |end| end.detail.len())
            + self.stdout.len()
            + self.stderr.len()
            + exception
            + result
            + displays.chain(images).chain(files).chain(changed).sum::<usize>()
    }
}

impl super::ValueInfo {
    /// Its approximate size.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.repr.len() + self.type_name.len() + bundle(&self.mime)
    }
}

fn bundle(mime: &super::MimeBundle) -> usize {
    mime.iter().map(|(kind, content)| kind.len() + content.len() + 64).sum()
}
