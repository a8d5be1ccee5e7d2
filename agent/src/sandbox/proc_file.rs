//! Files of /proc, whose size nobody knows before they are read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::LayerError;

/// More than any that is read here has, so that each takes one read(2), and another at its end.
const USUAL_BYTES: usize = 16 << 10;
const MOST_BYTES: u64 = 4 << 20;

pub(super) fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(USUAL_BYTES);
    // `take` has it read without asking for a size, which /proc gives as 0.
    File::open(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn read(path: impl AsRef<Path>) -> Result<String, LayerError> {
    let path = path.as_ref();
    text(path).map_err(|error| LayerError::new(format!("read {}", path.display()), error))
}
