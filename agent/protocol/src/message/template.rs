//! What is said to and by a template: a warmed Python that kernels are forked from.
//!
//! Supervisor and template share one socket. Each session's launcher shares another with the
//! template, made by the supervisor; over that go [`ToNursery`] and [`FromNursery`]. What is of
//! one session (its policy, its descriptors) goes over a third socket, made by the launcher for one
//! birth, and is read only by the process that is to be the kernel: [`Inheritance`] and
//! [`FromNewborn`]. So a template's memory never holds anything of a session.

use serde::{Deserialize, Serialize};

use super::Failure;
use crate::outcome::{KernelEnd, Usage};
use crate::policy::{Interpreter, Policy};

/// The supervisor's first message to a template. With it go, as `SCM_RIGHTS`, the agent's library,
/// which the template loads, and, where there is one, the user namespace that holds the
/// subordinate ids: only from there can the sessions be entered that are made in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateOrder {
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
    /// is the template's, leads there, past a root of the session's own.
    pub read_only: bool,
}

/// Supervisor to template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToTemplate {
    /// Serve the launcher at the other end of the socket that goes with this.
    Serve,
    /// Say that you are there.
    Ping(u64),
}

/// Template to supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromTemplate {
    /// Everything is imported, and kernels can be forked.
    Ready,
    /// There is no template for this environment, for this reason. The last message.
    Unfit(String),
    /// The answer to [`ToTemplate::Ping`].
    Pong(u64),
}

/// Number of a fork that a launcher has asked its template for, never reused.
pub type ForkNumber = u64;

/// Launcher to template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNursery {
    /// Fork a kernel. With this goes the socket for its [`Inheritance`].
    Fork(ForkNumber),
}

/// Template to launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromNursery {
    /// A kernel that was forked has ended.
    Ended {
        /// Which.
        fork: ForkNumber,
        /// How.
        end: KernelEnd,
        /// What it used in all its life.
        usage: Usage,
    },
}

/// Launcher to the process that is to be the kernel. With it go, in this order, the session's
/// namespaces, the cgroup that it is to be born in if there is one, what are to be descriptors 0 to
/// 3, and the socket for its `SpawnReport`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inheritance {
    /// The session's policy, without the kernel program, which is there already.
    pub policy: Policy,
}

/// That process to the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromNewborn {
    /// It is there, and to be sent its [`Inheritance`]. Not before: what is of the session, its
    /// report socket for one, would wait in the template for as long as that hangs.
    Here,
    /// It is born, in its cgroup and in the session's namespaces. With this goes its pidfd. The
    /// launcher answers with one byte: go on. If the socket ends instead, it has been given up and
    /// must end.
    Born,
    /// It could not be.
    Failed(Failure),
}
