//! What can happen to an execution, in the words of the engine.

use std::sync::Arc;

use vivarium_api_types::{AwaitingApprovalEvent, CallEndedEvent, CallEvent, Outcome, ValueInfo};
use vivarium_protocol::message::Stream;
use vivarium_protocol::outcome::{Display, Exception};

/// Number of an event within its execution, from 1, in the order they happened.
pub type EventNumber = u64;

/// What an event takes besides its text, in bytes: about what its allocations do.
const EVENT_BYTES: usize = 128;

/// The longest text that output is put together to, in bytes: a part of what is kept, so that this
/// is not forgotten in too large parts.
const MERGED_BYTES: usize = 16 << 10;

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub number: EventNumber,
    pub kind: EventKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    Started {
        execution_id: String,
        session_id: String,
    },
    /// It waits until somebody allows it.
    AwaitingApproval(AwaitingApprovalEvent),
    Output(Stream, String),
    Display(Arc<Display>),
    Value(Arc<ValueInfo>),
    Exception(Arc<Exception>),
    /// Code calls a function of its client's.
    Call(Arc<CallEvent>),
    CallEnded(Arc<CallEndedEvent>),
    /// It is over. The last event.
    Done {
        /// All that is known of it, but the streams' text in full.
        outcome: Arc<Outcome>,
        /// Whether it printed more to stdout than its events have.
        stdout_truncated: bool,
        /// The same of stderr.
        stderr_truncated: bool,
    },
}

impl Event {
    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        match &self.kind {
            EventKind::Done { outcome, .. } => outcome.weight_bytes(),
            other => other.bytes(),
        }
    }
}

impl EventKind {
    pub(super) const fn text_bytes(&self) -> usize {
        match self {
            Self::Output(_, text) => text.len(),
            _ => 0,
        }
    }

    /// Bytes it takes. An outcome is counted where it is kept.
    pub(super) fn bytes(&self) -> usize {
        let content = match self {
            Self::Started { .. } | Self::AwaitingApproval(_) | Self::Done { .. } => 0,
            Self::Output(_, text) => text.len(),
            Self::Display(display) => {
                let parts = display.mime.iter();
                let id = display.id.as_ref().map_or(0, String::len);
                id + parts.map(|part| part.mime_type.len() + part.data.len()).sum::<usize>()
            }
            Self::Call(call) => call.tool.len() + call.arguments.as_str().len(),
            Self::CallEnded(_) => 0,
            Self::Value(value) => value.weight_bytes(),
            Self::Exception(exception) => {
                exception.type_name.len() + exception.message.len() + exception.traceback.len()
            }
        };
        content + EVENT_BYTES
    }

    /// Adds output to this, if this is output of the same stream and would not get too long.
    pub(super) fn merge(&mut self, more: &Self) -> bool {
        match (self, more) {
            (Self::Output(stream, text), Self::Output(other, more))
                if stream == other && text.len() + more.len() <= MERGED_BYTES =>
            {
                text.push_str(more);
                true
            }
            _ => false,
        }
    }
}
