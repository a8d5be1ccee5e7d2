//! Messages between supervisor, agent and launcher.
//!
//! The supervisor has a launcher forked ([`ForkLauncher`]) and opens with [`LaunchOrder`] on that one's
//! socket, a stream. The launcher makes the session, the agent inherits the socket, and from then
//! on the supervisor sends [`ToAgent`] and the agent [`FromAgent`]. Agent and launcher share a second socket for
//! [`ToLauncher`] and [`FromLauncher`]: new kernels start outside the session, in their
//! cgroup, and then join it.

use serde::{Deserialize, Serialize};

pub use self::code_policy::{
    AuditEvents, CodePolicy, Echo, HostModule, ImportRule, NameRule, Noted,
};
pub use self::failure::{Failure, Transient};
pub use self::files::{
    FileEntry, FileEvent, FileEventKind, FileKind, FileOperation, FileProblem, FileProblemKind,
    FileReply, WATCH_FRAME_BYTES,
};
pub use self::fork_server::{ForkLauncher, LauncherForked};
pub use self::id_namespace::{CreateIdNamespace, FromIdNamespace};
pub use self::launcher::{
    FromLauncher, GO_ON, Launch, LaunchOrder, Origin, Program, SpawnNumber, SpawnReport, ToLauncher,
};
pub use self::port::{Connect, LoopbackAddress};
pub use self::repr::ReprLimits;
pub use self::storage::{
    SealRequest, SealedInfo, StorageOperation, StorageReply, StorageRequest, StorageUsage,
};
pub use self::template::{
    ForkNumber, FromForkedChild, FromTemplate, FromZygote, Handoff, StartTemplate, ToTemplate,
    ToZygote,
};
pub use self::work::{Assist, CommandSpec, Execute, ImageStep, InputFile, Stdin, WindowSize, Work};
use crate::layer::Report;
use crate::leaf::{ContextNumber, Leaf};
use crate::outcome::{Account, Display, Exception, KernelEnd, OutputFile, Usage, Value};

mod code_policy;
mod failure;
mod files;
mod fork_server;
mod id_namespace;
mod launcher;
mod port;
mod repr;
mod storage;
mod template;
mod work;

/// Number of an execution within its session, from 1, never reused.
pub type ExecutionNumber = u64;

/// Number of an operation on files within its session, from 1, never reused.
pub type TransferNumber = u64;

/// Number of a kernel within its context, from 1, never reused.
pub type Generation = u32;

/// Supervisor to agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// Run something: code only when a kernel is ready and runs none, a command at any time. With
    /// [`Stdin::Pipe`] comes the pipe, with a leaf of its own what [`LaunchOrder::Start`] has of the first, and with
    /// code what [`Work::descriptors`] says.
    Execute(Execute),
    /// Do something with the session's files. At any time, also while something runs. A
    /// `Read`, `Write`, `Unpack`, `Archive` or `Watch` comes with one end of a stream socket (`SCM_RIGHTS`), over which
    /// the content goes.
    File {
        /// Its number, never reused.
        transfer: TransferNumber,
        /// What to do.
        operation: FileOperation,
    },
    /// Send SIGINT to the process group of the kernel or command, if this execution is still
    /// running.
    Interrupt {
        /// The number of the execution.
        execution: ExecutionNumber,
    },
    /// Kill the command that is this execution, with its process group and what descends from
    /// it, if it is still running. Its end comes as [`Completion::Signaled`], and the kernel
    /// goes on. Nothing happens if the execution is not a command: see [`ToAgent::Replace`].
    Kill {
        /// The number of the execution.
        execution: ExecutionNumber,
    },
    /// Send a signal to the process group of a command, if it is still running.
    Signal {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// The signal's number: signal(7).
        signal: i32,
    },
    /// Change the size of a command's terminal.
    Resize {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// The new size.
        size: WindowSize,
    },
    /// Read no more of what an execution prints and shows, or go on reading: so it waits for who reads
    /// it.
    Hold {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// Whether to hold it back.
        held: bool,
    },
    /// Kill the kernel of a context, with what else is in its leaf. Without cgroups every process of
    /// the session but the agent is killed, and each context gets a fresh kernel.
    Replace {
        /// The context.
        context: ContextNumber,
    },
    /// Start the next kernel of a context whose last one has ended: with cgroups, where each has a leaf
    /// of its own. With it comes what [`LaunchOrder::Start`] has of the first's.
    StartKernel {
        /// The context.
        context: ContextNumber,
        /// Where it starts.
        leaf: Leaf,
    },
    /// Start a kernel beside the others. With cgroups comes what [`LaunchOrder::Start`] has of the first's leaf.
    OpenContext {
        /// Its number, never reused.
        context: ContextNumber,
    },
    /// Kill the kernel of a context, with what else is in its leaf, for good. Whatever it runs is
    /// over, and [`FromAgent::ContextClosed`] is the last that is said of it.
    CloseContext {
        /// The context, not the first.
        context: ContextNumber,
    },
    /// Ask for a [`Description`].
    Describe,
    /// Ask for [`FromAgent::Processes`], which takes no time that grows with their memory.
    CountProcesses,
    /// End the session in an orderly way.
    Close,
    /// Answer with [`FromAgent::Pong`], whatever else is going on.
    Ping,
    /// Begin to connect to a port inside. Comes with one end of a stream socket, for the answer.
    Connect(Connect),
    /// Hand out the socket on which the egress gate accepts: [`crate::egress`]. Comes with one end of a
    /// stream socket, for the answer, which has the form of a port's.
    Egress,
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

/// How an execution ended, by the kernel's message or a command's exit. Other ends are
/// [`FromAgent::KernelExited`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Completion {
    /// Ran to its end.
    Ok,
    /// An exception was raised.
    Error,
    /// A `KeyboardInterrupt` that nobody caught.
    Interrupted,
    /// Code used up the work of its [`CodePolicy`]. The kernel goes on.
    WorkLimit,
    /// A command exited with this code.
    Exited(i32),
    /// A command was killed by this signal.
    Signaled(i32),
}

/// Files that were made, changed or deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The files, by name; not those that are gone again.
    pub files: Vec<FileEntry>,
    /// Whether there are more.
    pub more: bool,
    /// Files that are gone, by name, and directories that were moved away.
    pub deleted: Vec<String>,
}

impl Changes {
    /// The most files of one report.
    pub const FILES_MAX: usize = 1000;

    /// Adds what changed later.
    pub fn extend(&mut self, later: &Self) {
        let is_file = |path: &str| later.files.iter().any(|file| file.path == path);
        let is_gone = |path: &str| later.deleted.iter().any(|gone| gone == path);
        self.files.retain(|file| !is_file(&file.path) && !is_gone(&file.path));
        self.files.extend(later.files.iter().cloned());
        self.files.sort_by(|one, other| one.path.cmp(&other.path));
        self.deleted.retain(|path| !is_file(path) && !is_gone(path));
        self.deleted.extend(later.deleted.iter().cloned());
        self.deleted.sort();
        let room = Self::FILES_MAX.saturating_sub(self.files.len());
        self.more |= later.more || self.files.len() > Self::FILES_MAX || self.deleted.len() > room;
        self.files.truncate(Self::FILES_MAX);
        self.deleted.truncate(room);
    }
}

/// Agent to supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromAgent {
    /// The session could not be made, or is over because of an error. The last message.
    Failed(Failure),
    /// A kernel is ready for executions.
    KernelReady {
        /// Whose kernel it is.
        context: ContextNumber,
        /// The number of the kernel.
        generation: Generation,
        /// Executed, or forked from a template.
        origin: Origin,
        /// Every layer, in order, as read back from inside.
        protection: Vec<Report>,
    },
    /// The execution's code has been handed to a ready kernel, or its command has been executed:
    /// its time runs from here.
    Started {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// When that was, by [`crate::clock::monotonic_us`]: the agent may hold this back for a millisecond, to send
        /// it with what follows.
        at_us: u64,
    },
    /// The execution's input files could not be written, so it was not run.
    FilesRefused {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// The file's name.
        name: String,
        /// What went wrong.
        reason: String,
    },
    /// Output, as captured at the file descriptor.
    Output {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// Standard output or standard error.
        stream: Stream,
        /// The bytes.
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// The value of a final expression.
    Value {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// The value.
        value: Value,
    },
    /// The exception that ended the execution.
    Exception {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// The exception.
        exception: Exception,
    },
    /// Something to be shown.
    Display {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// The display.
        display: Display,
    },
    /// A file that the execution's request named. After the code has ended, before `Done` or `KernelExited`.
    File {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// The file, or why it could not be read.
        file: OutputFile,
    },
    /// The execution is over, and all it printed has been sent.
    Done {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// How it ended.
        completion: Completion,
        /// Bytes of stdout beyond the cap, not sent.
        stdout_dropped: u64,
        /// Bytes of stderr beyond the cap, not sent.
        stderr_dropped: u64,
        /// What it used.
        usage: Usage,
        /// Files of the workdir that were made or changed since the execution before, whoever did it.
        changes: Changes,
        /// What its [`CodePolicy`] noted, by the kernel's word.
        account: Account,
    },
    /// The answer to [`ToAgent::File`]: at once for what has no content to follow; for a `Read`
    /// before the content; for a `Write` or `Unpack` after it.
    FileDone {
        /// The number of the operation.
        transfer: TransferNumber,
        /// The result, or why there is none.
        reply: Result<FileReply, FileProblem>,
    },
    /// A kernel is gone. If code was running it is over, and all it printed has been
    /// sent. Commands in its leaf are killed with it, and report their own ends. Without cgroups the agent
    /// starts the next kernel by itself, unless this one was [`KernelEnd::NotStarted`].
    KernelExited {
        /// Whose kernel it was.
        context: ContextNumber,
        /// The number of the kernel.
        generation: Generation,
        /// The execution it took with it.
        execution: Option<ExecutionNumber>,
        /// How the kernel ended.
        end: KernelEnd,
        /// Bytes of stdout beyond the cap, not sent.
        stdout_dropped: u64,
        /// Bytes of stderr beyond the cap, not sent.
        stderr_dropped: u64,
        /// What the execution used.
        usage: Usage,
        /// As in [`FromAgent::Done`]; empty if no execution was running.
        changes: Changes,
    },
    /// The answer to [`ToAgent::CloseContext`].
    ContextClosed {
        /// The context.
        context: ContextNumber,
    },
    /// The execution has used up its CPU time; the supervisor decides what follows.
    CpuLimitReached {
        /// The number of the execution.
        execution: ExecutionNumber,
        /// CPU time used, in microseconds.
        used_us: u64,
    },
    /// The answer to [`ToAgent::Describe`].
    Described(Description),
    /// The answer to [`ToAgent::CountProcesses`]: of the session, the agent and those that have ended not counted.
    Processes(u32),
    /// The answer to [`ToAgent::Ping`].
    Pong,
}

impl FromAgent {
    /// The execution that this is about. `None` for a kernel's end, whatever that ends.
    #[must_use]
    pub const fn execution(&self) -> Option<ExecutionNumber> {
        match self {
            Self::Started { execution, .. }
            | Self::FilesRefused { execution, .. }
            | Self::Output { execution, .. }
            | Self::Value { execution, .. }
            | Self::Exception { execution, .. }
            | Self::Display { execution, .. }
            | Self::File { execution, .. }
            | Self::Done { execution, .. }
            | Self::CpuLimitReached { execution, .. } => Some(*execution),
            Self::Failed(_)
            | Self::KernelReady { .. }
            | Self::FileDone { .. }
            | Self::KernelExited { .. }
            | Self::ContextClosed { .. }
            | Self::Described(_)
            | Self::Processes(_)
            | Self::Pong => None,
        }
    }
}

/// The session as the agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The kernel now in place, if one is ready.
    pub generation: Option<Generation>,
    /// The code now running.
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
