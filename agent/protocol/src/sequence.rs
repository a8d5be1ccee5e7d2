//! Which message may come next from an agent. The supervisor refuses any other.

use std::collections::BTreeMap;
use std::fmt;

use crate::layer::{Layer, Report};
use crate::leaf::{ContextNumber, FIRST_CONTEXT};
use crate::message::{ExecutionNumber, FromAgent};

/// What the agent is doing with a context's kernel, as far as its messages say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No kernel yet, or the last one is gone.
    Starting,
    /// A kernel waits for code.
    Ready,
    /// This execution was sent, and nothing has come of it.
    Sent(ExecutionNumber),
    /// This execution is running.
    Running(ExecutionNumber),
    /// It is to be closed, and this is what may still be said of it.
    Closing(Option<ExecutionNumber>),
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("its kernel starts"),
            Self::Ready => f.write_str("its kernel waits for code"),
            Self::Sent(execution) => write!(f, "execution {execution} waits for its start"),
            Self::Running(execution) => write!(f, "execution {execution} runs"),
            Self::Closing(_) => f.write_str("its context is being closed"),
        }
    }
}

/// What has come of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Sent,
    Running,
}

/// A message that may not come now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the agent said {message} while {phase}")]
pub struct OutOfTurn {
    message: &'static str,
    phase: String,
}

/// The agent's side of the conversation, followed by the supervisor.
#[derive(Debug)]
pub struct Sequence {
    /// Those that are not closed; none once nothing more may come.
    contexts: BTreeMap<ContextNumber, Phase>,
    /// Those that are not over; they run beside the kernels.
    commands: BTreeMap<ExecutionNumber, Stage>,
}

impl Default for Sequence {
    fn default() -> Self {
        let contexts = BTreeMap::from([(FIRST_CONTEXT, Phase::Starting)]);
        Self { contexts, commands: BTreeMap::new() }
    }
}

impl Sequence {
    /// Notes that a context is to be opened.
    pub fn open(&mut self, context: ContextNumber) {
        self.contexts.insert(context, Phase::Starting);
    }

    /// Notes that a context is to be closed.
    pub fn close(&mut self, context: ContextNumber) {
        if let Some(phase) = self.contexts.get_mut(&context) {
            let execution = match *phase {
                Phase::Sent(execution) | Phase::Running(execution) => Some(execution),
                _ => None,
            };
            *phase = Phase::Closing(execution);
        }
    }

    /// Notes that `execution`, which the kernel of `context` is to run, has been sent.
    pub fn sent(&mut self, context: ContextNumber, execution: ExecutionNumber) {
        self.contexts.insert(context, Phase::Sent(execution));
    }

    /// Notes that the command `execution` has been sent.
    pub fn sent_command(&mut self, execution: ExecutionNumber) {
        self.commands.insert(execution, Stage::Sent);
    }

    /// Whether code may be sent now.
    #[must_use]
    pub fn is_ready(&self, context: ContextNumber) -> bool {
        self.contexts.get(&context) == Some(&Phase::Ready)
    }

    /// Accepts `message` if it may come now.
    ///
    /// # Errors
    /// [`OutOfTurn`] if it may not; the agent is then not to be believed any more.
    pub fn accept(&mut self, message: &FromAgent) -> Result<(), OutOfTurn> {
        if self.contexts.is_empty() {
            return Err(OutOfTurn { message: name(message), phase: "the session ends".to_owned() });
        }
        if let Some(execution) = message.execution() {
            if let Some(stage) = self.commands.get(&execution).copied() {
                return self.accept_of_command(execution, stage, message);
            }
            let of_it = |phase: &Phase| match phase {
                Phase::Sent(number) | Phase::Running(number) => *number == execution,
                Phase::Closing(number) => *number == Some(execution),
                Phase::Starting | Phase::Ready => false,
            };
            let mut contexts = self.contexts.iter();
            let context = contexts.find(|(_, phase)| of_it(phase)).map(|(context, _)| *context);
            return self.accept_of_context(context, message);
        }
        match message {
            FromAgent::KernelReady { context, .. }
            | FromAgent::KernelExited { context, .. }
            | FromAgent::ContextClosed { context } => {
                self.accept_of_context(Some(*context), message)
            }
            FromAgent::Failed(_) => {
                self.contexts.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn accept_of_context(
        &mut self,
        context: Option<ContextNumber>,
        message: &FromAgent,
    ) -> Result<(), OutOfTurn> {
        let out_of_turn = |contexts: &BTreeMap<ContextNumber, Phase>| {
            let phases = contexts.values().map(|phase| phase.to_string());
            OutOfTurn { message: name(message), phase: phases.collect::<Vec<_>>().join(" and ") }
        };
        let Some((context, phase)) =
            context.and_then(|context| Some((context, *self.contexts.get(&context)?)))
        else {
            return Err(out_of_turn(&self.contexts));
        };
        if let (Phase::Closing(_), FromAgent::ContextClosed { .. }) = (phase, message) {
            self.contexts.remove(&context);
            return Ok(());
        }
        let next = next(phase, message).ok_or_else(|| out_of_turn(&self.contexts))?;
        self.contexts.insert(context, next);
        Ok(())
    }
}

/// What follows on a message about a context that is in `phase`; `None` if it may not come now.
fn next(phase: Phase, message: &FromAgent) -> Option<Phase> {
    use Phase::{Closing, Ready, Running, Sent, Starting};
    Some(match (phase, message) {
        (Closing(_), FromAgent::ContextClosed { .. }) => return None,
        (Closing(_), FromAgent::KernelReady { protection, .. }) if !is_whole(protection) => {
            return None;
        }
        // Nobody waits for it any more.
        (Closing(_), _) => phase,
        (Starting, FromAgent::KernelReady { protection, .. }) if is_whole(protection) => Ready,
        (Sent(n), FromAgent::Started { .. }) => Running(n),
        (Sent(_), FromAgent::FilesRefused { .. }) => Ready,
        (
            Running(n),
            FromAgent::Output { .. }
            | FromAgent::Value { .. }
            | FromAgent::Exception { .. }
            | FromAgent::Display { .. }
            | FromAgent::File { .. }
            | FromAgent::CpuLimitReached { .. },
        ) => Running(n),
        (Running(_), FromAgent::Done { .. }) => Ready,
        (Running(n), FromAgent::KernelExited { execution, .. }) if Some(n) == *execution => {
            Starting
        }
        // The kernel died between our sending and the agent's reading: the agent says so
        // first, and runs the code in the next kernel.
        (Sent(_), FromAgent::KernelExited { execution: None, .. }) => phase,
        (Sent(_), FromAgent::KernelReady { protection, .. }) if is_whole(protection) => phase,
        (Ready | Starting, FromAgent::KernelExited { execution: None, .. }) => Starting,
        _ => return None,
    })
}

impl Sequence {
    fn accept_of_command(
        &mut self,
        execution: ExecutionNumber,
        stage: Stage,
        message: &FromAgent,
    ) -> Result<(), OutOfTurn> {
        match (stage, message) {
            (Stage::Sent, FromAgent::Started { .. }) => {
                self.commands.insert(execution, Stage::Running);
            }
            (Stage::Sent, FromAgent::FilesRefused { .. })
            | (Stage::Running, FromAgent::Done { .. }) => {
                self.commands.remove(&execution);
            }
            (
                Stage::Running,
                FromAgent::Output { .. }
                | FromAgent::File { .. }
                | FromAgent::CpuLimitReached { .. },
            ) => {}
            _ => {
                let phase = format!("command {execution} is {stage:?}").to_lowercase();
                return Err(OutOfTurn { message: name(message), phase });
            }
        }
        Ok(())
    }
}

/// Whether every layer is reported, in order, and after these the engine, if the kernel has one: a
/// kernel is not ready before that.
fn is_whole(protection: &[Report]) -> bool {
    let layers = protection.iter().map(|report| report.layer);
    layers.clone().eq(Layer::ALL) || layers.eq(Layer::ALL.into_iter().chain([Layer::Wasm]))
}

/// The message's name, without its content, which may be large and is not ours.
const fn name(message: &FromAgent) -> &'static str {
    match message {
        FromAgent::Failed(_) => "failed",
        FromAgent::KernelReady { .. } => "kernel_ready",
        FromAgent::Started { .. } => "started",
        FromAgent::FilesRefused { .. } => "files_refused",
        FromAgent::Output { .. } => "output",
        FromAgent::Value { .. } => "value",
        FromAgent::Exception { .. } => "exception",
        FromAgent::Display { .. } => "display",
        FromAgent::File { .. } => "file",
        FromAgent::FileDone { .. } => "file_done",
        FromAgent::Done { .. } => "done",
        FromAgent::KernelExited { .. } => "kernel_exited",
        FromAgent::ContextClosed { .. } => "context_closed",
        FromAgent::CpuLimitReached { .. } => "cpu_limit_reached",
        FromAgent::Described(_) => "described",
        FromAgent::Processes(_) => "processes",
        FromAgent::Pong => "pong",
    }
}

#[cfg(test)]
mod tests;
