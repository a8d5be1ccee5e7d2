//! The files of a request: what goes into the session first, and what comes back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vivarium_api_types::{FileSpec, OutputSpec};
use vivarium_protocol::message::InputFile;
use vivarium_protocol::places::Place;

use super::{is_beneath, roots};
use crate::engine::EngineError;
use crate::settings::Settings;

/// The most files a request can have brought back.
const MAX_OUTPUTS: usize = 256;

/// The one name of a file that is named relative to the workdir, or absolutely beneath a root.
fn file_name(settings: &Settings, name: &str) -> Result<String, String> {
    let workdir = &settings.sandbox.workdir;
    let place = Place::of(name, workdir).ok_or_else(|| roots(workdir))?;
    if is_beneath(place.path) {
        Ok(place.name())
    } else {
        Err(format!("a file's name is a path without '..'; {}", roots(workdir)))
    }
}

pub(super) fn input_files(
    settings: &Settings,
    files: Vec<FileSpec>,
) -> Result<Vec<InputFile>, EngineError> {
    files.into_iter().enumerate().map(|(index, file)| input_file(settings, index, file)).collect()
}

pub(super) fn input_file(
    settings: &Settings,
    index: usize,
    file: FileSpec,
) -> Result<InputFile, EngineError> {
    let invalid =
        |part: &str, reason: &str| EngineError::invalid(format!("files[{index}].{part}"), reason);
    let FileSpec { name, text, data } = file;
    let name = file_name(settings, &name).map_err(|reason| invalid("name", &reason))?;
    let data = match (text, data) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(data)) => {
            STANDARD.decode(data).map_err(|error| invalid("data", &format!("base64: {error}")))?
        }
        _ => return Err(invalid("text", "give a file's content as either text or data")),
    };
    Ok(InputFile { name, data })
}

pub(super) fn output_files(
    settings: &Settings,
    outputs: Vec<OutputSpec>,
) -> Result<Vec<OutputSpec>, EngineError> {
    if outputs.len() > MAX_OUTPUTS {
        let reason = format!("over the maximum of {MAX_OUTPUTS} files");
        return Err(EngineError::invalid("outputs", reason));
    }
    for (index, output) in outputs.iter().enumerate() {
        let invalid =
            |reason: String| EngineError::invalid(format!("outputs[{index}].name"), reason);
        file_name(settings, &output.name).map_err(invalid)?;
    }
    // As they were given: the answer names them so.
    Ok(outputs)
}
