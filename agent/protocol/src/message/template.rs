//! Messages to and from a template's process, the zygote: a warmed Python that forks kernels, or the
//! program of runtime `wasm` with an instance that is ready.
//!
//! Supervisor and zygote share one socket. Each session's launcher shares another with the zygote, made
//! by the supervisor; [`ToZygote`] and [`FromZygote`] use that. What belongs to one session (its policy,
//! its descriptors) goes over a third socket, made by the launcher for one fork, and only the forked
//! child reads it: [`Handoff`] and [`FromForkedChild`]. So a zygote's memory never holds anything of a
//! session.

use serde::{Deserialize, Serialize};

use super::Failure;
use crate::leaf::Leaf;
use crate::outcome::{KernelEnd, Usage};
use crate::policy::{Interpreter, Policy};

/// The supervisor's first message to a template. With it go, as `SCM_RIGHTS`, the agent's library,
/// which the template loads, or, with runtime `wasm`, the compiled component; and, where there is one, the
/// user namespace that holds the subordinate ids: only from there can the sessions be entered that are made in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTemplate {
    /// [`crate::PROTOCOL_VERSION`] of the supervisor.
    pub protocol_version: u32,
    /// What to run.
    pub interpreter: Interpreter,
    /// Modules to import, in order.
    pub preimport: Vec<String>,
    /// Code to run after that.
    pub warmup: String,
    /// Its environment, complete.
    pub env: Vec<(String, String)>,
    /// Whether to execute the interpreter from a read-only mount: `/proc/self/exe` of a kernel, which
    /// is the template's, leads there, past the session's own root.
    pub read_only: bool,
    /// Whether kernels are to be such that their memory can be saved, and put into others.
    pub images: bool,
}

/// Supervisor to template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToTemplate {
    /// Serve the launcher at the other end of the socket that goes with this.
    Serve,
    /// Answer with [`FromTemplate::Pong`].
    Ping(u64),
}

/// Template to supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromTemplate {
    /// Everything is imported, and kernels can be forked. With it goes the memory file of a template whose kernels
    /// can be saved (agent/src/image/template.rs).
    Ready,
    /// Why there is no template for this environment. The last message.
    Unfit(String),
    /// The answer to [`ToTemplate::Ping`].
    Pong(u64),
}

/// Number of a fork that a launcher has requested, never reused.
pub type ForkNumber = u64;

/// Launcher to zygote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToZygote {
    /// Fork a kernel. With this goes the socket for its [`Handoff`].
    Fork {
        /// Identifies the kernel.
        number: ForkNumber,
        /// As in [`super::Launch`].
        is_ahead: bool,
    },
}

/// Zygote to launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromZygote {
    /// A forked kernel has ended.
    Ended {
        /// The number of its fork.
        fork: ForkNumber,
        /// How it ended.
        end: KernelEnd,
        /// What it used in all its life.
        usage: Usage,
    },
}

/// Launcher to the forked child. With it go, in this order, the session's namespaces, the cgroup to
/// start in if there is one, the kernel's descriptors 0 to 3, and the socket for its `SpawnReport`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// The session's policy, without the kernel program, which is there already.
    pub policy: Policy,
    /// Where it starts, if there is a cgroup.
    pub leaf: Leaf,
}

/// Forked child to launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromForkedChild {
    /// It runs, and awaits its [`Handoff`]. Not sent before: what belongs to the session, its report
    /// socket for one, would wait in a zygote that hangs.
    Started,
    /// It is in its cgroup and in the session's namespaces. With this goes its pidfd. The launcher
    /// answers with one byte: continue. If the socket ends instead, the kernel was given up and must
    /// end.
    Joined,
    /// It could not join.
    Failed(Failure),
}
