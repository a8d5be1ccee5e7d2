//! The frames between a kernel and this process: a little-endian `u32`, the length of what follows; a
//! type byte; a payload. The kernel's side is `agent/python/calls/tool_channel.py`.
//!
//! | from | type | name | payload |
//! |---|---|---|---|
//! | kernel | 1 | CALL | `u32` number, `u8` length of the name, name, arguments as JSON |
//! | kernel | 2 | WITHDRAW | `u32` number: nobody waits for it any more |
//! | here | 1 | TOOLS | JSON: what can be called |
//! | here | 2 | ANSWER | `u32` number, `u8` kind, JSON: the result, or an object with `message` and perhaps `data` |
//!
//! TOOLS is the first frame, and comes once. A kernel numbers its calls as it likes, those that are
//! open differently.

use vivarium_protocol::frame::{PREFIX_BYTES, TooLarge, write_prefix};

use super::MAX_CALL_BYTES;

/// The most bytes of a frame from a kernel: those of its arguments and what is before them.
pub(super) const MAX_FRAME_BYTES: usize = MAX_CALL_BYTES + (1 << 10);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FromKernel {
    Call { number: u32, tool: String, arguments: Vec<u8> },
    Withdraw { number: u32 },
}

/// What a kernel is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Result = 0,
    Error = 1,
    Refused = 2,
    Timeout = 3,
}

/// The kernel, or who wrote in its place, does not keep to the protocol.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("a frame that is no call")]
    Malformed,
    #[error("two open calls of the same number")]
    Duplicate,
}

pub(super) fn parse(body: &[u8]) -> Result<FromKernel, WireError> {
    let (kind, rest) = body.split_first().ok_or(WireError::Malformed)?;
    let (number, rest) = rest.split_first_chunk::<4>().ok_or(WireError::Malformed)?;
    let number = u32::from_le_bytes(*number);
    match kind {
        1 => {
            let (length, rest) = rest.split_first().ok_or(WireError::Malformed)?;
            let (name, arguments) =
                rest.split_at_checked(usize::from(*length)).ok_or(WireError::Malformed)?;
            let tool = str::from_utf8(name).map_err(|_| WireError::Malformed)?.to_owned();
            Ok(FromKernel::Call { number, tool, arguments: arguments.to_vec() })
        }
        2 if rest.is_empty() => Ok(FromKernel::Withdraw { number }),
        _ => Err(WireError::Malformed),
    }
}

fn encode(payload: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0; PREFIX_BYTES];
    payload.iter().for_each(|part| bytes.extend_from_slice(part));
    write_prefix(&mut bytes);
    bytes
}

pub(super) fn tools(declaration: &[u8]) -> Vec<u8> {
    encode(&[&[1], declaration])
}

pub(super) fn answer(number: u32, kind: Kind, json: &str) -> Vec<u8> {
    encode(&[&[2], &number.to_le_bytes(), &[kind as u8], json.as_bytes()])
}

/// An answer that is no result, in words.
pub(super) fn refusal(number: u32, kind: Kind, message: &str) -> Vec<u8> {
    answer(number, kind, &self::message(message))
}

/// An error in words, as JSON.
pub(super) fn message(message: &str) -> String {
    serde_json::json!({ "message": message }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_what_the_table_says() {
        let call = b"\x01\x07\0\0\0\x01t{}";
        let expected =
            FromKernel::Call { number: 7, tool: "t".to_owned(), arguments: b"{}".to_vec() };
        assert_eq!(parse(call), Ok(expected));
        assert_eq!(parse(b"\x02\x07\0\0\0"), Ok(FromKernel::Withdraw { number: 7 }));
        assert_eq!(answer(7, Kind::Timeout, "{}"), b"\x08\0\0\0\x02\x07\0\0\0\x03{}");
        assert_eq!(tools(b"{}"), b"\x03\0\0\0\x01{}");
    }

    #[test]
    fn other_bytes_are_no_frames() {
        let bad: [&[u8]; 8] = [
            b"",
            b"\x01",
            b"\x01\x07\0\0",
            b"\x01\x07\0\0\0",
            b"\x01\x07\0\0\0\x05ab",
            b"\x01\x07\0\0\0\x01\xff",
            b"\x02\x07\0\0\0x",
            b"\x03\x07\0\0\0",
        ];
        for body in bad {
            assert_eq!(parse(body), Err(WireError::Malformed), "{body:?}");
        }
    }
}
