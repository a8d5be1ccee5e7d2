//! What a session can be told.

use std::os::fd::OwnedFd;

use nix::sys::signal::Signal;
use tokio::sync::oneshot;
use vivarium_api_types::ContextInfo;
use vivarium_protocol::message::{Description, ExecutionNumber, WindowSize};
use vivarium_protocol::outcome::Cause;

use super::{ContextRefusal, Interrupted, QueuedExecution, ResetDone, port, transfer};

/// What a session can be told.
#[derive(Debug)]
pub enum Command {
    Execute(Box<QueuedExecution>),
    /// Stop this execution, or what a context runs; `None` if that is nothing. Without either it is
    /// what the first runs, or else the last command that somebody waits for.
    Interrupt {
        execution: Option<ExecutionNumber>,
        context: Option<String>,
        reply: oneshot::Sender<Option<Interrupted>>,
    },
    /// Send a signal to a command; `false` if it is not running.
    Signal(ExecutionNumber, Signal, oneshot::Sender<bool>),
    /// Change the size of a command's terminal; `false` if it has none, `None` if it is not running.
    Resize(ExecutionNumber, WindowSize, oneshot::Sender<Option<bool>>),
    /// Replace the kernel of a context, by default the first's; `None` if there is no such context.
    Reset {
        context: Option<String>,
        reply: oneshot::Sender<Option<ResetDone>>,
    },
    /// Answers when its kernel is ready.
    OpenContext {
        name: String,
        reply: oneshot::Sender<Result<ContextInfo, ContextRefusal>>,
    },
    /// Answers when nothing of it is left; `false` if there is none.
    CloseContext {
        name: String,
        reply: oneshot::Sender<bool>,
    },
    Contexts(oneshot::Sender<Vec<ContextInfo>>),
    Describe(oneshot::Sender<Description>),
    /// How many processes run in it, the agent not counted.
    CountProcesses(oneshot::Sender<u32>),
    File(Box<transfer::FileCommand>),
    Connect(port::ConnectCommand),
    /// Hand the egress gate's socket to whoever has the other end of this one.
    Egress(OwnedFd),
    /// Number executions from the one after this on, and answer with the number of the last.
    CountFrom(ExecutionNumber, oneshot::Sender<ExecutionNumber>),
    /// Answer when nothing runs or waits.
    WhenIdle(oneshot::Sender<()>),
    Close(Cause),
}
