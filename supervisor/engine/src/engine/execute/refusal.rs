//! Why something does not run, in the engine's words.

use vivarium_protocol::message::Transient;

use crate::engine::EngineError;
use crate::session::{self, Refusal};

pub(super) fn no_pipe(error: std::io::Error) -> EngineError {
    match Transient::of(error.raw_os_error().unwrap_or(0)) {
        Some(Transient::Descriptors) => EngineError::NoDescriptors,
        _ => EngineError::Internal(format!("make a pipe for a command: {error}")),
    }
}

/// A session's refusal in the engine's words.
pub(super) fn refused(refusal: Refusal, session_id: &str, depth: usize) -> EngineError {
    match refusal {
        Refusal::QueueFull => EngineError::QueueFull { depth },
        Refusal::TooManyCommands => EngineError::TooManyCommands { max: session::MAX_COMMANDS },
        Refusal::OverQuota(exceeded) => EngineError::QuotaExceeded(exceeded),
        Refusal::Busy => EngineError::Busy,
        Refusal::UnknownContext => EngineError::UnknownContext(String::new()),
        Refusal::NotSurvivable => EngineError::invalid(
            "survives_reset",
            "a reset of this session ends every process: it has no cgroup layer",
        ),
        Refusal::NotStarted(failure) => EngineError::NotStarted(failure),
        Refusal::Suspended => EngineError::Suspended(session_id.to_owned()),
        Refusal::Gone => EngineError::UnknownSession(session_id.to_owned()),
    }
}
