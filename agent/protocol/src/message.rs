//! What supervisor, agent and launcher say to each other.
//!
//! The supervisor opens with [`Launch`] on the launcher's standard input, a stream socket. The
//! launcher makes the session, the agent inherits the socket, and from then on the supervisor
//! sends [`ToAgent`] and the agent [`FromAgent`]. Agent and launcher share a second socket for
//! [`ToLauncher`] and [`FromLauncher`]: new kernels are born outside the session, in their
//! cgroup, and then join it.

use serde::{Deserialize, Serialize};

use crate::layer::{Layer, Report};
use crate::outcome::{Exception, KernelEnd, Usage, Value};
use crate::policy::Policy;

/// The supervisor's first message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// [`crate::PROTOCOL_VERSION`] of the supervisor.
    pub protocol_version: u32,
    /// What to make.
    pub policy: Policy,
}

/// Number of an execution within its session, from 1, never reused.
pub type ExecutionNumber = u64;

/// Number of a kernel within its session, from 1, never reused.
pub type Generation = u32;

/// A file to put into the workdir.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Path relative to the workdir, opened beneath it and through no symbolic link.
    pub name: String,
    /// Its content.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}

/// Supervisor to agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// Run code. Only when a kernel is ready and none is running.
    Execute {
        /// Its number.
        execution: ExecutionNumber,
        /// The code.
        code: String,
        /// Files to put into the workdir first.
        files: Vec<InputFile>,
    },
    /// Send SIGINT to the kernel's process group, if this execution is still running.
    Interrupt {
        /// Which.
        execution: ExecutionNumber,
    },
    /// Kill every process of the session but the agent, and start a fresh kernel.
    Replace,
    /// Ask for a [`Description`].
    Describe,
    /// End the session in an orderly way.
    Close,
}

/// Which output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// File descriptor 1.
    Stdout,
    /// File descriptor 2.
    Stderr,
}

/// How an execution ended, as the kernel tells it. Other ends are told by
/// [`FromAgent::KernelExited`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Completion {
    /// Ran to its end.
    Ok,
    /// An exception was raised.
    Error,
    /// A `KeyboardInterrupt` that nobody caught.
    Interrupted,
}

/// Agent to supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromAgent {
    /// The session could not be made, or is over because of an error. The last message.
    Failed(Failure),
    /// A kernel is ready for executions.
    KernelReady {
        /// Which.
        generation: Generation,
        /// Every layer, in order, as read back from inside.
        protection: Vec<Report>,
    },
    /// The execution's code has been handed to a ready kernel: its time runs from here.
    Started {
        /// Which.
        execution: ExecutionNumber,
    },
    /// The execution's input files could not be written, so it was not run.
    FilesRefused {
        /// Which.
        execution: ExecutionNumber,
        /// The file's name.
        name: String,
        /// What went wrong.
        reason: String,
    },
    /// Output, as captured at the file descriptor.
    Output {
        /// Which execution.
        execution: ExecutionNumber,
        /// Which stream.
        stream: Stream,
        /// The bytes.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// The value of a final expression.
    Value {
        /// Which execution.
        execution: ExecutionNumber,
        /// It.
        value: Value,
    },
    /// The exception that ended the execution.
    Exception {
        /// Which execution.
        execution: ExecutionNumber,
        /// It.
        exception: Exception,
    },
    /// The execution is over, and all it printed has been sent.
    Done {
        /// Which.
        execution: ExecutionNumber,
        /// How it ended.
        completion: Completion,
        /// Bytes of stdout beyond the cap, not sent.
        stdout_dropped: u64,
        /// Bytes of stderr beyond the cap, not sent.
        stderr_dropped: u64,
        /// What it used.
        usage: Usage,
    },
    /// A kernel is gone. If an execution was running it is over, and all it printed has been
    /// sent. The agent starts the next kernel by itself, unless this one was
    /// [`KernelEnd::NotStarted`].
    KernelExited {
        /// Which kernel.
        generation: Generation,
        /// The execution it took with it.
        execution: Option<ExecutionNumber>,
        /// How.
        end: KernelEnd,
        /// Bytes of stdout beyond the cap, not sent.
        stdout_dropped: u64,
        /// Bytes of stderr beyond the cap, not sent.
        stderr_dropped: u64,
        /// What the execution used.
        usage: Usage,
    },
    /// CPU time of the execution is used up; the supervisor decides what follows.
    CpuLimitReached {
        /// Which execution.
        execution: ExecutionNumber,
        /// CPU time used, in microseconds.
        used_us: u64,
    },
    /// The answer to [`ToAgent::Describe`].
    Described(Description),
}

/// The session as the agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The kernel now in place, if one is ready.
    pub generation: Option<Generation>,
    /// The execution now running.
    pub execution: Option<ExecutionNumber>,
    /// Processes of the session, the agent not counted.
    pub processes: u32,
    /// Proportional set size of the agent, in bytes.
    pub agent_pss_bytes: u64,
    /// Proportional set size of the kernel process, in bytes.
    pub kernel_pss_bytes: u64,
    /// Bytes used of workdir, /tmp and /dev/shm.
    pub disk_bytes: u64,
}

/// Why there is no session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}{operation}: {reason}", layer.map(|layer| format!("{layer}: ")).unwrap_or_default())]
pub struct Failure {
    /// The layer that did not apply, if it was one.
    pub layer: Option<Layer>,
    /// What was tried.
    pub operation: String,
    /// What went wrong.
    pub reason: String,
    /// What an operator can do.
    pub fix: String,
}

/// Agent to launcher. `Spawn` carries, as `SCM_RIGHTS`, the kernel's stdout, stderr, control
/// socket, program and report pipe, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToLauncher {
    /// Start a kernel in this session.
    Spawn,
}

/// Launcher to agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromLauncher {
    /// The session's mappings are written and its kernel leaf is known: go on.
    Mapped,
    /// The kernel has ended: `wait4(2)`'s status and usage.
    Exited {
        /// How.
        end: KernelEnd,
        /// What it used in all its life, with the children it waited for.
        usage: Usage,
    },
}

/// What a kernel says on its report pipe, once, before it becomes Python. End of file after it
/// means that Python was executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelReport {
    /// Every layer was applied and read back.
    Confined {
        /// Its pid inside the session.
        pid: u32,
        /// Every layer, in order.
        protection: Vec<Report>,
    },
    /// It could not be confined or executed, and is gone.
    Failed(Failure),
}
