//! What a session is given to run.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use vivarium_api_types::{ApprovalRule, OutputSpec};
use vivarium_protocol::message::{
    CommandSpec, ExecutionNumber, Failure, ImageStep, InputFile, Stdin, Work,
};

use super::AwaitedApproval;
use super::calls::tool::{AskedTools, ToolSet};
use super::execution_log::LogWriter;
use crate::budget::Reservation;
use crate::code_policy::{self, AskedPolicy};
use crate::quotas::{Exceeded, Slot};

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
    /// A command: whether it waits for its turn, as code does.
    pub queued: bool,
    /// What comes with it: the pipe that is a command's standard input, if others write to that, or an
    /// image's.
    pub descriptor: Option<OwnedFd>,
    /// A command that nobody waits for: whether it goes on when the session is reset.
    pub survives_reset: bool,
    /// The context that is to run it, by its name; the first if there is none.
    pub context: Option<String>,
    /// What its request has of tools.
    pub asked_tools: AskedTools,
    /// What its code can call, with what its session has.
    pub tools: Option<Arc<ToolSet>>,
    /// What its request has of policies.
    pub(crate) asked_policy: AskedPolicy,
    /// What holds for it at least, whatever the rule of its tenant and session.
    pub approval: Option<ApprovalRule>,
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
    /// The right to wait for others, while it does.
    pub waiting: Option<Slot>,
    /// The decision that it waits for, if it needs approval.
    pub awaited: Option<AwaitedApproval>,
}

/// How a piece of work is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    /// A process beside it, which can be killed without losing the kernel.
    Command,
    /// A question to the kernel: it waits for nobody, and is no execution that anybody counts.
    Assist,
    /// The same for the sake of its image: the session is not used by it.
    Image,
}

impl Kind {
    pub(super) const fn is_question(self) -> bool {
        matches!(self, Self::Assist | Self::Image)
    }
}

impl WorkSpec {
    pub(super) const fn kind(&self) -> Kind {
        match self.work {
            Work::Code { .. } => Kind::Code,
            Work::Command(_) => Kind::Command,
            Work::Assist { .. } => Kind::Assist,
            Work::Image(_) => Kind::Image,
        }
    }

    /// Whether it runs only when nothing before it in the queue does.
    pub(super) const fn waits_for_turn(&self) -> bool {
        self.queued || !self.work.is_command()
    }

    /// What is done with the kernel's image: it comes from the engine, and from nobody's client.
    pub fn image(
        step: ImageStep,
        context: Option<String>,
        timeout: Duration,
        descriptor: Option<OwnedFd>,
    ) -> Self {
        Self {
            work: Work::Image(step),
            files: Vec::new(),
            outputs: Vec::new(),
            timeout,
            cancel_on_disconnect: true,
            queued: true,
            descriptor,
            survives_reset: false,
            context,
            asked_tools: AskedTools::default(),
            tools: None,
            asked_policy: AskedPolicy::default(),
            approval: None,
        }
    }

    /// Whether others write to its standard input.
    pub fn has_pipe(&self) -> bool {
        matches!(&self.work, Work::Command(CommandSpec { stdin: Stdin::Pipe, .. }))
    }

    /// Whether it is a command that may print for ever: of that the outcome has a part.
    pub(super) const fn prints_on(&self) -> bool {
        matches!(&self.work, Work::Command(CommandSpec { pty: Some(_), .. }))
    }

    /// Whether it is a command that nobody waits for.
    pub(super) const fn is_background(&self) -> bool {
        matches!(&self.work, Work::Command(CommandSpec { background: true, .. }))
    }

    /// Bytes that it takes here and on the way to the agent.
    pub fn bytes(&self) -> usize {
        let work = match &self.work {
            Work::Code { code, filename, env, policy, .. } => {
                code.len() + filename.len() + variables(env) + code_policy::bytes(policy)
            }
            Work::Assist { code, .. } => code.len(),
            Work::Image(_) => 0,
            Work::Command(CommandSpec { argv, stdin, env, .. }) => {
                let stdin = match stdin {
                    Stdin::Bytes(bytes) => bytes.len(),
                    Stdin::Pipe => 0,
                };
                let arguments = argv.iter().map(|argument| argument.len() + 8);
                arguments.sum::<usize>() + stdin + variables(env)
            }
        };
        let files = self.files.iter().map(|file| file.name.len() + file.data.len() + 16);
        let outputs = self.outputs.iter().map(|output| output.name.len() + 16);
        let tools = self.tools.as_ref().map_or(0, |tools| tools.bytes());
        work + files.chain(outputs).sum::<usize>() + tools + self.asked_policy.bytes()
    }
}

fn variables(env: &[(String, String)]) -> usize {
    env.iter().map(|(name, value)| name.len() + value.len() + 16).sum()
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
        Self {
            spec,
            streamed,
            session_created,
            writer,
            reservation,
            number,
            queued_at,
            waiting: None,
            awaited: None,
        }
    }
}

/// Why an execution was not even queued, or never got a session to run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    QueueFull,
    /// As many commands run in the session as may.
    TooManyCommands,
    /// As many executions of the tenant wait as may.
    OverQuota(Exceeded),
    /// Something runs or waits, and this waits for nobody.
    Busy,
    /// There is no such context in the session.
    UnknownContext,
    /// It is to survive a reset, which nothing of this session does.
    NotSurvivable,
    NotStarted(Failure),
    /// The session is being suspended or resumed.
    Suspended,
    /// The session was over before it could take it.
    Gone,
}

#[derive(Debug)]
pub struct Interrupted {
    pub execution: ExecutionNumber,
    pub ended: tokio::sync::oneshot::Receiver<()>,
}

/// What a reset has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetDone {
    /// The execution that ran in the context's kernel.
    pub ended: Option<ExecutionNumber>,
    /// Whether every process of the session was ended, and not the context's alone.
    pub is_of_session: bool,
}

/// Why a context was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextRefusal {
    #[error("there is one of this id")]
    Exists,
    #[error("there are as many as may be")]
    TooMany,
    #[error("{0}")]
    NotStarted(String),
}
