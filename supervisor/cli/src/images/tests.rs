//! What is sent for an image.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// A PNG of these pixels, red, green, blue and alpha.
fn png(width: u32, pixels: &[[u8; 4]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let height = u32::try_from(pixels.len()).unwrap() / width;
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgba);
    encoder.write_header().unwrap().write_image_data(&pixels.concat()).unwrap();
    bytes
}

const RED: [u8; 4] = [255, 0, 0, 255];
const BLUE: [u8; 4] = [0, 0, 255, 255];
const NONE: [u8; 4] = [0, 0, 0, 0];

#[test]
fn kitty_gets_it_in_pieces() {
    // Noise, so that it does not get smaller.
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16).to_be_bytes()[3]
    };
    let pixels: Vec<_> = (0..4096).map(|_| [noise(), noise(), noise(), noise()]).collect();
    let image = png(64, &pixels);
    let text = show(Protocol::Kitty, &image, None).unwrap();
    let pieces: Vec<_> = text.trim_end().split_terminator("\x1b\\").collect();
    assert!(pieces.len() > 2);
    let mut data = String::new();
    for (number, piece) in pieces.iter().enumerate() {
        let (control, part) = piece.strip_prefix("\x1b_G").unwrap().split_once(';').unwrap();
        assert_eq!(control.starts_with("a=T,f=100,q=2,"), number == 0, "{control}");
        assert_eq!(control.ends_with("m=1"), number + 1 < pieces.len(), "{control}");
        assert!(part.len() <= 4096);
        data.push_str(part);
    }
    assert_eq!(STANDARD.decode(data).unwrap(), image);
}

#[test]
fn iterm2_gets_it_whole_and_of_any_kind() {
    let text = show(Protocol::ITerm2, b"GIF89a", None).unwrap();
    assert_eq!(text, "\x1b]1337;File=inline=1;preserveAspectRatio=1;size=6:R0lGODlh\x07\n");
}

#[test]
fn sixels_are_drawn_band_by_band() {
    // Two columns of seven: red above blue, and nothing beside the first row.
    let mut pixels = vec![[RED, NONE]];
    pixels.extend([[RED, BLUE]; 6]);
    let text = show(Protocol::Sixel, &png(2, pixels.as_flattened()), None).unwrap();
    // 210 and 5 are red and blue in the palette; `~` is six pixels, `}` all but the first.
    assert_eq!(
        text,
        "\x1bP0;1q\"1;1;2;7#5;2;0;0;100#210;2;100;0;0#5?}$#210~?$-#5?@$#210@?$-\x1b\\\n"
    );
}

#[test]
fn a_wide_image_is_made_as_narrow_as_the_terminal() {
    let image = png(100, &[RED; 1000]);
    let text = show(Protocol::Sixel, &image, Some(5)).unwrap();
    assert!(text.starts_with("\x1bP0;1q\"1;1;40;4#210"), "{text:?}");
    assert!(text.contains("#210!40N$-"), "{text:?}");
}

#[test]
fn what_cannot_be_shown_is_told() {
    let not_png = show(Protocol::Kitty, b"GIF89a", None);
    assert!(matches!(not_png, Err(ImageError::NotPng)));
    let broken = show(Protocol::Sixel, b"\x89PNG\r\n\x1a\nxxxx", None);
    assert!(matches!(broken, Err(ImageError::Decode(_))));
    let large = show(Protocol::Kitty, &vec![0; MAX_BYTES + 1], None);
    assert!(matches!(large, Err(ImageError::TooLarge)));
    let none = show(Protocol::Files, b"", None);
    assert!(matches!(none, Err(ImageError::NoProtocol)));
    // A small file that says that it is huge.
    let mut huge = png(1, &[RED]);
    huge[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    assert!(show(Protocol::Sixel, &huge, None).is_err());
}
