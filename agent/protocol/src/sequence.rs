//! Which message may come next from an agent. The supervisor refuses any other.

use std::collections::BTreeMap;

use crate::layer::{Layer, Report};
use crate::message::{ExecutionNumber, FromAgent};

/// What the agent is doing with its kernel, as far as its messages say.
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
    /// Nothing more may come.
    Over,
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
    phase: Phase,
    /// Those that are not over; they run beside the kernel.
    commands: BTreeMap<ExecutionNumber, Stage>,
}

impl Default for Sequence {
    fn default() -> Self {
        Self { phase: Phase::Starting, commands: BTreeMap::new() }
    }
}

impl Sequence {
    /// Notes that `execution`, which the kernel is to run, has been sent.
    pub const fn sent(&mut self, execution: ExecutionNumber) {
        self.phase = Phase::Sent(execution);
    }

    /// Notes that the command `execution` has been sent.
    pub fn sent_command(&mut self, execution: ExecutionNumber) {
        self.commands.insert(execution, Stage::Sent);
    }

    /// Whether code may be sent now.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Accepts `message` if it may come now.
    ///
    /// # Errors
    /// [`OutOfTurn`] if it may not; the agent is then not to be believed any more.
    pub fn accept(&mut self, message: &FromAgent) -> Result<(), OutOfTurn> {
        use Phase::{Over, Ready, Running, Sent, Starting};
        if self.phase != Over
            && let Some(execution) = message.execution()
            && let Some(stage) = self.commands.get(&execution).copied()
        {
            return self.accept_of_command(execution, stage, message);
        }
        let next = match (self.phase, message) {
            (Over, _) => None,
            (phase, FromAgent::Described(_) | FromAgent::FileDone { .. } | FromAgent::Pong) => {
                Some(phase)
            }
            (_, FromAgent::Failed(_)) => Some(Over),
            (Starting, FromAgent::KernelReady { protection, .. }) if is_whole(protection) => {
                Some(Ready)
            }
            (Sent(n), FromAgent::Started { execution }) if n == *execution => Some(Running(n)),
            (Sent(n), FromAgent::FilesRefused { execution, .. }) if n == *execution => Some(Ready),
            (
                Running(n),
                FromAgent::Output { execution, .. }
                | FromAgent::Value { execution, .. }
                | FromAgent::Exception { execution, .. }
                | FromAgent::Display { execution, .. }
                | FromAgent::File { execution, .. }
                | FromAgent::CpuLimitReached { execution, .. },
            ) if n == *execution => Some(Running(n)),
            (Running(n), FromAgent::Done { execution, .. }) if n == *execution => Some(Ready),
            (Running(n), FromAgent::KernelExited { execution, .. }) if Some(n) == *execution => {
                Some(Starting)
            }
            // The kernel died between our sending and the agent's reading: the agent says so
            // first, and runs the code in the next kernel.
            (Sent(_), FromAgent::KernelExited { execution: None, .. }) => Some(self.phase),
            (Sent(_), FromAgent::KernelReady { protection, .. }) if is_whole(protection) => {
                Some(self.phase)
            }
            (Ready | Starting, FromAgent::KernelExited { execution: None, .. }) => Some(Starting),
            _ => None,
        };
        self.phase = next.ok_or_else(|| OutOfTurn {
            message: name(message),
            phase: format!("{:?}", self.phase).to_lowercase(),
        })?;
        Ok(())
    }
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
        let protection = Layer::ALL.map(|layer| Report::enforced(layer, "")).to_vec();
        FromAgent::KernelReady { generation: 1, origin: Origin::Executed, protection }
    }

    #[test]
    fn a_kernel_is_not_ready_without_a_report_of_every_layer() {
        let FromAgent::KernelReady { generation, origin, mut protection } = ready() else { return };
        protection.swap(0, 1);
        for protection in [vec![], protection] {
            let message = FromAgent::KernelReady { generation, origin, protection };
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
        sequence.sent(1);
        sequence.accept(&FromAgent::Started { execution: 1 }).unwrap();
        sequence.accept(&done(1)).unwrap();
        assert!(sequence.is_ready());
    }

    #[test]
    fn a_reply_for_another_execution_is_out_of_turn() {
        let mut sequence = Sequence::default();
        sequence.accept(&ready()).unwrap();
        assert!(sequence.accept(&done(1)).is_err());
        sequence.sent(2);
        sequence.accept(&FromAgent::Started { execution: 2 }).unwrap();
        let error = sequence.accept(&done(1)).unwrap_err();
        assert_eq!(error.to_string(), "the agent said done while running(2)");
    }

    #[test]
    fn commands_run_beside_code_and_one_another() {
        let mut sequence = Sequence::default();
        sequence.accept(&ready()).unwrap();
        sequence.sent(1);
        sequence.sent_command(2);
        sequence.sent_command(3);
        for execution in [3, 1, 2] {
            sequence.accept(&FromAgent::Started { execution }).unwrap();
        }
        sequence.accept(&done(2)).unwrap();
        assert!(!sequence.is_ready(), "the code goes on");
        sequence.accept(&done(1)).unwrap();
        assert!(sequence.is_ready());
        sequence.accept(&done(3)).unwrap();
        assert!(sequence.accept(&done(3)).is_err(), "it is over");
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
            sequence.sent(2);
            assert!(sequence.accept(&own).is_err(), "not before it has started: {own:?}");
            let mut sequence = Sequence::default();
            sequence.accept(&ready()).unwrap();
            sequence.sent(2);
            sequence.accept(&FromAgent::Started { execution: 2 }).unwrap();
            sequence.accept(&own).unwrap();
            assert!(sequence.accept(&other).is_err(), "of another: {other:?}");
        }
    }
}
