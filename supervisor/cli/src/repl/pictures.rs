//! Images of a session: drawn on the terminal where that is possible, else written to files.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vivarium_api_types::{DisplayEvent, MimeBundle};
use vivarium_protocol::error_chain;

use crate::artifacts::{ArtifactError, Folder};
use crate::exit::{Exit, Failure};
use crate::images::{self, ImageError, Protocol};

/// Types of images that a terminal may be able to draw.
const DRAWN: [&str; 3] = ["image/png", "image/jpeg", "image/gif"];

/// See the module.
#[derive(Debug)]
pub(super) struct Pictures {
    /// How, once that is known: finding out means asking the terminal.
    protocol: Option<Protocol>,
    folder: Option<Folder>,
    has_own_folder: bool,
}

impl Pictures {
    /// With a protocol and a folder, if they were named.
    pub(super) const fn new(protocol: Option<Protocol>, folder: Option<Folder>) -> Self {
        let has_own_folder = folder.is_some();
        Self { protocol, folder, has_own_folder }
    }

    /// Whether everything is to be written, drawn or not.
    pub(super) const fn has_own_folder(&self) -> bool {
        self.has_own_folder
    }

    /// What draws the image of a bundle, if there is one.
    pub(super) fn draw(&mut self, mime: &MimeBundle) -> Option<Result<String, ImageError>> {
        let data = DRAWN.iter().find_map(|kind| mime.get(*kind))?;
        let data: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let image = STANDARD.decode(data).ok()?;
        let protocol = *self.protocol.get_or_insert_with(images::detect);
        Some(images::show(protocol, &image, columns()))
    }

    /// Writes what was shown; gives where it is.
    pub(super) fn shown(&mut self, shown: &DisplayEvent<'_>) -> Result<Option<String>, Failure> {
        self.put(&shown.mime, |folder| folder.shown(shown))
    }

    /// Writes a value; gives where it is.
    pub(super) fn value(&mut self, mime: &MimeBundle) -> Result<Option<String>, Failure> {
        self.put(mime, |folder| folder.value(mime))
    }

    fn put<P: AsRef<Path>>(
        &mut self,
        mime: &MimeBundle,
        put: impl FnOnce(&mut Folder) -> Result<Option<P>, ArtifactError>,
    ) -> Result<Option<String>, Failure> {
        let is_image = mime.keys().any(|kind| kind.starts_with("image/"));
        // Tables and the like have said what they are as text.
        if !is_image && !self.has_own_folder {
            return Ok(None);
        }
        let folder = match &mut self.folder {
            Some(folder) => folder,
            none => none.insert(temporary()?),
        };
        let put = put(folder).map_err(|error| Failure::says(Exit::Error, error_chain(&error)))?;
        Ok(put.map(|path| path.as_ref().display().to_string()))
    }
}

/// A folder of our own, which stays when we end.
fn temporary() -> Result<Folder, Failure> {
    let made = tempfile::Builder::new().prefix("vivarium-").tempdir();
    let path = made.map_err(|error| Failure::new(Exit::Error, &error))?.keep();
    Folder::open(&path)
}

/// How wide the terminal is.
fn columns() -> Option<u16> {
    ratatui::crossterm::terminal::size().ok().map(|(columns, _)| columns).filter(|c| *c > 0)
}
