//! One part of an outcome in one representation, for a client that was told the sizes and now wants
//! this content.

use super::mime::is_text;
use super::{EncodedImage, MimeBundle, Outcome, OutputFile};

const PLAIN: &str = "text/plain";

/// The parts that an outcome may have.
const PARTS: &str = "stdout, stderr, result, exception, exception/message and, counted from 0, \
                         displays/0, images/0, video_frames/0, files/0";

/// The content of a part, as the outcome holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// May be anything: it comes from tenant code.
    pub mime_type: &'a str,
    /// The path of a requested file.
    pub path: Option<&'a str>,
    pub content: Encoded<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoded<'a> {
    Text(&'a str),
    Base64(&'a str),
}

/// There is no such content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPart {
    #[error("the outcome has no {0:?}; parts are {PARTS}")]
    Part(String),
    #[error("{part} has no {wanted:?}: it has {}", .there.join(", "))]
    Representation { part: String, wanted: String, there: Vec<String> },
    #[error("name one of the representations of {part} with mime_type: {}", .there.join(", "))]
    Ambiguous { part: String, there: Vec<String> },
    #[error("{name}: {error}")]
    File { name: String, error: String },
}

impl<'a> Encoded<'a> {
    /// The content as it is held.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        match self {
            Self::Text(text) | Self::Base64(text) => text,
        }
    }
}

impl<'a> Part<'a> {
    fn plain(text: &'a str) -> Self {
        Self { mime_type: PLAIN, path: None, content: Encoded::Text(text) }
    }

    fn image(image: &'a EncodedImage) -> Self {
        let content = Encoded::Base64(&image.data);
        Self { mime_type: &image.mime_type, path: None, content }
    }

    fn file(file: &'a OutputFile) -> Result<Self, NoPart> {
        let content = match (&file.text, &file.data) {
            (Some(text), _) => Encoded::Text(text),
            (None, Some(data)) => Encoded::Base64(data),
            (None, None) => {
                let error = file.error.clone().unwrap_or_default();
                return Err(NoPart::File { name: file.name.clone(), error });
            }
        };
        Ok(Self { mime_type: &file.mime_type, path: Some(&file.name), content })
    }
}

fn bundle<'a>(mime: &'a MimeBundle) -> Vec<Part<'a>> {
    let part = |(mime_type, content): (&'a String, &'a String)| {
        let is_text = is_text(mime_type);
        let content = if is_text { Encoded::Text(content) } else { Encoded::Base64(content) };
        Part { mime_type, path: None, content }
    };
    mime.iter().map(part).collect()
}

impl Outcome {
    /// A part's content of a type; without one the plain text, or the only one that there is.
    ///
    /// # Errors
    /// [`NoPart`] if there is no such part or representation, or several and none is named.
    pub fn part(&self, name: &str, mime_type: Option<&str>) -> Result<Part<'_>, NoPart> {
        let there = self.representations(name)?;
        let of = |kind: &str| there.iter().find(|part| part.mime_type == kind).copied();
        let kinds = || there.iter().map(|part| part.mime_type.to_owned()).collect();
        match (mime_type, &*there) {
            (Some(kind), _) => of(kind).ok_or_else(|| NoPart::Representation {
                part: name.to_owned(),
                wanted: kind.to_owned(),
                there: kinds(),
            }),
            (None, [only]) => Ok(*only),
            (None, _) => {
                of(PLAIN).ok_or_else(|| NoPart::Ambiguous { part: name.to_owned(), there: kinds() })
            }
        }
    }

    fn representations(&self, name: &str) -> Result<Vec<Part<'_>>, NoPart> {
        let (kind, rest) = name.split_once('/').unwrap_or((name, ""));
        // One name for each: no sign, and no zeros before it.
        let index: Option<usize> =
            rest.parse().ok().filter(|index: &usize| index.to_string() == rest);
        let found = match (kind, rest, index) {
            ("stdout", "", _) => Some(vec![Part::plain(&self.stdout)]),
            ("stderr", "", _) => Some(vec![Part::plain(&self.stderr)]),
            ("exception", "", _) => {
                self.exception.as_ref().map(|raised| vec![Part::plain(&raised.traceback)])
            }
            ("exception", "message", _) => {
                self.exception.as_ref().map(|raised| vec![Part::plain(&raised.message)])
            }
            ("result", "", _) => self.result.as_ref().map(|value| {
                let mut parts = bundle(&value.mime);
                if !value.mime.contains_key(PLAIN) {
                    parts.push(Part::plain(&value.repr));
                }
                parts
            }),
            ("displays", _, Some(index)) => {
                self.displays.get(index).map(|shown| bundle(&shown.mime))
            }
            ("images", _, Some(index)) => {
                self.images.get(index).map(|image| vec![Part::image(image)])
            }
            ("video_frames", _, Some(index)) => {
                self.video_frames.get(index).map(|frame| vec![Part::image(frame)])
            }
            ("files", _, Some(index)) => match self.files.get(index) {
                Some(file) => Some(vec![Part::file(file)?]),
                None => None,
            },
            _ => None,
        };
        found.ok_or_else(|| NoPart::Part(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn outcome() -> Outcome {
        serde_json::from_value(json!({
            "execution_id": "7", "session_id": "s", "status": "error", "cause": null, "detail": "",
            "state": "preserved", "kernel": null, "session_created": false, "exit_code": null,
            "stdout": "out", "stdout_truncated": false, "stderr": "", "stderr_truncated": false,
            "exception": {"type": "E", "message": "m", "traceback": "Traceback"},
            "result": {"repr": "1", "type": "int", "mime": {"text/html": "<b>"}},
            "displays": [{"mime": {"text/html": "<i>", "image/png": "AAAA"}}],
            "images": [{"mime_type": "image/png", "data": "BBBB"}], "video_frames": [],
            "files": [
                {"name": "a", "format": "text", "mime_type": "text/csv", "size_bytes": 1, "text": "x"},
                {"name": "b", "format": null, "mime_type": "a/b", "size_bytes": 0, "error": "missing"}
            ],
            "files_changed": [], "files_changed_more": false,
            "duration_ms": 1.0, "usage": {"cpu_ms": 0.0, "memory_peak_bytes": 0}
        }))
        .unwrap()
    }

    #[test]
    fn each_part_has_its_content_under_one_name() {
        let outcome = outcome();
        for (name, mime_type, expected) in [
            ("stdout", None, ("text/plain", Encoded::Text("out"))),
            ("stderr", Some("text/plain"), ("text/plain", Encoded::Text(""))),
            ("exception", None, ("text/plain", Encoded::Text("Traceback"))),
            ("exception/message", None, ("text/plain", Encoded::Text("m"))),
            ("result", None, ("text/plain", Encoded::Text("1"))),
            ("result", Some("text/html"), ("text/html", Encoded::Text("<b>"))),
            ("displays/0", Some("image/png"), ("image/png", Encoded::Base64("AAAA"))),
            ("images/0", None, ("image/png", Encoded::Base64("BBBB"))),
            ("files/0", None, ("text/csv", Encoded::Text("x"))),
        ] {
            let part = outcome.part(name, mime_type).unwrap();
            assert_eq!((part.mime_type, part.content), expected, "{name}");
        }
        for name in ["", "std", "stdout/0", "displays", "displays/1", "displays/00", "files/"] {
            assert!(matches!(outcome.part(name, None), Err(NoPart::Part(_))), "{name}");
        }
        for name in ["displays/+0", "displays/-0", "files/2", "video_frames/0", "exception/type"] {
            assert!(matches!(outcome.part(name, None), Err(NoPart::Part(_))), "{name}");
        }
    }

    #[test]
    fn a_representation_that_is_missing_is_told_with_those_there_are() {
        let outcome = outcome();
        let said = |name, kind| outcome.part(name, kind).unwrap_err().to_string();
        assert_eq!(
            said("displays/0", Some("text/plain")),
            "displays/0 has no \"text/plain\": it has image/png, text/html"
        );
        assert_eq!(
            said("displays/0", None),
            "name one of the representations of displays/0 with mime_type: image/png, text/html"
        );
        assert_eq!(said("files/1", None), "b: missing");
    }
}
