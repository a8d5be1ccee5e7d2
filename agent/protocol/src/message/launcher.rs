//! Messages to a launcher and from it, and from a new process to the agent.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use super::Failure;
use crate::layer::Report;
use crate::leaf::Leaf;
use crate::outcome::{KernelEnd, Usage};
use crate::policy::Policy;

/// Supervisor to launcher: the last one is a `Start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LaunchOrder {
    /// Prepare a session that is not there yet: all that is the same for each that
    /// [`Policy::has_surroundings_of`] this policy. With it goes, if the session has it, the user namespace
    /// that holds the subordinate ids.
    Prepare(Launch),
    /// Compare the host's paths with those that a session was prepared from: its `Start` follows. Without effect if
    /// nothing is prepared.
    Check,
    /// Make a session. With it go (`SCM_RIGHTS`), in this order: a file with the kernel program, and, each if
    /// the session has it, the user namespace that holds the subordinate ids, the files `cgroup.kill` and
    /// `cgroup.events` of the first context's leaf, and a socket that leads to the template that kernels
    /// are to be forked from.
    Start(Launch),
}

/// What a launcher is to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// [`crate::PROTOCOL_VERSION`] of the supervisor.
    pub protocol_version: u32,
    /// The session's.
    pub policy: Policy,
    /// Whether nobody has asked for the session yet. Its first kernel may then take the time to do what spares its
    /// first execution some.
    pub is_ahead: bool,
}

/// Number of a process that the agent asked the launcher for, within its session, never reused.
pub type SpawnNumber = u64;

/// The program of a process in the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// The policy's interpreter, running the kernel program.
    Kernel,
    /// The same, executed also where there is a template, whose imports would hide the packages that the
    /// session has installed.
    KernelWithPackages,
    /// A command of a tenant's.
    Command {
        /// The program, looked for on PATH unless it has a slash, and its arguments.
        argv: Vec<String>,
        /// Its working directory, relative to the workdir; the workdir if empty.
        cwd: String,
        /// Variables of its environment, which come before the session's of the same names.
        env: Vec<(String, String)>,
        /// Whether its standard streams are a terminal, which is to be its controlling one.
        pty: bool,
    },
}

/// Agent to launcher. `Spawn` carries, as `SCM_RIGHTS`, what are to be descriptors 0, 1, 2, … of
/// the new process, and after them the socket for its [`SpawnReport`], by which the process gets [`GO_ON`] once it may be confined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToLauncher {
    /// Start a process in this session.
    Spawn {
        /// Identifies the process.
        number: SpawnNumber,
        /// What it becomes.
        program: Program,
        /// Where it starts, if there is a cgroup.
        leaf: Leaf,
    },
}

/// Launcher to agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromLauncher {
    /// The session's id maps are written: go on.
    Mapped,
    /// A process that was asked for has ended, or could not be started: `wait4(2)`'s status and usage.
    Exited {
        /// The number that the process was asked for by.
        number: SpawnNumber,
        /// How it ended.
        end: KernelEnd,
        /// What it used in all its life, with the children it waited for.
        usage: Usage,
    },
}

/// How a process was made.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Origin {
    /// It executes its program.
    Executed,
    /// It was forked from a template.
    Forked,
    /// It executes its program although there is a template: [`Program::KernelWithPackages`].
    ExecutedForPackages,
}

/// What the agent sends a process, by its report socket, that has joined the session: this is as it is to find it.
pub const GO_ON: [u8; 1] = [1];

/// A new process to the agent, once, before it executes its program. End of file after it means that the
/// process runs its program, or has reported as shells do that a command could not be executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpawnReport {
    /// Every layer was applied and read back.
    Confined {
        /// Its pid inside the session.
        pid: u32,
        /// How it was made.
        origin: Origin,
        /// Every layer, in order.
        protection: Vec<Report>,
    },
    /// It could not be confined or executed, and is gone.
    Failed(Failure),
}
