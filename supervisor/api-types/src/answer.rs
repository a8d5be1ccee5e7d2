//! The form in which an answer tells an outcome. What is kept of an execution does not depend on
//! it: a later request may ask for another form.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use vivarium_protocol::message::Stream;

use super::cut::{Cutter, Keep, MaxChars};
use super::{Display, EncodedImage, ExecutionInfo, MimeBundle, Outcome, ValueInfo, notebook};

/// Which fields of an outcome have what code printed, showed, returned and raised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// `stdout`, `stderr`, `exception`, `result`, `displays`, `images`, `video_frames`.
    #[default]
    Separate,
    /// `outputs` alone; the separate fields are empty.
    Notebook,
    /// Both, so all content twice.
    Both,
}

/// Whether an answer has content or tells only how large it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    #[default]
    Full,
    /// Of printed text, the value, displays, images and frames only the sizes.
    Sizes,
}

/// How an answer tells what came of an execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerForm {
    /// Which fields have what code printed, showed, returned and raised: `separate` ones, or
    /// `outputs`, in order as a `notebook` has them, or `both`.
    #[serde(default, deserialize_with = "super::object::name")]
    pub format: OutputFormat,
    /// `full`, or `sizes` without the content of printed text, the value, displays, images and
    /// frames. A stream of events has printed text all the same.
    #[serde(default, deserialize_with = "super::object::name")]
    pub content: Content,
}

/// How an outcome is told: by `max_output_chars`, `keep` and `answer` of a request that runs
/// something, and by the query for a kept one.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams,
)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OutcomeForm {
    /// The most characters of each text: stdout, stderr, the result's and a display's plain text, an
    /// exception's message and traceback. Other text forms that are longer are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<u64>, minimum = 100, maximum = 9_007_199_254_740_991_u64)]
    pub max_output_chars: Option<MaxChars>,
    /// Which part of a text longer than `max_output_chars` is kept.
    #[serde(default, deserialize_with = "super::object::name")]
    #[param(inline)]
    pub keep: Keep,
    /// Which fields have what code printed, showed, returned and raised: `separate` ones, or
    /// `outputs`, in order as a `notebook` has them, or `both`.
    #[serde(default, deserialize_with = "super::object::name")]
    #[param(inline)]
    pub format: OutputFormat,
    /// `full`, or `sizes` without the content of printed text, the value, displays, images and
    /// frames. A stream of events has printed text all the same.
    #[serde(default, deserialize_with = "super::object::name")]
    #[param(inline)]
    pub content: Content,
}

/// A request that an outcome answers.
pub trait Answered {
    fn outcome_form(&self) -> OutcomeForm;
}

macro_rules! answered {
    ($($request:ty),*) => {$(
        impl Answered for $request {
            fn outcome_form(&self) -> OutcomeForm {
                let Self { max_output_chars, keep, .. } = *self;
                let AnswerForm { format, content } = self.answer.unwrap_or_default();
                OutcomeForm { max_output_chars, keep, format, content }
            }
        }
    )*};
}

answered!(super::ExecuteRequest, super::CommandRequest, super::RunRequest);

impl OutcomeForm {
    /// How often an outcome in this form is in memory, its JSON included.
    #[must_use]
    pub fn copies(&self) -> usize {
        match self.format {
            _ if *self == Self::default() => 1,
            OutputFormat::Separate => 2,
            OutputFormat::Notebook => 3,
            OutputFormat::Both => 4,
        }
    }

    /// The first of its fields that a stream of events does not know.
    #[must_use]
    pub fn of_outcomes(&self) -> Option<&'static str> {
        match self {
            Self { format: OutputFormat::Notebook | OutputFormat::Both, .. } => Some("format"),
            Self { max_output_chars: Some(_), .. } => Some("max_output_chars"),
            Self { keep: Keep::Head | Keep::Tail, .. } => Some("keep"),
            _ => None,
        }
    }
}

impl ExecutionInfo {
    /// The same, with the outcome in this form.
    #[must_use]
    pub fn in_form(&self, form: OutcomeForm) -> Self {
        let outcome = self.outcome.as_ref().map(|outcome| outcome.in_form(form));
        Self { state: self.state, outcome }
    }
}

impl ValueInfo {
    /// The value without its content.
    #[must_use]
    pub fn sizes_only(&self) -> Self {
        Self {
            size_bytes: self.size_bytes,
            sizes: self.sizes.clone(),
            type_name: self.type_name.clone(),
            repr: String::new(),
            mime: MimeBundle::new(),
        }
    }
}

impl Outcome {
    /// The outcome in this form.
    #[must_use]
    pub fn in_form(self: &Arc<Self>, form: OutcomeForm) -> Arc<Self> {
        if form == OutcomeForm::default() {
            return Arc::clone(self);
        }
        if form.content == Content::Sizes {
            let form = OutcomeForm { content: Content::Full, ..form };
            return Arc::new(self.sizes_only()).in_form(form);
        }
        let mut cutter = Cutter::new(form.max_output_chars, form.keep);
        let stdout = cutter.kept(&self.stdout, "stdout", None);
        let stderr = cutter.kept(&self.stderr, "stderr", None);
        let displays = self.displays.iter().enumerate();
        let mut told = Self {
            result: self.result.as_ref().map(|value| Arc::new(cutter.value(value))),
            exception: self.exception.as_ref().map(|exception| cutter.exception(exception)),
            displays: displays.map(|(index, shown)| cutter.display(index, shown)).collect(),
            images: self.images.clone(),
            video_frames: self.video_frames.clone(),
            ..self.without_content()
        };
        told.cuts = cutter.cuts;
        let outputs = || {
            let text = |stream, start, end| match stream {
                Stream::Stdout => stdout.of(&self.stdout, start, end),
                Stream::Stderr => stderr.of(&self.stderr, start, end),
            };
            notebook::outputs(&told, &self.order, text)
        };
        match form.format {
            OutputFormat::Separate => {}
            OutputFormat::Notebook => {
                let (outputs, cuts) = (outputs(), told.cuts);
                let told = self.without_content();
                return Arc::new(Self { outputs: Some(outputs), cuts, ..told });
            }
            OutputFormat::Both => told.outputs = Some(outputs()),
        }
        told.stdout = stdout.of(&self.stdout, 0, self.stdout.len());
        told.stderr = stderr.of(&self.stderr, 0, self.stderr.len());
        Arc::new(told)
    }

    /// The outcome with sizes in place of what code printed, showed and returned.
    fn sizes_only(&self) -> Self {
        let image = |image: &EncodedImage| EncodedImage {
            mime_type: image.mime_type.clone(),
            size_bytes: image.size_bytes,
            data: String::new(),
        };
        let display = |shown: &Display| Display {
            id: shown.id.clone(),
            sizes: shown.sizes.clone(),
            mime: MimeBundle::new(),
        };
        Self {
            exception: self.exception.clone(),
            result: self.result.as_ref().map(|value| Arc::new(value.sizes_only())),
            displays: self.displays.iter().map(display).collect(),
            images: self.images.iter().map(image).collect(),
            video_frames: self.video_frames.iter().map(image).collect(),
            order: self.order.clone(),
            prints: None,
            ..self.without_content()
        }
    }

    /// The outcome without what code printed, showed, returned and raised.
    fn without_content(&self) -> Self {
        Self {
            execution_id: self.execution_id.clone(),
            session_id: self.session_id.clone(),
            status: self.status,
            cause: self.cause,
            detail: self.detail.clone(),
            state: self.state,
            kernel: self.kernel.clone(),
            session_created: self.session_created,
            rolled_back: self.rolled_back,
            exit_code: self.exit_code,
            stdout_bytes: self.stdout_bytes,
            stdout: String::new(),
            stdout_truncated: self.stdout_truncated,
            stderr_bytes: self.stderr_bytes,
            stderr: String::new(),
            stderr_truncated: self.stderr_truncated,
            exception: None,
            result: None,
            displays: vec![],
            images: vec![],
            video_frames: vec![],
            outputs: None,
            order: vec![],
            cuts: vec![],
            files: self.files.clone(),
            files_changed: self.files_changed.clone(),
            files_changed_more: self.files_changed_more,
            duration_ms: self.duration_ms,
            usage: self.usage,
            audit_events: self.audit_events.clone(),
            prints: self.prints.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn outcome() -> Arc<Outcome> {
        use crate::Place::{Display, Exception, Image, Result, Text};
        use vivarium_protocol::message::Stream::{Stderr, Stdout};
        let mut outcome: Outcome = serde_json::from_value(json!({
            "execution_id": "7", "session_id": "s", "status": "error", "cause": null, "detail": "",
            "state": "preserved", "kernel": null, "session_created": false, "exit_code": null,
            "stdout": "aébc", "stdout_truncated": false, "stderr": "x", "stderr_truncated": false,
            "exception": {"type": "E", "message": "m", "traceback": "Traceback\n  E: m\n"},
            "result": {"repr": "1", "type": "int", "sizes": {"text/plain": 1}, "mime": {"text/plain": "1"}},
            "displays": [{"mime": {"text/html": "<b>", "application/json": "{\"a\": [1]}"}}],
            "images": [{"mime_type": "image/png", "size_bytes": 3, "data": "AAAA"}], "video_frames": [],
            "files": [], "files_changed": [], "files_changed_more": false,
            "duration_ms": 1.0, "usage": {"cpu_ms": 0.0, "memory_peak_bytes": 0}
        }))
        .unwrap();
        outcome.order = vec![
            Text { stream: Stdout, start: 0, end: 3 },
            Text { stream: Stderr, start: 0, end: 1 },
            Display(0),
            Text { stream: Stdout, start: 3, end: 5 },
            Image(0),
            Result,
            Exception,
        ];
        Arc::new(outcome)
    }

    #[test]
    fn outputs_are_in_order_and_have_the_shapes_of_nbformat() {
        let form = OutcomeForm { format: OutputFormat::Notebook, ..OutcomeForm::default() };
        let viewed = serde_json::to_value(outcome().in_form(form)).unwrap();
        let expected = json!([
            {"output_type": "stream", "name": "stdout", "text": "aé"},
            {"output_type": "stream", "name": "stderr", "text": "x"},
            {"output_type": "display_data",
             "metadata": {"vivarium": {"part": "displays/0", "sizes": {}}},
             "data": {"application/json": {"a": [1]}, "text/html": "<b>"}},
            {"output_type": "stream", "name": "stdout", "text": "bc"},
            {"output_type": "display_data",
             "metadata": {"vivarium": {"part": "images/0", "sizes": {"image/png": 3}}},
             "data": {"image/png": "AAAA"}},
            {"output_type": "execute_result", "execution_count": 7,
             "metadata": {"vivarium": {"part": "result", "sizes": {"text/plain": 1}}},
             "data": {"text/plain": "1"}},
            {"output_type": "error", "ename": "E", "evalue": "m",
             "traceback": ["Traceback", "  E: m"]},
        ]);
        assert_eq!(viewed["outputs"], expected);
        assert_eq!((&viewed["stdout"], &viewed["result"]), (&json!(""), &json!(null)));
        assert_eq!((&viewed["images"], &viewed["status"]), (&json!([]), &json!("error")));
    }

    #[test]
    fn separate_fields_and_outputs_come_as_asked() {
        let outcome = outcome();
        let plain = outcome.in_form(OutcomeForm::default());
        assert!(Arc::ptr_eq(&plain, &outcome), "nothing is copied");
        assert!(serde_json::to_value(plain).unwrap().get("outputs").is_none());
        let both =
            outcome.in_form(OutcomeForm { format: OutputFormat::Both, ..OutcomeForm::default() });
        assert_eq!((both.stdout.as_str(), both.outputs.as_ref().map(Vec::len)), ("aébc", Some(7)));
    }
}
