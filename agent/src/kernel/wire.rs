//! The protocol between agent and kernel, the agent's side. The kernel's side is
//! `agent/python/core/wire.py`.
//!
//! A frame is a little-endian `u32`, the length of what follows; a type byte; a payload. Numbers
//! are little-endian. A string is a `u32` length and that many bytes of UTF-8, a blob the same
//! with any bytes.
//!
//! | from | type | name | payload |
//! |---|---|---|---|
//! | agent | 1 | EXECUTE | `u64` execution; `u32` most items, characters and depth of a repr; `u32` descriptors that come with a byte after STARTED (`SCM_RIGHTS`): none, or the pipes of calls, the one to write to first; string file name (empty: none), string working directory (empty: as it is), `u32` count, then as often: string variable, string value; string policy (JSON, see below; empty: the default); string code |
//! | agent | 2 | CONFIG | `u64` most bytes of results per execution |
//! | agent | 3 | COMPLETE | `u64` execution, `u32` cursor in characters, string code |
//! | agent | 4 | INSPECT | the same |
//! | agent | 5 | SHOWN | `u64` execution: its last display has been passed on |
//! | agent | 6 | IS_COMPLETE | as COMPLETE; the cursor does not matter |
//! | agent | 7 | CHECK_IMAGE | `u64` execution |
//! | agent | 8 | SAVE_IMAGE | `u64` execution; after STARTED comes a byte with a pipe to write to (`SCM_RIGHTS`) |
//! | agent | 9 | LOAD_IMAGE | `u64` execution; after STARTED comes a byte with a pipe to read from; it is answered by what the kernel has become |
//! | agent | 10 | SAVE_MEMORY | as SAVE_IMAGE, without the session's files |
//! | kernel | 1 | READY | |
//! | kernel | 2 | VALUE | `u64` execution, string repr, string type, `u32` count, then as often: string MIME type, blob |
//! | kernel | 3 | EXCEPTION | `u64` execution, string type, string message, string traceback |
//! | kernel | 4 | DONE | `u64` execution, `u8` completion: 0 ok, 1 error, 2 interrupted, 3 work limit |
//! | kernel | 5 | STARTED | `u64` execution: from here on an interrupt is for its code |
//! | kernel | 6 | DISPLAY | `u64` execution, `u8` kind: 0 display, 1 update, 2 clear, 3 image, 4 video frame; string id (empty: none), `u32` count, then as often: string MIME type, blob |
//! | kernel | 7 | ACCOUNT | `u64` execution; string JSON: what its policy noted. Just before DONE |
//!
//! A policy is a [`CodePolicy`] as serde writes it:
//! `{"max_work": null, "imports": {"allow": ["math"]}, "audit_events": {"deny": []}, "echo": "last", "prints": false,
//! "modules": [{"name": "host", "content": "{}"}], "names": {"keep": []}}`. An account has only what its policy asked for:
//! `{"work": 12, "audit_events": {"open": 3}, "prints": [["1", "'a'"]]}`.
//!
//! A kernel waits for SHOWN after each DISPLAY: what it prints meanwhile would be read with what it
//! printed before. EXECUTE, COMPLETE, INSPECT, IS_COMPLETE and those of images only when the kernel is idle, CONFIG at any
//! time. All of those but EXECUTE are answered as an execution is, by a VALUE of no type and no repr, with
//! one representation, JSON. A value's repr is also its `text/plain`, so that is not sent but added
//! here, unless the value has another `text/plain`.
//!
//! Tenant code can write to this socket, so nothing on it is believed: a frame is bounded before
//! it is buffered, its strings before they are copied, and [`Turn`] knows which may come. After a
//! [`WireError`] the kernel must be killed; there is no way back in step with it.

mod error;
mod parse;
mod turn;

pub(crate) use error::WireError;
use parse::parse;
pub(crate) use turn::Turn;
use vivarium_protocol::frame::{self, MAX_FRAME_BYTES, PREFIX_BYTES};
use vivarium_protocol::message::{
    Assist, CodePolicy, Completion, ExecutionNumber, ImageStep, Work,
};
use vivarium_protocol::outcome::{Account, Display, Exception, Value};

/// What a frame may hold beside the results it was made for: names, lengths, a traceback.
const FRAME_OVERHEAD_BYTES: usize = 1 << 20;

/// Left of [`MAX_FRAME_BYTES`] when a value goes on to the supervisor with its repr twice.
const SUPERVISOR_RESERVE_BYTES: usize = 2 << 20;

/// Kernel to agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromKernel {
    Ready,
    /// It has begun with an execution: from here on an interrupt is for its code.
    Started {
        execution: ExecutionNumber,
    },
    Value {
        execution: ExecutionNumber,
        value: Value,
    },
    Exception {
        execution: ExecutionNumber,
        exception: Exception,
    },
    /// Something to be shown, of a running execution.
    Display {
        execution: ExecutionNumber,
        display: Display,
    },
    /// What the policy of a running execution noted.
    Account {
        execution: ExecutionNumber,
        account: Account,
    },
    Done {
        execution: ExecutionNumber,
        completion: Completion,
    },
}

impl FromKernel {
    /// For errors: the frame without its content.
    fn describe(&self) -> String {
        match self {
            Self::Ready => "READY".to_owned(),
            Self::Started { execution } => format!("STARTED of execution {execution}"),
            Self::Value { execution, .. } => format!("VALUE of execution {execution}"),
            Self::Exception { execution, .. } => format!("EXCEPTION of execution {execution}"),
            Self::Display { execution, .. } => format!("DISPLAY of execution {execution}"),
            Self::Account { execution, .. } => format!("ACCOUNT of execution {execution}"),
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

/// The frame that has a kernel do this; `None` for a command, which runs beside it. Its length must
/// fit a `u32`: what the supervisor sends is far below.
pub(crate) fn encode_work(execution: ExecutionNumber, work: &Work) -> Option<Vec<u8>> {
    Some(match work {
        Work::Code { code, filename, cwd, env, repr, policy, .. } => {
            let descriptors = u32::try_from(work.descriptors()).unwrap_or(0);
            let numbers = [repr.max_items, repr.max_chars, repr.max_depth, descriptors];
            let limits = numbers.map(u32::to_le_bytes);
            let cwd = cwd.as_ref().map(|path| if path.is_empty() { "." } else { path });
            let mut details = limits.as_flattened().to_vec();
            details.extend([text(filename), text(cwd.unwrap_or_default())].concat());
            details.extend(length(env.len()));
            for (variable, value) in env {
                details.extend([text(variable), text(value)].concat());
            }
            details.extend(text(&policy_text(policy)));
            encode_code(1, execution, &details, code)
        }
        Work::Assist { kind, code, cursor } => {
            let kind = match kind {
                Assist::Complete => 3,
                Assist::Inspect => 4,
                Assist::IsComplete => 6,
            };
            encode_code(kind, execution, &cursor.to_le_bytes(), code)
        }
        Work::Image(step) => {
            let kind = match step {
                ImageStep::Check => 7,
                ImageStep::Save => 8,
                ImageStep::Load => 9,
                ImageStep::SaveMemory => 10,
            };
            encode(kind, &[&execution.to_le_bytes()])
        }
        Work::Command(_) => return None,
    })
}

/// A policy as the kernel reads it.
fn policy_text(policy: &CodePolicy) -> String {
    if *policy == CodePolicy::default() {
        return String::new();
    }
    // Its types have nothing that JSON has not.
    serde_json::to_string(policy).unwrap_or_default()
}

fn encode_code(kind: u8, execution: ExecutionNumber, details: &[u8], code: &str) -> Vec<u8> {
    encode(kind, &[&execution.to_le_bytes(), details, &length(code.len()), code.as_bytes()])
}

fn text(text: &str) -> Vec<u8> {
    [&length(text.len()), text.as_bytes()].concat()
}

/// A length in bytes, as a frame has it. None is cut: what the supervisor sends is far below.
fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes()
}

/// The frame that lets a kernel go on after a display.
pub(crate) fn encode_shown(execution: ExecutionNumber) -> Vec<u8> {
    encode(5, &[&execution.to_le_bytes()])
}

/// The frame with the most bytes that a kernel may send; `None` is unlimited.
pub(crate) fn encode_config(max_result_bytes: Option<u64>) -> Vec<u8> {
    encode(2, &[&max_result_bytes.unwrap_or(u64::MAX).to_le_bytes()])
}

fn encode(kind: u8, payload: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [&[0; PREFIX_BYTES][..], &[kind]].concat();
    bytes.reserve_exact(payload.iter().map(|part| part.len()).sum());
    payload.iter().for_each(|part| bytes.extend_from_slice(part));
    frame::write_prefix(&mut bytes);
    bytes
}

#[derive(Debug)]
pub(crate) struct Decoder(frame::Decoder);

impl Decoder {
    /// A decoder that refuses frames over `max` bytes; see [`frame_limit`].
    pub(crate) const fn new(max: usize) -> Self {
        Self(frame::Decoder::new(max))
    }

    /// Adds bytes as they came. The buffer stays within one frame and one read as long as
    /// [`Decoder::next`] is then called until it gives `None`.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.push(bytes);
    }

    pub(crate) fn next(&mut self) -> Result<Option<FromKernel>, WireError> {
        self.0.next_with(parse)
    }
}

#[cfg(test)]
mod tests;
