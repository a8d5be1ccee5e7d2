//! iTerm2's inline images (iTerm2's documentation, "Images"): the file in base64 in an OSC
//! sequence. The terminal finds out itself what kind of image it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(super) fn show(image: &[u8]) -> String {
    let (size, data) = (image.len(), STANDARD.encode(image));
    format!("\x1b]1337;File=inline=1;preserveAspectRatio=1;size={size}:{data}\x07\n")
}
