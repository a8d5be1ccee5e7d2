//! What a session is given to run.

use std::time::Duration;

use tokio::time::Instant;
use vivarium_api_types::OutputSpec;
use vivarium_protocol::message::{ExecutionNumber, Failure, InputFile, Work};

use super::execution_log::LogWriter;
use crate::budget::Reservation;

/// What to run, checked.
#[derive(Debug)]
pub struct WorkSpec {
    pub work: Work,
    /// Files to put into the workdir first.
    pub files: Vec<InputFile>,
    /// Files to bring back.
    pub outputs: Vec<OutputSpec>,
    pub timeout: Duration,
    pub cancel_on_disconnect: bool,
}

/// An execution on its way into a session's queue, and there.
#[derive(Debug)]
pub struct QueuedExecution {
    pub spec: WorkSpec,
    /// Whether its client follows what it prints, and so needs no copy of that at the end.
    pub streamed: bool,
    pub session_created: bool,
    pub writer: LogWriter,
    /// The bytes that it takes in the daemon until it is over.
    pub reservation: Reservation,
    /// Its number in the session, from 1. The session's actor gives it, and the time, to what it
    /// queues; before that it is 0.
    pub number: ExecutionNumber,
    pub queued_at: Instant,
}

/// How a piece of work is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    /// A process beside it: it can be killed without losing the kernel.
    Command,
    /// A question to the kernel: it waits for nobody, and is no execution that anybody counts.
    Assist,
}

impl WorkSpec {
    pub(super) const fn kind(&self) -> Kind {
        match self.work {
            Work::Code { .. } => Kind::Code,
            Work::Command { .. } => Kind::Command,
            Work::Assist { .. } => Kind::Assist,
        }
    }

    /// Bytes that it takes here and on the way to the agent.
    pub fn bytes(&self) -> usize {
        let work = match &self.work {
            Work::Code { code, filename } => code.len() + filename.len(),
            Work::Assist { code, .. } => code.len(),
            Work::Command { argv, stdin, .. } => {
                argv.iter().map(|argument| argument.len() + 8).sum::<usize>() + stdin.len()
            }
        };
        let files = self.files.iter().map(|file| file.name.len() + file.data.len() + 16);
        let outputs = self.outputs.iter().map(|output| output.name.len() + 16);
        work + files.chain(outputs).sum::<usize>()
    }
}

impl QueuedExecution {
    pub fn new(
        spec: WorkSpec,
        streamed: bool,
        session_created: bool,
        writer: LogWriter,
        reservation: Reservation,
    ) -> Self {
        let (number, queued_at) = (0, Instant::now());
        Self { spec, streamed, session_created, writer, reservation, number, queued_at }
    }
}

/// Why an execution was not even queued, or never got a session to run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    QueueFull,
    /// Something runs or waits, and this waits for nobody.
    Busy,
    NotStarted(Failure),
    /// The session was over before it could take it.
    Gone,
}

#[derive(Debug)]
pub struct Interrupted {
    pub execution: ExecutionNumber,
    pub ended: tokio::sync::oneshot::Receiver<()>,
}
