//! The wire between agent and kernel, as the agent speaks it. The kernel's side is
//! `agent/python/wire.py`.
//!
//! A frame is a little-endian `u32`, the length of what follows; a type byte; a payload. Numbers
//! are little-endian. A string is a `u32` length and that many bytes of UTF-8, a blob the same
//! with any bytes.
//!
//! | from | type | name | payload |
//! |---|---|---|---|
//! | agent | 1 | EXECUTE | `u64` execution, string code |
//! | agent | 2 | CONFIG | `u64` most bytes of results per execution |
//! | kernel | 1 | READY | |
//! | kernel | 2 | VALUE | `u64` execution, string repr, string type, `u32` count, then as often: string MIME type, blob |
//! | kernel | 3 | EXCEPTION | `u64` execution, string type, string message, string traceback |
//! | kernel | 4 | DONE | `u64` execution, `u8` completion: 0 ok, 1 error, 2 interrupted |
//! | kernel | 5 | STARTED | `u64` execution: from here on an interrupt is for its code |
//!
//! EXECUTE only when the kernel is idle, CONFIG at any time. A value's repr is also its
//! `text/plain`, so that is not sent but added here.
//!
//! Tenant code can write to this socket, so nothing on it is believed: a frame is bounded before
//! it is buffered, its strings before they are copied, and [`Turn`] knows which may come. After a
//! [`WireError`] the kernel must be killed; there is no way back in step with it.

mod turn;

pub(crate) use turn::Turn;
use vivarium_protocol::frame::MAX_FRAME_BYTES;
use vivarium_protocol::message::{Completion, ExecutionNumber};
use vivarium_protocol::outcome::{Exception, MimePart, Value};

/// What a frame may hold beside the results it was made for: names, lengths, a traceback.
const FRAME_OVERHEAD_BYTES: usize = 1 << 20;

/// Left of [`MAX_FRAME_BYTES`] when a value goes on to the supervisor with its repr twice.
const SUPERVISOR_RESERVE_BYTES: usize = 2 << 20;

/// The most bytes of each string, as in `agent/python/wire.py`.
const TEXT_MAX_BYTES: usize = 1 << 20;
const NAME_MAX_BYTES: usize = 4 << 10;
const MESSAGE_MAX_BYTES: usize = 64 << 10;
const TRACEBACK_MAX_BYTES: usize = 256 << 10;

/// The most representations of one value.
const MIME_PARTS_MAX: usize = 64;

/// Bytes before each frame that say how long it is.
const PREFIX_BYTES: usize = 4;

/// A buffer that has grown over this is given back once it is empty.
const BUFFER_KEPT_BYTES: usize = 64 << 10;

/// Why a kernel is not to be believed any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// A frame that is longer than any may be.
    #[error("the kernel announced a frame of {len} bytes, and {max} is the most")]
    TooLong {
        /// How long it is said to be.
        len: usize,
        /// How long it may be.
        max: usize,
    },
    /// A frame without as much as a type.
    #[error("the kernel sent an empty frame")]
    Empty,
    /// A type that does not exist.
    #[error("the kernel sent a frame of unknown type {0}")]
    UnknownType(u8),
    /// A frame that ends within a field.
    #[error("the kernel's {frame} frame ends within its {field}")]
    Short {
        /// Which frame.
        frame: &'static str,
        /// Which field.
        field: &'static str,
    },
    /// A field that is larger than it may be.
    #[error("the kernel's {frame} frame has a {field} of {len}, and {max} is the most")]
    TooLarge {
        /// Which frame.
        frame: &'static str,
        /// Which field.
        field: &'static str,
        /// Its size or count.
        len: usize,
        /// The most it may be.
        max: usize,
    },
    /// A string that is not UTF-8.
    #[error("the kernel's {frame} frame has a {field} that is not UTF-8")]
    NotText {
        /// Which frame.
        frame: &'static str,
        /// Which field.
        field: &'static str,
    },
    /// A frame with more after its last field.
    #[error("the kernel's {frame} frame has {len} bytes after its end")]
    Trailing {
        /// Which frame.
        frame: &'static str,
        /// How many.
        len: usize,
    },
    /// A completion that does not exist.
    #[error("the kernel sent the unknown completion {0}")]
    UnknownCompletion(u8),
    /// A frame that may not come now.
    #[error("the kernel sent {frame} while {phase}")]
    OutOfTurn {
        /// What came.
        frame: String,
        /// What it was doing.
        phase: String,
    },
}

/// Kernel to agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromKernel {
    /// It waits for code.
    Ready,
    /// It has begun with an execution: from here on an interrupt is for its code.
    Started {
        /// Which.
        execution: ExecutionNumber,
    },
    /// The value of an execution's final expression.
    Value {
        /// Which execution.
        execution: ExecutionNumber,
        /// It, with `text/plain`.
        value: Value,
    },
    /// The exception that ended an execution.
    Exception {
        /// Which execution.
        execution: ExecutionNumber,
        /// It.
        exception: Exception,
    },
    /// An execution is over.
    Done {
        /// Which.
        execution: ExecutionNumber,
        /// How it ended.
        completion: Completion,
    },
}

impl FromKernel {
    /// For complaints: what it is, without its content.
    fn describe(&self) -> String {
        match self {
            Self::Ready => "READY".to_owned(),
            Self::Started { execution } => format!("STARTED of execution {execution}"),
            Self::Value { execution, .. } => format!("VALUE of execution {execution}"),
            Self::Exception { execution, .. } => format!("EXCEPTION of execution {execution}"),
            Self::Done { execution, completion } => {
                format!("DONE ({completion:?}) of execution {execution}")
            }
        }
    }
}

/// The most bytes of a frame from a kernel that may give `max_result_bytes` of results (`None`
/// is unlimited). Never so many that the supervisor would not take them.
pub(crate) fn frame_limit(max_result_bytes: Option<u64>) -> usize {
    max_result_bytes
        .and_then(|bytes| usize::try_from(bytes).ok())
        .unwrap_or(usize::MAX)
        .saturating_add(FRAME_OVERHEAD_BYTES)
        .min(MAX_FRAME_BYTES - SUPERVISOR_RESERVE_BYTES)
}

/// The frame that runs code. Its length must fit a `u32`: what the supervisor sends is far below.
pub(crate) fn encode_execute(execution: ExecutionNumber, code: &str) -> Vec<u8> {
    let mut payload = Vec::with_capacity(PREFIX_BYTES + 13 + code.len());
    payload.extend(execution.to_le_bytes());
    payload.extend(length(code.len()));
    payload.extend(code.as_bytes());
    frame(1, &payload)
}

/// The frame that says how much a kernel may send; `None` is unlimited.
pub(crate) fn encode_config(max_result_bytes: Option<u64>) -> Vec<u8> {
    frame(2, &max_result_bytes.unwrap_or(u64::MAX).to_le_bytes())
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + 1 + payload.len());
    bytes.extend(length(payload.len() + 1));
    bytes.push(kind);
    bytes.extend(payload);
    bytes
}

/// A length on the wire. One that does not fit would be cut by the kernel's reading, and there
/// is none: a frame from the supervisor is at most [`MAX_FRAME_BYTES`].
fn length(len: usize) -> [u8; PREFIX_BYTES] {
    u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes()
}

/// Takes messages off the front of what a kernel has sent.
#[derive(Debug)]
pub(crate) struct Decoder {
    buffer: Vec<u8>,
    max: usize,
}

impl Decoder {
    /// A decoder that refuses frames over `max` bytes; see [`frame_limit`].
    pub(crate) const fn new(max: usize) -> Self {
        Self { buffer: Vec::new(), max }
    }

    /// Adds bytes as they came. The buffer stays within one frame and one read as long as
    /// [`Decoder::next`] is then called until it gives `None`.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// [`WireError`], as soon as it is certain.
    pub(crate) fn next(&mut self) -> Result<Option<FromKernel>, WireError> {
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes(*prefix) as usize;
        if len > self.max {
            return Err(WireError::TooLong { len, max: self.max });
        }
        let Some(body) = rest.get(..len) else {
            return Ok(None);
        };
        let message = parse(body)?;
        self.buffer.drain(..PREFIX_BYTES + len);
        if self.buffer.is_empty() && self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        Ok(Some(message))
    }
}

/// One frame, without its length.
fn parse(body: &[u8]) -> Result<FromKernel, WireError> {
    let (&kind, rest) = body.split_first().ok_or(WireError::Empty)?;
    let parse_payload = match kind {
        1 => |_: &mut Fields<'_>| Ok(FromKernel::Ready),
        2 => parse_value,
        3 => parse_exception,
        4 => parse_done,
        5 => |fields: &mut Fields<'_>| Ok(FromKernel::Started { execution: fields.execution()? }),
        unknown => return Err(WireError::UnknownType(unknown)),
    };
    let frame = ["READY", "VALUE", "EXCEPTION", "DONE", "STARTED"]
        .get(usize::from(kind).wrapping_sub(1))
        .copied()
        .unwrap_or("unknown");
    let mut fields = Fields { frame, rest };
    let message = parse_payload(&mut fields)?;
    match fields.rest.len() {
        0 => Ok(message),
        len => Err(WireError::Trailing { frame, len }),
    }
}

fn parse_value(fields: &mut Fields<'_>) -> Result<FromKernel, WireError> {
    const TEXT_PLAIN: &str = "text/plain";
    let execution = fields.execution()?;
    let repr = fields.string("repr", TEXT_MAX_BYTES)?;
    let type_name = fields.string("type", NAME_MAX_BYTES)?;
    let count = fields.length("count of representations", MIME_PARTS_MAX)?;
    let mut mime = Vec::with_capacity(count + 1);
    for _ in 0..count {
        let mime_type = fields.string("MIME type", NAME_MAX_BYTES)?;
        // Bounded by the frame.
        let data = fields.blob("representation", usize::MAX)?.to_vec();
        mime.push(MimePart { mime_type, data });
    }
    if mime.iter().all(|part| part.mime_type != TEXT_PLAIN) {
        mime.insert(0, MimePart { mime_type: TEXT_PLAIN.into(), data: repr.clone().into() });
    }
    Ok(FromKernel::Value { execution, value: Value { repr, type_name, mime } })
}

fn parse_exception(fields: &mut Fields<'_>) -> Result<FromKernel, WireError> {
    let execution = fields.execution()?;
    let type_name = fields.string("type", NAME_MAX_BYTES)?;
    let message = fields.string("message", MESSAGE_MAX_BYTES)?;
    let traceback = fields.string("traceback", TRACEBACK_MAX_BYTES)?;
    Ok(FromKernel::Exception { execution, exception: Exception { type_name, message, traceback } })
}

fn parse_done(fields: &mut Fields<'_>) -> Result<FromKernel, WireError> {
    let execution = fields.execution()?;
    let [completion] = fields.array("completion")?;
    let completion = match completion {
        0 => Completion::Ok,
        1 => Completion::Error,
        2 => Completion::Interrupted,
        unknown => return Err(WireError::UnknownCompletion(unknown)),
    };
    Ok(FromKernel::Done { execution, completion })
}

/// What is left of a frame's fields.
struct Fields<'a> {
    frame: &'static str,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let frame = self.frame;
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or(WireError::Short { frame, field })?;
        self.rest = rest;
        Ok(*taken)
    }

    fn execution(&mut self) -> Result<ExecutionNumber, WireError> {
        self.array("execution").map(u64::from_le_bytes)
    }

    /// A length or count, refused if over `max`.
    fn length(&mut self, field: &'static str, max: usize) -> Result<usize, WireError> {
        let len = u32::from_le_bytes(self.array(field)?) as usize;
        if len > max {
            return Err(WireError::TooLarge { frame: self.frame, field, len, max });
        }
        Ok(len)
    }

    fn blob(&mut self, field: &'static str, max: usize) -> Result<&'a [u8], WireError> {
        let len = self.length(field, max)?;
        let short = WireError::Short { frame: self.frame, field };
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn string(&mut self, field: &'static str, max: usize) -> Result<String, WireError> {
        let frame = self.frame;
        let bytes = self.blob(field, max)?;
        let text = str::from_utf8(bytes).map_err(|_| WireError::NotText { frame, field })?;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests;
