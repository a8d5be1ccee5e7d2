//! kitty's graphics protocol (kitty's documentation, "Terminal graphics protocol"): the image in
//! base64, in pieces of at most 4096 bytes, each in an APC sequence.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const PIECE_BYTES: usize = 4096;

/// Transmits and shows (`a=T`) a PNG (`f=100`), and has the terminal say nothing to it (`q=2`):
/// an answer would be taken for keys.
pub(super) fn show(png: &[u8]) -> String {
    let data = STANDARD.encode(png);
    let mut text = String::with_capacity(data.len() + data.len() / 128 + 64);
    let mut rest = data.as_str();
    let mut control = "a=T,f=100,q=2,";
    loop {
        let (piece, after) = rest.split_at(rest.len().min(PIECE_BYTES));
        let more = u8::from(!after.is_empty());
        text.push_str(&format!("\x1b_G{control}m={more};{piece}\x1b\\"));
        rest = after;
        control = "";
        if more == 0 {
            break;
        }
    }
    text.push('\n');
    text
}
