//! Images in a terminal, by whichever of three protocols it has.
//!
//! What is sent is ours but for the bytes of the image, and these are in base64 or drawn anew
//! from pixels: nothing of an image can end a sequence or begin another.

mod detect;
mod iterm2;
mod kitty;
mod sixel;

use clap::ValueEnum;

pub(super) use detect::detect;

/// The largest image that is shown, in bytes. A larger one goes to a file.
const MAX_BYTES: usize = 16 << 20;

/// How images are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Protocol {
    /// kitty's graphics protocol; kitty, Ghostty, Konsole, WezTerm.
    Kitty,
    /// iTerm2's inline images; iTerm2, WezTerm, VS Code, mintty.
    #[value(name = "iterm2")]
    ITerm2,
    /// Sixel graphics, as DEC's terminals had them; foot, xterm, mlterm, Windows Terminal.
    Sixel,
    /// In none: they are written to files.
    Files,
}

/// Why an image cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImageError {
    /// This terminal shows none.
    #[error("this terminal has no protocol for images")]
    NoProtocol,
    /// It is too large.
    #[error("it has more than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    /// It is not a PNG, and the protocol takes no others.
    #[error("it is no PNG")]
    NotPng,
    /// It is a broken PNG, or one that would take too much memory.
    #[error("it cannot be decoded")]
    Decode(#[source] png::DecodingError),
}

/// What shows this image, `columns` wide at most, with a line's end.
pub(super) fn show(
    protocol: Protocol,
    image: &[u8],
    columns: Option<u16>,
) -> Result<String, ImageError> {
    if image.len() > MAX_BYTES {
        return Err(ImageError::TooLarge);
    }
    match protocol {
        Protocol::Kitty if is_png(image) => Ok(kitty::show(image)),
        Protocol::Kitty => Err(ImageError::NotPng),
        Protocol::ITerm2 => Ok(iterm2::show(image)),
        Protocol::Sixel if is_png(image) => sixel::show(image, columns),
        Protocol::Sixel => Err(ImageError::NotPng),
        Protocol::Files => Err(ImageError::NoProtocol),
    }
}

/// PNG's signature (RFC 2083, 3.1).
fn is_png(image: &[u8]) -> bool {
    image.starts_with(b"\x89PNG\r\n\x1a\n")
}

#[cfg(test)]
mod tests;
