//! Length-prefixed frames: a little-endian `u32` and that many bytes of postcard.
//!
//! A length above the receiver's maximum is refused before anything is allocated for it, and
//! bytes after a message are refused too: what is not exactly one message is not one at all.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest message between supervisor and agent, in bytes. Holds the largest body the API
/// takes, and the largest result a kernel may give.
pub const MAX_FRAME_BYTES: usize = 48 << 20;

/// The largest message between agent, launcher and a kernel's report pipe, in bytes.
pub const MAX_SMALL_FRAME_BYTES: usize = 64 << 10;

/// The largest message to a launcher, in bytes: a command's arguments, of which execve(2) takes
/// 2 MiB where the stack is limited to 8 MiB.
pub const MAX_SPAWN_FRAME_BYTES: usize = 3 << 20;

/// Bytes before each message that say how long it is.
pub const PREFIX_BYTES: usize = 4;

/// A frame that the peer announced, or that we were asked to send, is over the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {len} bytes is over the maximum of {max}")]
pub struct TooLarge {
    /// How long it is.
    pub len: usize,
    /// How long it may be.
    pub max: usize,
}

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The message is too long.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The bytes are no such message.
    #[error("a frame that is not a message: {0}")]
    Malformed(#[from] postcard::Error),
    /// The message is followed by more bytes.
    #[error("a frame with {0} bytes after its message")]
    Trailing(usize),
}

impl From<FrameError> for std::io::Error {
    fn from(error: FrameError) -> Self {
        Self::other(error)
    }
}

/// One message as bytes, its length before it.
///
/// # Errors
/// [`FrameError::TooLarge`] if it would be longer than `max`.
pub fn encode<T: Serialize>(message: &T, max: usize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = postcard::to_extend(message, vec![0; PREFIX_BYTES])?;
    let len = bytes.len() - PREFIX_BYTES;
    if len > max || u32::try_from(len).is_err() {
        return Err(TooLarge { len, max }.into());
    }
    write_prefix(&mut bytes);
    Ok(bytes)
}

/// Writes how long a message or chunk is into its first [`PREFIX_BYTES`], which are kept free for that.
pub fn write_prefix(bytes: &mut [u8]) {
    let len = u32::try_from(bytes.len().saturating_sub(PREFIX_BYTES)).unwrap_or(u32::MAX);
    for (slot, byte) in bytes.iter_mut().zip(len.to_le_bytes()) {
        *slot = byte;
    }
}

/// The length a prefix announces.
///
/// # Errors
/// If it is over `max`.
pub fn announced_len(prefix: [u8; PREFIX_BYTES], max: usize) -> Result<usize, TooLarge> {
    let len = u32::from_le_bytes(prefix) as usize;
    if len > max { Err(TooLarge { len, max }) } else { Ok(len) }
}

/// The message in `body`, which must hold exactly one.
///
/// # Errors
/// [`FrameError::Malformed`] or [`FrameError::Trailing`].
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    let (message, rest) = postcard::take_from_bytes(body)?;
    if rest.is_empty() { Ok(message) } else { Err(FrameError::Trailing(rest.len())) }
}

/// Takes whole messages off the front of a growing buffer.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    max: usize,
}

impl Decoder {
    /// A decoder that refuses messages over `max` bytes.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self { buffer: Vec::new(), max }
    }

    /// Adds bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The length of the message whose beginning is here, or 0 if nothing of it is.
    ///
    /// # Errors
    /// As soon as a prefix announces too much.
    pub fn announced(&self) -> Result<usize, TooLarge> {
        match self.buffer.first_chunk::<PREFIX_BYTES>() {
            Some(prefix) => announced_len(*prefix, self.max),
            None => Ok(0),
        }
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// Any [`FrameError`]; the stream can not be used after one.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        self.next_with(decode)
    }

    /// The next message, if all of it is there, of another encoding, which `parse` reads.
    ///
    /// # Errors
    /// What `parse` returns, and [`TooLarge`]; the stream can not be used after one.
    pub fn next_with<T, E: From<TooLarge>>(
        &mut self,
        parse: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let len = announced_len(*prefix, self.max)?;
        let Some(body) = rest.get(..len) else {
            return Ok(None);
        };
        // From where it is: a copy would be as large again.
        let message = parse(body)?;
        self.buffer.drain(..PREFIX_BYTES + len);
        if self.buffer.is_empty() && self.buffer.capacity() > (64 << 10) {
            self.buffer = Vec::new();
        }
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Execute, Stream, ToAgent, Work};
    use proptest::prelude::*;

    #[test]
    fn a_message_survives_being_cut_anywhere() {
        let message = ToAgent::Execute(Execute {
            execution: 7,
            context: 0,
            work: Work::code("1+1".into()),
            files: vec![],
            outputs: vec![],
        });
        let bytes = encode(&message, MAX_FRAME_BYTES).unwrap();
        for cut in 0..bytes.len() {
            let mut decoder = Decoder::new(MAX_FRAME_BYTES);
            decoder.push(&bytes[..cut]);
            assert_eq!(decoder.next_message::<ToAgent>().unwrap(), None);
            decoder.push(&bytes[cut..]);
            assert_eq!(decoder.next_message::<ToAgent>().unwrap().as_ref(), Some(&message));
        }
    }

    #[test]
    fn a_frame_over_the_maximum_is_refused_by_its_prefix_alone() {
        let mut decoder = Decoder::new(10);
        decoder.push(&11_u32.to_le_bytes());
        assert_eq!(decoder.next_message::<ToAgent>(), Err(TooLarge { len: 11, max: 10 }.into()));
        assert!(matches!(encode(&[0_u8; 11], 10), Err(FrameError::TooLarge(_))));
    }

    #[test]
    fn a_large_buffer_is_given_back_once_it_is_empty() {
        let mut decoder = Decoder::new(MAX_FRAME_BYTES);
        decoder.push(&encode(&vec![0_u32; 1 << 20], MAX_FRAME_BYTES).unwrap());
        assert!(decoder.next_message::<Vec<u32>>().unwrap().is_some());
        assert_eq!(decoder.buffer.capacity(), 0);
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let mut body = postcard::to_stdvec(&Stream::Stdout).unwrap();
        body.push(0);
        assert_eq!(decode::<Stream>(&body), Err(FrameError::Trailing(1)));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic_and_never_grow_the_buffer(
            bytes in proptest::collection::vec(0..50_u8, 0..200),
            cut in 1..20_usize,
        ) {
            let mut decoder = Decoder::new(1 << 10);
            for piece in bytes.chunks(cut) {
                decoder.push(piece);
                loop {
                    match decoder.next_message::<ToAgent>() {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                prop_assert!(decoder.buffer.len() <= (1 << 10) + PREFIX_BYTES);
            }
        }
    }
}
