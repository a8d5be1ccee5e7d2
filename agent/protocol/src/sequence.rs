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

/// Whether every layer is reported, in order: a kernel is not ready before that.
fn is_whole(protection: &[Report]) -> bool {
    protection.iter().map(|report| report.layer).eq(Layer::ALL)
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
        FromAgent::Pong => "pong",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Origin, Stream};
    use crate::outcome::{Display, DisplayKind, Exception, OutputFile, Value};

    fn ready() -> FromAgent {
        of_context(FIRST_CONTEXT)
    }

    fn of_context(context: ContextNumber) -> FromAgent {
        let protection = Layer::ALL.map(|layer| Report::enforced(layer, "")).to_vec();
        FromAgent::KernelReady { context, generation: 1, origin: Origin::Executed, protection }
    }

    #[test]
    fn a_kernel_is_not_ready_without_a_report_of_every_layer() {
        let FromAgent::KernelReady { context, generation, origin, mut protection } = ready() else {
            return;
        };
        protection.swap(0, 1);
        for protection in [vec![], protection] {
            let message = FromAgent::KernelReady { context, generation, origin, protection };
            assert!(Sequence::default().accept(&message).is_err(), "{message:?}");
        }
        assert!(Sequence::default().accept(&ready()).is_ok());
    }
    use crate::message::Completion;
    use crate::outcome::Usage;

    fn done(execution: ExecutionNumber) -> FromAgent {
        FromAgent::Done {
            execution,
            completion: Completion::Ok,
            stdout_dropped: 0,
            stderr_dropped: 0,
            usage: Usage::default(),
            changes: crate::message::Changes::default(),
        }
    }

    #[test]
    fn an_execution_goes_from_ready_to_ready() {
        let mut sequence = Sequence::default();
        sequence.accept(&ready()).unwrap();
        sequence.sent(FIRST_CONTEXT, 1);
        sequence.accept(&FromAgent::Started { execution: 1 }).unwrap();
        sequence.accept(&done(1)).unwrap();
        assert!(sequence.is_ready(FIRST_CONTEXT));
    }

    #[test]
    fn a_reply_for_another_execution_is_out_of_turn() {
        let mut sequence = Sequence::default();
        sequence.accept(&ready()).unwrap();
        assert!(sequence.accept(&done(1)).is_err());
        sequence.sent(FIRST_CONTEXT, 2);
        sequence.accept(&FromAgent::Started { execution: 2 }).unwrap();
        let error = sequence.accept(&done(1)).unwrap_err();
        assert_eq!(error.to_string(), "the agent said done while execution 2 runs");
    }

    #[test]
    fn commands_run_beside_code_and_one_another() {
        let mut sequence = Sequence::default();
        sequence.accept(&ready()).unwrap();
        sequence.sent(FIRST_CONTEXT, 1);
        sequence.sent_command(2);
        sequence.sent_command(3);
        for execution in [3, 1, 2] {
            sequence.accept(&FromAgent::Started { execution }).unwrap();
        }
        sequence.accept(&done(2)).unwrap();
        assert!(!sequence.is_ready(FIRST_CONTEXT), "the code goes on");
        sequence.accept(&done(1)).unwrap();
        assert!(sequence.is_ready(FIRST_CONTEXT));
        sequence.accept(&done(3)).unwrap();
        assert!(sequence.accept(&done(3)).is_err(), "it is over");
    }

    #[test]
    fn contexts_run_beside_one_another_and_say_nothing_once_they_are_closed() {
        let mut sequence = Sequence::default();
        sequence.accept(&ready()).unwrap();
        assert!(sequence.accept(&of_context(1)).is_err(), "nobody opened it");
        sequence.open(1);
        sequence.accept(&of_context(1)).unwrap();
        sequence.sent(FIRST_CONTEXT, 1);
        sequence.sent(1, 2);
        sequence.accept(&FromAgent::Started { execution: 2 }).unwrap();
        sequence.accept(&FromAgent::Started { execution: 1 }).unwrap();
        assert!(sequence.accept(&FromAgent::ContextClosed { context: 1 }).is_err());
        sequence.close(1);
        sequence.accept(&done(2)).unwrap();
        sequence.accept(&FromAgent::ContextClosed { context: 1 }).unwrap();
        assert!(sequence.accept(&done(2)).is_err());
        sequence.accept(&done(1)).unwrap();
        assert!(sequence.is_ready(FIRST_CONTEXT));
    }

    #[test]
    fn a_command_has_no_value_and_says_nothing_before_it_starts() {
        let output = || FromAgent::Output { execution: 2, stream: Stream::Stdout, data: vec![] };
        let value = Value { repr: String::new(), type_name: String::new(), mime: vec![] };
        let value = FromAgent::Value { execution: 2, value };
        let mut sequence = Sequence::default();
        sequence.sent_command(2);
        assert!(sequence.accept(&output()).is_err());
        sequence.accept(&FromAgent::Started { execution: 2 }).unwrap();
        sequence.accept(&output()).unwrap();
        let error = sequence.accept(&value).unwrap_err();
        assert_eq!(error.to_string(), "the agent said value while command 2 is running");
        assert!(sequence.accept(&FromAgent::Started { execution: 2 }).is_err());
    }

    #[test]
    fn messages_of_an_execution_must_have_its_number() {
        let of = |execution| {
            let value = Value { repr: String::new(), type_name: String::new(), mime: vec![] };
            let exception = Exception {
                type_name: String::new(),
                message: String::new(),
                traceback: String::new(),
            };
            let display = Display { kind: DisplayKind::Display, id: None, mime: vec![] };
            let file =
                OutputFile { name: String::new(), size_bytes: 0, content: Err(String::new()) };
            [
                FromAgent::Output { execution, stream: Stream::Stdout, data: vec![] },
                FromAgent::Value { execution, value },
                FromAgent::Exception { execution, exception },
                FromAgent::Display { execution, display },
                FromAgent::File { execution, file },
                FromAgent::CpuLimitReached { execution, used_us: 0 },
            ]
        };
        for (own, other) in of(2).into_iter().zip(of(1)) {
            let mut sequence = Sequence::default();
            sequence.accept(&ready()).unwrap();
            assert!(sequence.accept(&own).is_err(), "nothing runs: {own:?}");
            let mut sequence = Sequence::default();
            sequence.accept(&ready()).unwrap();
            sequence.sent(FIRST_CONTEXT, 2);
            assert!(sequence.accept(&own).is_err(), "not before it has started: {own:?}");
            let mut sequence = Sequence::default();
            sequence.accept(&ready()).unwrap();
            sequence.sent(FIRST_CONTEXT, 2);
            sequence.accept(&FromAgent::Started { execution: 2 }).unwrap();
            sequence.accept(&own).unwrap();
            assert!(sequence.accept(&other).is_err(), "of another: {other:?}");
        }
    }
}
