//! Images of a session: drawn on the terminal if it has a protocol for images, else written to
//! files.
//!
//! Only the bytes of the image come from the session, and they are sent in base64: no image can end
//! a control sequence or begin another.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use vivarium_api_types::{DisplayEvent, MimeBundle};
use vivarium_protocol::error_chain;

use crate::exit::{Exit, Failure};
use crate::output_dir::{OutputDir, OutputDirError};

const DRAWN: [&str; 3] = ["image/png", "image/jpeg", "image/gif"];

/// The largest image that is drawn, in bytes. A larger one goes to a file.
const MAX_BYTES: usize = 16 << 20;

/// The most base64 that kitty takes in one sequence.
const KITTY_CHUNK_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ImageProtocol {
    // What they are is in the help of `repl`: texts here would make it a long one.
    Kitty,
    #[value(name = "iterm2")]
    ITerm2,
    Files,
}

impl ImageProtocol {
    /// The protocol of this process's terminal, by the variables that terminals set.
    fn detect() -> Self {
        Self::of_terminal(|name| std::env::var(name).ok())
    }

    fn of_terminal(variable: impl Fn(&str) -> Option<String>) -> Self {
        let term = variable("TERM").unwrap_or_default();
        // A multiplexer is the terminal, and the variables of the one around it are still set.
        if variable("TMUX").is_some() || term.starts_with("screen") || term.starts_with("tmux") {
            return Self::Files;
        }
        if ["", "dumb", "linux"].contains(&&*term) {
            return Self::Files;
        }
        if variable("KITTY_WINDOW_ID").is_some()
            || ["xterm-kitty", "xterm-ghostty"].contains(&&*term)
        {
            return Self::Kitty;
        }
        match variable("TERM_PROGRAM").as_deref() {
            Some("ghostty" | "WezTerm") => Self::Kitty,
            Some("iTerm.app" | "vscode" | "mintty") => Self::ITerm2,
            _ => Self::Files,
        }
    }

    /// The control sequences that draw this image, and a line's end.
    fn draw(self, image: &[u8]) -> Result<String, DrawError> {
        if image.len() > MAX_BYTES {
            return Err(DrawError::TooLarge);
        }
        match self {
            Self::Kitty if is_png(image) => Ok(kitty(image)),
            Self::Kitty => Err(DrawError::NotPng),
            Self::ITerm2 => Ok(iterm2(image)),
            Self::Files => Err(DrawError::NoProtocol),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum DrawError {
    #[error("this terminal has no protocol for images")]
    NoProtocol,
    #[error("it has more than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    #[error("it is no PNG")]
    NotPng,
}

#[derive(Debug)]
pub(super) struct Images {
    protocol: ImageProtocol,
    output_dir: Option<OutputDir>,
    writes_everything: bool,
}

impl Images {
    pub(super) fn new(protocol: Option<ImageProtocol>, output_dir: Option<OutputDir>) -> Self {
        let writes_everything = output_dir.is_some();
        let protocol = protocol.unwrap_or_else(ImageProtocol::detect);
        Self { protocol, output_dir, writes_everything }
    }

    /// Whether everything is to be written, drawn or not.
    pub(super) const fn writes_everything(&self) -> bool {
        self.writes_everything
    }

    /// The control sequences that draw the image of a bundle, if there is one.
    pub(super) fn draw(&self, mime: &MimeBundle) -> Option<Result<String, DrawError>> {
        let data = DRAWN.iter().find_map(|kind| mime.get(*kind))?;
        let data: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let image = STANDARD.decode(data).ok()?;
        Some(self.protocol.draw(&image))
    }

    /// Writes a display, and returns its path.
    pub(super) fn write_display(
        &mut self,
        shown: &DisplayEvent<'_>,
    ) -> Result<Option<String>, Failure> {
        self.write(&shown.mime, |output_dir| output_dir.write_display(shown))
    }

    /// Writes a value, and returns its path.
    pub(super) fn write_value(&mut self, mime: &MimeBundle) -> Result<Option<String>, Failure> {
        self.write(mime, |output_dir| output_dir.write_value(mime))
    }

    fn write<P: AsRef<Path>>(
        &mut self,
        mime: &MimeBundle,
        write: impl FnOnce(&mut OutputDir) -> Result<Option<P>, OutputDirError>,
    ) -> Result<Option<String>, Failure> {
        let is_image = mime.keys().any(|kind| kind.starts_with("image/"));
        // Others, such as tables, are shown as text.
        if !is_image && !self.writes_everything {
            return Ok(None);
        }
        let output_dir = match &mut self.output_dir {
            Some(output_dir) => output_dir,
            none => none.insert(temporary_dir()?),
        };
        let path =
            write(output_dir).map_err(|error| Failure::says(Exit::Error, error_chain(&error)))?;
        Ok(path.map(|path| path.as_ref().display().to_string()))
    }
}

/// A new folder, which stays when the program ends.
fn temporary_dir() -> Result<OutputDir, Failure> {
    let made = tempfile::Builder::new().prefix("vivarium-").tempdir();
    let path = made.map_err(|error| Failure::new(Exit::Error, &error))?.keep();
    OutputDir::open(&path)
}

/// PNG's signature (RFC 2083, 3.1).
fn is_png(image: &[u8]) -> bool {
    image.starts_with(b"\x89PNG\r\n\x1a\n")
}

/// iTerm2's inline images (iTerm2's documentation, "Images"): the file in base64 in an OSC
/// sequence. The terminal finds out itself what kind of image it is.
fn iterm2(image: &[u8]) -> String {
    let (size, data) = (image.len(), STANDARD.encode(image));
    format!("\x1b]1337;File=inline=1;preserveAspectRatio=1;size={size}:{data}\x07\n")
}

/// kitty's graphics protocol (kitty's documentation, "Terminal graphics protocol"): a PNG
/// (`f=100`) in base64, in chunks, each in an APC sequence. It is shown at once (`a=T`), and the
/// terminal answers nothing (`q=2`): an answer would be taken for keys.
fn kitty(png: &[u8]) -> String {
    let data = STANDARD.encode(png);
    let mut text = String::with_capacity(data.len() + data.len() / 128 + 64);
    let mut rest = data.as_str();
    let mut control = "a=T,f=100,q=2,";
    loop {
        let (chunk, after) = rest.split_at(rest.len().min(KITTY_CHUNK_BYTES));
        let more = u8::from(!after.is_empty());
        text.push_str(&format!("\x1b_G{control}m={more};{chunk}\x1b\\"));
        rest = after;
        control = "";
        if more == 0 {
            break;
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
