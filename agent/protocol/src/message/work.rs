//! What an execution runs.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::{CodePolicy, ExecutionNumber, ReprLimits};
use crate::leaf::ContextNumber;

/// A file to put into the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// A path of [`crate::places`], opened beneath its root and through no symbolic link.
    pub name: String,
    /// Its content.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}

/// What an execution runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Code, in the kernel.
    Code {
        /// The source.
        code: String,
        /// The name that tracebacks give it, relative to the workdir if it is a file there; empty if
        /// it has none.
        filename: String,
        /// The working directory while it runs, relative to the workdir; as it is if `None`.
        cwd: Option<String>,
        /// Variables of `os.environ` while it runs.
        env: Vec<(String, String)>,
        /// How far its value and displays are written out.
        repr: ReprLimits,
        /// Whether it may call functions of its client's. Two pipes come with the message then
        /// (`SCM_RIGHTS`): the end to write calls to, and the end to read answers from. The agent hands
        /// both to the kernel, and knows nothing of what goes over them.
        tools: bool,
        /// What Python itself holds it to.
        policy: Box<CodePolicy>,
    },
    /// A process beside the kernel, under the same restrictions.
    Command(CommandSpec),
    /// A question to the kernel about code. Answered by a value of one part, JSON.
    Assist {
        /// What is asked.
        kind: Assist,
        /// The code.
        code: String,
        /// The cursor's place, in characters.
        cursor: u32,
    },
    /// Something about the memory of the kernel. Answered by a value of one part, JSON.
    Image(ImageStep),
}

impl Work {
    /// Code without a file name.
    #[must_use]
    pub fn code(code: String) -> Self {
        Self::Code {
            code,
            filename: String::new(),
            cwd: None,
            env: Vec::new(),
            repr: ReprLimits::IPYTHON,
            tools: false,
            policy: Box::default(),
        }
    }

    /// How many descriptors come with it for the kernel.
    #[must_use]
    pub const fn descriptors(&self) -> usize {
        match self {
            Self::Code { tools: true, .. } => 2,
            Self::Image(step) if step.has_descriptor() => 1,
            Self::Code { .. } | Self::Image(_) | Self::Command(_) | Self::Assist { .. } => 0,
        }
    }

    /// Whether it runs beside the kernel.
    #[must_use]
    pub const fn is_command(&self) -> bool {
        matches!(self, Self::Command(_))
    }
}

/// What is done with a kernel's image: what it has in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageStep {
    /// Say what keeps it from being saved.
    Check,
    /// Write it to the pipe that comes with the message (`SCM_RIGHTS`).
    Save,
    /// The same without the session's files, which another kernel of it writes.
    SaveMemory,
    /// Become the one in the file that comes with the message.
    Load,
}

impl ImageStep {
    /// Whether a descriptor comes with it.
    #[must_use]
    pub const fn has_descriptor(self) -> bool {
        matches!(self, Self::Save | Self::SaveMemory | Self::Load)
    }
}

/// A process beside the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// The program, looked for on PATH unless it has a slash, and its arguments.
    pub argv: Vec<String>,
    /// What it reads from its standard input.
    pub stdin: Stdin,
    /// Its working directory, relative to the workdir; the workdir if empty.
    pub cwd: String,
    /// Variables of its environment, which come before the session's of the same names.
    pub env: Vec<(String, String)>,
    /// Whether nobody waits for it: the files that it changes are not reported.
    pub background: bool,
    /// Whether it starts in a leaf of its own, and so outlives kernels.
    pub own_leaf: bool,
    /// The size of the terminal that its three streams are; pipes if `None`.
    pub pty: Option<WindowSize>,
}

/// The size of a terminal, in characters: ioctl_tty(2), TIOCSWINSZ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    /// Characters in a row.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

impl CommandSpec {
    /// A command that reads nothing.
    #[must_use]
    pub fn new(argv: Vec<String>) -> Self {
        Self { argv, ..Self::default() }
    }
}

/// The standard input of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// These bytes, and then its end.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The read end of a pipe that comes with the message (`SCM_RIGHTS`).
    Pipe,
}

impl Default for Stdin {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

/// An execution, as the agent gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execute {
    /// Identifies the execution from now on.
    pub execution: ExecutionNumber,
    /// Whose kernel runs it; of no meaning to a command.
    pub context: ContextNumber,
    /// What to run.
    pub work: Work,
    /// Files to put into the workdir first.
    pub files: Vec<InputFile>,
    /// Names of files to bring back, as [`crate::places`] has them.
    pub outputs: Vec<String>,
}

/// A question about code that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Assist {
    /// Completions at the cursor.
    Complete,
    /// Documentation of the name at the cursor.
    Inspect,
    /// Whether the code can be executed or goes on; the cursor does not matter.
    IsComplete,
}
