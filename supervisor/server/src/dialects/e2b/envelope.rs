//! Messages of streams of the Connect protocol, in their envelopes.
//!
//! An envelope is a byte of flags, the length in four bytes, and that many bytes of JSON.

use serde_json::Value;

/// The largest message of a client, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

const HEAD_BYTES: usize = 5;
const COMPRESSED: u8 = 1;
const LAST: u8 = 2;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("a message of {0} bytes is larger than the maximum of {MAX_MESSAGE_BYTES}")]
    TooLarge(u64),
    #[error("messages are not taken compressed")]
    Compressed,
    #[error("the flags of an envelope are {0}, which mean nothing")]
    Flags(u8),
    #[error("the last message is not whole")]
    Cut,
}

/// A message in its envelope.
#[must_use]
pub fn message(message: &Value) -> Vec<u8> {
    enveloped(0, message)
}

/// The last message of a stream.
#[must_use]
pub fn end(message: &Value) -> Vec<u8> {
    enveloped(LAST, message)
}

fn enveloped(flags: u8, message: &Value) -> Vec<u8> {
    let text = message.to_string();
    // What is sent is smaller than an event of the API, which has 256 MiB at most.
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEAD_BYTES + text.len());
    bytes.push(flags);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Takes messages out of what a client sends, in pieces of any size.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// How much of the buffer has been taken.
    taken: usize,
    is_over: bool,
}

impl Decoder {
    pub fn feed(&mut self, piece: &[u8]) {
        if self.is_over {
            return;
        }
        // Once for each piece, so that many small messages in it cost no more than its length.
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(piece);
    }

    /// How many bytes wait for the rest of their message.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.rest().len()
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.taken..).unwrap_or_default()
    }

    /// The next whole message, if there is one.
    ///
    /// # Errors
    /// [`EnvelopeError`]; nothing can be made of what follows.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, EnvelopeError> {
        if self.is_over {
            return Ok(None);
        }
        let Some((&[flags, a, b, c, d], rest)) = self.rest().split_first_chunk::<HEAD_BYTES>()
        else {
            return Ok(None);
        };
        match flags {
            0 => {}
            LAST => {
                self.is_over = true;
                self.buffer.clear();
                self.taken = 0;
                return Ok(None);
            }
            flags if flags & COMPRESSED != 0 => return Err(EnvelopeError::Compressed),
            flags => return Err(EnvelopeError::Flags(flags)),
        }
        let length = u32::from_be_bytes([a, b, c, d]);
        let length = match usize::try_from(length) {
            Ok(length) if length <= MAX_MESSAGE_BYTES => length,
            _ => return Err(EnvelopeError::TooLarge(length.into())),
        };
        let Some(message) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        self.taken += HEAD_BYTES + length;
        Ok(Some(message))
    }

    /// Checks that no message was cut.
    ///
    /// # Errors
    /// [`EnvelopeError::Cut`].
    pub fn end(&self) -> Result<(), EnvelopeError> {
        if self.rest().is_empty() { Ok(()) } else { Err(EnvelopeError::Cut) }
    }
}

/// The only message of a body.
///
/// # Errors
/// [`EnvelopeError`], also if there is none.
pub fn one(body: &[u8]) -> Result<Vec<u8>, EnvelopeError> {
    let mut decoder = Decoder::default();
    decoder.feed(body);
    decoder.next_message()?.ok_or(EnvelopeError::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_come_out_whole_whatever_the_pieces() {
        let (a, b) = (json!({"a": 1}), json!({"b": "é"}));
        let bytes = [message(&a), message(&b), end(&json!({}))].concat();
        for size in 1..bytes.len() {
            let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
            for piece in bytes.chunks(size) {
                decoder.feed(piece);
                while let Some(message) = decoder.next_message().unwrap() {
                    messages.push(serde_json::from_slice::<Value>(&message).unwrap());
                }
            }
            assert_eq!(messages, [a.clone(), b.clone()], "in pieces of {size}");
            assert_eq!(decoder.end(), Ok(()));
        }
    }

    #[test]
    fn a_length_alone_takes_no_memory_and_bad_flags_are_refused() {
        let read = |bytes: &[u8]| {
            let mut decoder = Decoder::default();
            decoder.feed(bytes);
            decoder.next_message()
        };
        assert_eq!(read(&[0, 255, 255, 255, 255]), Err(EnvelopeError::TooLarge(0xffff_ffff)));
        assert_eq!(read(&[1, 0, 0, 0, 0]), Err(EnvelopeError::Compressed));
        assert_eq!(read(&[4, 0, 0, 0, 0]), Err(EnvelopeError::Flags(4)));
        assert_eq!(read(&[0, 0, 0, 0, 9, b'{']), Ok(None));
        assert_eq!(one(&[0, 0, 0, 0, 9, b'{']), Err(EnvelopeError::Cut));
        assert_eq!(one(&[0, 0, 0, 0, 2, b'{', b'}']), Ok(b"{}".to_vec()));
    }
}
