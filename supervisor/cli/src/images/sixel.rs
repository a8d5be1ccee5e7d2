//! Sixel graphics (DEC's VT330/VT340 Programmer Reference Manual, volume 2, chapter 14): bands of
//! six rows of pixels, one character for six pixels of one colour above each other.
//!
//! The palette is fixed, six by seven by six levels: a plot needs few colours, and picking the
//! best 256 of a photograph is not worth a package beside the daemon.

use std::io::Cursor;

use png::{ColorType, Decoder, Limits, Transformations};

use super::ImageError;

/// Memory that decoding may take.
const MAX_DECODED_BYTES: usize = 64 << 20;

/// Levels of red, green and blue.
const LEVELS: [u32; 3] = [6, 7, 6];

/// How wide a column is taken to be, in pixels. Too narrow a guess only makes an image smaller.
const COLUMN_PIXELS: usize = 8;

/// No colour: what is behind is seen.
const TRANSPARENT: u16 = u16::MAX;

/// An image of palette colours, row by row.
struct Picture {
    width: usize,
    pixels: Vec<u16>,
}

pub(super) fn show(image: &[u8], columns: Option<u16>) -> Result<String, ImageError> {
    let picture = decode(image)?;
    let picture = match columns {
        Some(columns) => shrink(picture, usize::from(columns) * COLUMN_PIXELS),
        None => picture,
    };
    Ok(encode(&picture))
}

fn decode(image: &[u8]) -> Result<Picture, ImageError> {
    let mut decoder =
        Decoder::new_with_limits(Cursor::new(image), Limits { bytes: MAX_DECODED_BYTES });
    decoder.set_transformations(Transformations::normalize_to_color8() | Transformations::ALPHA);
    let mut reader = decoder.read_info().map_err(ImageError::Decode)?;
    let size = reader.output_buffer_size().filter(|size| *size <= MAX_DECODED_BYTES);
    let mut bytes = vec![0; size.ok_or(ImageError::TooLarge)?];
    let info = reader.next_frame(&mut bytes).map_err(ImageError::Decode)?;
    let samples = match info.color_type {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb | ColorType::Indexed => 3,
        ColorType::Rgba => 4,
    };
    let pixels = bytes.chunks_exact(samples).map(|pixel| match *pixel {
        [_, 0] | [_, _, _, 0] => TRANSPARENT,
        [grey] | [grey, _] => colour([grey; 3]),
        [red, green, blue] | [red, green, blue, _] => colour([red, green, blue]),
        _ => TRANSPARENT,
    });
    let width = usize::try_from(info.width).unwrap_or_default();
    Ok(Picture { width, pixels: pixels.collect() })
}

/// The palette's nearest colour.
fn colour(rgb: [u8; 3]) -> u16 {
    let index = rgb.iter().zip(LEVELS).fold(0, |index, (sample, levels)| {
        index * levels + (u32::from(*sample) * (levels - 1) + 127) / 255
    });
    u16::try_from(index).unwrap_or_default()
}

/// What a colour is, in hundredths of red, green and blue.
fn hundredths(colour: u16) -> [u32; 3] {
    let mut rest = u32::from(colour);
    let mut rgb = [0; 3];
    for (sample, levels) in rgb.iter_mut().zip(LEVELS).rev() {
        *sample = rest % levels * 100 / (levels - 1);
        rest /= levels;
    }
    rgb
}

/// The picture at most this wide, each pixel the nearest one.
fn shrink(picture: Picture, max_width: usize) -> Picture {
    let Picture { width, pixels } = picture;
    if width <= max_width || max_width == 0 {
        return Picture { width, pixels };
    }
    let rows: Vec<&[u16]> = pixels.chunks_exact(width).collect();
    let height = rows.len() * max_width / width;
    let shrunk = (0..height).filter_map(|y| rows.get(y * rows.len() / height)).flat_map(|row| {
        (0..max_width).filter_map(move |x| row.get(x * width / max_width).copied())
    });
    Picture { width: max_width, pixels: shrunk.collect() }
}

fn encode(picture: &Picture) -> String {
    let width = picture.width.max(1);
    let height = picture.pixels.len() / width;
    // Pixels are square, and what has no colour is left as it is (second parameter 1).
    let mut text = format!("\x1bP0;1q\"1;1;{width};{height}");
    let mut colours: Vec<u16> = picture.pixels.clone();
    colours.sort_unstable();
    colours.dedup();
    for colour in colours.iter().filter(|colour| **colour != TRANSPARENT) {
        let [red, green, blue] = hundredths(*colour);
        text.push_str(&format!("#{colour};2;{red};{green};{blue}"));
    }
    for band in picture.pixels.chunks(width * 6) {
        let mut here: Vec<u16> = band.to_vec();
        here.sort_unstable();
        here.dedup();
        for colour in here.iter().filter(|colour| **colour != TRANSPARENT) {
            text.push_str(&format!("#{colour}"));
            let column = |x: usize| {
                let column = band.iter().skip(x).step_by(width).enumerate();
                column.fold(0_u8, |bits, (y, pixel)| bits | u8::from(pixel == colour) << y)
            };
            repeat(&mut text, (0..width).map(column));
            // Back to the band's beginning, for its next colour.
            text.push('$');
        }
        text.push('-');
    }
    text.push_str("\x1b\\\n");
    text
}

/// Characters for these bits; more than three of the same by their number.
fn repeat(text: &mut String, columns: impl Iterator<Item = u8>) {
    let mut columns = columns.peekable();
    while let Some(bits) = columns.next() {
        let mut count = 1;
        while columns.next_if_eq(&bits).is_some() {
            count += 1;
        }
        let character = char::from(bits + b'?');
        if count > 3 {
            text.push_str(&format!("!{count}{character}"));
        } else {
            text.extend(std::iter::repeat_n(character, count));
        }
    }
}
