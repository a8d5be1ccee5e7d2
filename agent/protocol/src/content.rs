//! The content of an upload or of an archive in chunks: a little-endian `u32` length and that many bytes, until one of
//! length 0. The end of the stream alone means that the sender went away: then the content is not whole.
//!
//! The decoder is fed bytes and holds no content.

use crate::frame::PREFIX_BYTES;

/// The largest chunk.
pub const CHUNK_MAX_BYTES: usize = 1 << 20;

/// A chunk that is longer than [`CHUNK_MAX_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of the content is too long")]
pub struct ChunkTooLong;

/// A decoder of chunks.
#[derive(Debug, Default)]
pub struct Chunks {
    prefix: [u8; PREFIX_BYTES],
    prefix_len: usize,
    left: usize,
}

/// The next part of the content.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// More input is needed.
    Nothing,
    /// Some of a chunk.
    Data(&'a [u8]),
    /// The chunk of length 0.
    End,
}

impl Chunks {
    /// Takes the next piece off `input`.
    ///
    /// # Errors
    /// [`ChunkTooLong`]; nothing that follows means anything.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Piece<'a>, ChunkTooLong> {
        while self.left == 0 {
            let Some((byte, rest)) = input.split_first() else {
                return Ok(Piece::Nothing);
            };
            *input = rest;
            if let Some(slot) = self.prefix.get_mut(self.prefix_len) {
                *slot = *byte;
            }
            self.prefix_len += 1;
            if self.prefix_len < self.prefix.len() {
                continue;
            }
            self.prefix_len = 0;
            self.left = usize::try_from(u32::from_le_bytes(self.prefix)).unwrap_or(usize::MAX);
            match self.left {
                0 => return Ok(Piece::End),
                1..=CHUNK_MAX_BYTES => {}
                _ => return Err(ChunkTooLong),
            }
        }
        let (data, rest) = input.split_at(self.left.min(input.len()));
        *input = rest;
        self.left -= data.len();
        Ok(if data.is_empty() { Piece::Nothing } else { Piece::Data(data) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::write_prefix;

    #[test]
    fn content_is_the_same_wherever_the_input_is_cut() {
        let mut wire: Vec<u8> = Vec::new();
        for chunk in [b"ab".as_slice(), b"cde", b""] {
            let start = wire.len();
            wire.extend([0; PREFIX_BYTES]);
            wire.extend(chunk);
            write_prefix(&mut wire[start..]);
        }
        for cut in 0..wire.len() {
            let (mut chunks, mut content) = (Chunks::default(), Vec::<u8>::new());
            let (mut first, mut second) = wire.split_at(cut);
            for input in [&mut first, &mut second] {
                while let Piece::Data(data) = chunks.next(input).unwrap() {
                    content.extend(data);
                }
            }
            assert_eq!(content, b"abcde", "cut at {cut}");
        }
    }

    #[test]
    fn a_chunk_over_the_maximum_is_refused() {
        let max = u32::try_from(CHUNK_MAX_BYTES).unwrap();
        let wire = (max + 1).to_le_bytes();
        assert!(Chunks::default().next(&mut wire.as_slice()).is_err());
        let wire = max.to_le_bytes();
        assert_eq!(Chunks::default().next(&mut wire.as_slice()).unwrap(), Piece::Nothing);
    }
}
