//! An outcome's outputs as a notebook has them (nbformat 4.5): one list, in the order in which code
//! printed, showed, returned and raised, so that a client can put it into an .ipynb file.

use std::collections::BTreeMap;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use vivarium_protocol::message::Stream;

use super::{EncodedImage, MimeBundle, Outcome, Sizes};

/// One of the things that an execution printed, showed, returned or raised. Its content is in the
/// outcome's separate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A part of a stream's text, in bytes.
    Text {
        stream: Stream,
        start: usize,
        end: usize,
    },
    Display(usize),
    Image(usize),
    VideoFrame(usize),
    Result,
    Exception,
}

/// An output of a notebook's cell (nbformat 4.5).
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "output_type", rename_all = "snake_case")]
pub enum NotebookOutput {
    /// Text printed to one stream, up to the next output of another kind.
    Stream {
        /// `stdout` or `stderr`.
        #[schema(schema_with = super::schema::stream)]
        name: Stream,
        /// The text.
        text: String,
    },
    /// A display, a figure or a frame of an animation.
    DisplayData {
        /// Where the content is in the separate fields, and how large.
        metadata: Metadata,
        /// Representations by MIME type: JSON types as JSON, other text as it is, everything else
        /// in base64.
        #[schema(value_type = Object)]
        data: NotebookData,
    },
    /// The value of the final expression.
    ExecuteResult {
        /// The number of the execution.
        execution_count: Option<u64>,
        /// Where the content is in the separate fields, and how large.
        metadata: Metadata,
        /// Representations by MIME type, as in `display_data`.
        #[schema(value_type = Object)]
        data: NotebookData,
    },
    /// The uncaught exception.
    Error {
        /// Its class.
        ename: String,
        /// Its message.
        evalue: String,
        /// The lines of its traceback.
        traceback: Vec<String>,
    },
}

/// What an output says of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Metadata {
    pub vivarium: ContentInfo,
}

/// Where the content of an output is in the separate fields, and how large.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ContentInfo {
    /// `result` or, counted from 0, `displays/0`, `images/0`, `video_frames/0`.
    pub part: String,
    /// Size of each representation, decoded, in bytes.
    #[schema(schema_with = super::schema::sizes)]
    pub sizes: Sizes,
}

impl Metadata {
    fn new(part: impl Into<String>, sizes: Sizes) -> Self {
        Self { vivarium: ContentInfo { part: part.into(), sizes } }
    }
}

/// Representations by MIME type.
pub type NotebookData = BTreeMap<String, Representation>;

/// One representation, as a notebook has it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Representation {
    Text(String),
    /// Content of a JSON type.
    Json(Box<RawValue>),
}

impl PartialEq for Representation {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::Json(one), Self::Json(other)) => one.get() == other.get(),
            _ => false,
        }
    }
}

/// No Rust program reads outputs: what they are made of is in the separate fields.
pub(super) fn unread<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<NotebookOutput>>, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| None)
}

/// An outcome's outputs, in order. `text` gives the text of a stream from one byte to another.
pub(super) fn outputs(
    outcome: &Outcome,
    order: &[Place],
    text: impl Fn(Stream, usize, usize) -> String,
) -> Vec<NotebookOutput> {
    order.iter().filter_map(|place| output(outcome, *place, &text)).collect()
}

fn output(
    outcome: &Outcome,
    place: Place,
    text: impl Fn(Stream, usize, usize) -> String,
) -> Option<NotebookOutput> {
    Some(match place {
        Place::Text { stream, start, end } => {
            let text = text(stream, start, end);
            if text.is_empty() {
                return None;
            }
            NotebookOutput::Stream { name: stream, text }
        }
        Place::Display(index) => {
            let shown = outcome.displays.get(index)?;
            let metadata = Metadata::new(format!("displays/{index}"), shown.sizes.clone());
            NotebookOutput::DisplayData { metadata, data: data(&shown.mime) }
        }
        Place::Image(index) => picture("images", index, outcome.images.get(index)?),
        Place::VideoFrame(index) => {
            picture("video_frames", index, outcome.video_frames.get(index)?)
        }
        Place::Result => {
            let value = outcome.result.as_ref()?;
            NotebookOutput::ExecuteResult {
                execution_count: outcome.execution_id.parse().ok(),
                metadata: Metadata::new("result", value.sizes.clone()),
                data: data(&value.mime),
            }
        }
        Place::Exception => {
            let exception = outcome.exception.as_ref()?;
            NotebookOutput::Error {
                ename: exception.type_name.clone(),
                evalue: exception.message.clone(),
                traceback: exception.traceback.lines().map(str::to_owned).collect(),
            }
        }
    })
}

fn picture(list: &str, index: usize, image: &EncodedImage) -> NotebookOutput {
    let sizes = Sizes::from([(image.mime_type.clone(), image.size_bytes)]);
    let mut data = NotebookData::new();
    if !image.data.is_empty() {
        data.insert(image.mime_type.clone(), Representation::Text(image.data.clone()));
    }
    NotebookOutput::DisplayData { metadata: Metadata::new(format!("{list}/{index}"), sizes), data }
}

/// A bundle as notebooks have it: JSON types as JSON, other text as it is, everything else in base64.
#[must_use]
pub fn data(mime: &MimeBundle) -> NotebookData {
    mime.iter().map(|(kind, text)| (kind.clone(), representation(kind, text))).collect()
}

/// Notebooks have JSON as it is, and not as a text.
fn representation(kind: &str, text: &str) -> Representation {
    let is_json =
        kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"));
    let json = if is_json { embeddable(text) } else { None };
    json.map_or_else(|| Representation::Text(text.to_owned()), Representation::Json)
}

/// A tenant's JSON, if no client's parser can fail for it: otherwise the code of a tenant could make
/// the whole answer unreadable. None of JSON with lone surrogates, which serde_json
/// refuses, or nested almost as deeply as that reads (128), or with more digits than Python reads
/// (`sys.set_int_max_str_digits`, 4300).
fn embeddable(text: &str) -> Option<Box<RawValue>> {
    const MAX_DIGITS: usize = 4000;
    const MAX_DEPTH: usize = 100;
    if text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > MAX_DIGITS) {
        return None;
    }
    let mut json = serde_json::Deserializer::from_str(text);
    Checked { depth_left: MAX_DEPTH }.deserialize(&mut json).ok()?;
    json.end().ok()?;
    RawValue::from_string(text.to_owned()).ok()
}

/// Parses JSON in full and keeps nothing of it. [`RawValue`] skips strings unread.
#[derive(Clone, Copy)]
struct Checked {
    depth_left: usize,
}

impl Checked {
    fn inner<E: de::Error>(self) -> Result<Self, E> {
        let depth_left = self.depth_left.checked_sub(1);
        depth_left
            .map(|depth_left| Self { depth_left })
            .ok_or_else(|| E::custom("nested too deeply"))
    }
}

impl<'de> DeserializeSeed<'de> for Checked {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while items.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while members.next_entry_seed(inner, inner)?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_embedded_unless_some_parser_could_fail_for_it() {
        for good in ["1", "{\"a\": [1.5, null, true, \"\\u00e9\"]}", "\"x\"", " [] "] {
            assert_eq!(
                embeddable(good).map(|raw| raw.get().trim().to_owned()).as_deref(),
                Some(good.trim())
            );
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        let long = "1".repeat(5000);
        for bad in ["", "NaN", "{", "\"\\ud800\"", "{\"\\ud800\": 1}", "1e999", "1 2", &deep, &long]
        {
            assert!(embeddable(bad).is_none(), "{bad:.20}");
        }
        let text = |kind| representation(kind, "[1]");
        assert!(matches!(text("application/vnd.plotly.v1+json"), Representation::Json(_)));
        assert!(matches!(text("text/json"), Representation::Text(_)));
    }
}
