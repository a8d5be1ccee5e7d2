//! The files that a request wanted back: as text or in base64, each with its own reason if there
//! is no content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vivarium_api_types::{FileFormat, OutputFile as FileInfo, OutputSpec};
use vivarium_protocol::outcome::OutputFile;

use crate::media;

/// Why there is nothing of a file when the execution did not get as far.
const NEVER_READ: &str = "the execution ended before it could be read";

/// What was asked for, and what has come of it.
#[derive(Debug)]
pub(super) struct Files {
    asked: Vec<OutputSpec>,
    read: Vec<FileInfo>,
}

impl Files {
    pub(super) const fn new(asked: Vec<OutputSpec>) -> Self {
        Self { asked, read: Vec::new() }
    }

    /// Takes in the next file, if it is the next that was asked for. `fits` says whether so many
    /// bytes may be kept.
    pub(super) fn add(&mut self, file: OutputFile, fits: impl FnOnce(usize) -> bool) {
        let Some(spec) = self.asked.get(self.read.len()) else { return };
        if spec.name != file.name {
            return;
        }
        let info = match file.content {
            Err(reason) => failed(spec, file.size_bytes, reason),
            Ok(content) if !fits(content.len()) => {
                let reason = "it is over what is left of max_result_bytes".to_owned();
                failed(spec, file.size_bytes, reason)
            }
            Ok(content) => describe(spec, file.size_bytes, content.into_vec()),
        };
        self.read.push(info);
    }

    /// One entry for each that was asked for, in that order.
    pub(super) fn finish(mut self) -> Vec<FileInfo> {
        let missing = self.asked.iter().skip(self.read.len());
        self.read.extend(missing.map(|spec| failed(spec, 0, NEVER_READ.to_owned())));
        self.read
    }
}

fn failed(spec: &OutputSpec, size_bytes: u64, reason: String) -> FileInfo {
    FileInfo {
        name: spec.name.clone(),
        format: spec.format,
        mime_type: media::of_name(&spec.name).to_owned(),
        size_bytes,
        text: None,
        data: None,
        error: Some(reason),
    }
}

/// Text is what is UTF-8 and has no NUL in it.
fn describe(spec: &OutputSpec, size_bytes: u64, content: Vec<u8>) -> FileInfo {
    let name = spec.name.clone();
    let is_text = !content.contains(&0) && std::str::from_utf8(&content).is_ok();
    let mime_type = media::of_file(&name, &content, is_text).to_owned();
    let is_wanted_as_text = match spec.format {
        Some(format) => format == FileFormat::Text,
        None => is_text,
    };
    let (format, text, data) = if is_wanted_as_text {
        match String::from_utf8(content) {
            Ok(text) => (FileFormat::Text, Some(text), None),
            Err(_) => return failed(spec, size_bytes, "it is not UTF-8 text".to_owned()),
        }
    } else {
        (FileFormat::Base64, None, Some(STANDARD.encode(content)))
    };
    FileInfo { name, format: Some(format), mime_type, size_bytes, text, data, error: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, format: Option<FileFormat>) -> OutputSpec {
        OutputSpec { name: name.to_owned(), format }
    }

    fn file(name: &str, content: Result<&[u8], &str>) -> OutputFile {
        let content = content.map(|bytes| bytes.to_vec().into()).map_err(str::to_owned);
        OutputFile { name: name.to_owned(), size_bytes: 7, content }
    }

    fn one(asked: OutputSpec, content: Result<&[u8], &str>) -> FileInfo {
        let answer = file(&asked.name, content);
        let mut files = Files::new(vec![asked]);
        files.add(answer, |bytes| bytes <= 100);
        files.finish().pop().unwrap()
    }

    #[test]
    fn text_is_text_and_the_rest_base64() {
        let auto = one(spec("a.csv", None), Ok("é".as_bytes()));
        assert_eq!((auto.format, auto.text.as_deref()), (Some(FileFormat::Text), Some("é")));
        assert_eq!((auto.mime_type.as_str(), auto.size_bytes), ("text/csv", 7));
        for binary in [&b"\xff"[..], b"a\0b"] {
            let auto = one(spec("blob", None), Ok(binary));
            assert_eq!(auto.format, Some(FileFormat::Base64));
            assert_eq!(auto.mime_type, media::UNKNOWN);
        }
        let asked = one(spec("a", Some(FileFormat::Base64)), Ok(b"hi"));
        assert_eq!((asked.data.as_deref(), asked.text), (Some("aGk="), None));
        let nul = one(spec("a", Some(FileFormat::Text)), Ok(b"a\0b"));
        assert_eq!(nul.text.as_deref(), Some("a\0b"));
        let not_text = one(spec("a", Some(FileFormat::Text)), Ok(b"\xff"));
        assert_eq!(not_text.error.as_deref(), Some("it is not UTF-8 text"));
    }

    #[test]
    fn each_output_file_has_its_own_error() {
        assert_eq!(one(spec("a", None), Err("no such file")).error.unwrap(), "no such file");
        let large = one(spec("a", None), Ok(&[b'x'; 101]));
        assert!(large.error.unwrap().contains("max_result_bytes"));
        assert!(large.text.is_none());
    }

    #[test]
    fn each_requested_output_file_has_one_entry() {
        let mut files = Files::new(vec![spec("a", None), spec("b", None), spec("a", None)]);
        for name in ["a", "unasked", "b"] {
            files.add(file(name, Ok(b"x")), |_| true);
        }
        let files = files.finish();
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "a"]);
        assert_eq!(files.last().unwrap().error.as_deref(), Some(NEVER_READ));
        let mut none = Files::new(vec![]);
        none.add(file("unasked", Ok(b"x")), |_| true);
        assert!(none.finish().is_empty());
    }
}
