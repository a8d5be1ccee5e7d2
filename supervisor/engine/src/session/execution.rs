//! What a session is given to run.

use std::time::Duration;

use vivarium_api_types::OutputSpec;
use vivarium_protocol::message::{ExecutionNumber, Failure, InputFile, Work};

use super::execution_log::LogWriter;
use crate::budget::Reservation;

#[derive(Debug)]
pub struct NewExecution {
    pub work: Work,
    pub files: Vec<InputFile>,
    pub outputs: Vec<OutputSpec>,
    pub timeout: Duration,
    /// Whether its client follows what it prints, and so needs no copy of that at the end.
    pub streamed: bool,
    /// Whether its request made the session.
    pub session_created: bool,
    /// Where is said what becomes of it.
    pub writer: LogWriter,
    /// The bytes that it takes in the daemon until it is over.
    pub reservation: Reservation,
}

/// How a piece of work is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Code in the kernel.
    Code,
    /// A process beside it: it can be killed without losing the kernel.
    Command,
    /// A question to the kernel: it waits for nobody, and is no execution that anybody counts.
    Probe,
}

impl NewExecution {
    pub(super) const fn kind(&self) -> Kind {
        match self.work {
            Work::Code { .. } => Kind::Code,
            Work::Command { .. } => Kind::Command,
            Work::Complete { .. } | Work::Inspect { .. } => Kind::Probe,
        }
    }
}

/// Why an execution was not even queued, or never got a session to run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// As many as may wait are waiting.
    QueueFull,
    /// Something runs or waits, and this waits for nobody.
    Busy,
    /// The session could not be started.
    NotStarted(Failure),
    /// The session was over before it could take it.
    Gone,
}

/// An execution that was told to stop.
#[derive(Debug)]
pub struct Interrupted {
    pub execution: ExecutionNumber,
    /// Resolves when it has ended.
    pub ended: tokio::sync::oneshot::Receiver<()>,
}
