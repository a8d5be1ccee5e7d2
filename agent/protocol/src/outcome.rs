//! The outcome of an execution, in the words of the API.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

/// How an execution ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Status {
    /// The code ran to its end.
    Ok,
    /// The code raised an exception, or did not compile.
    Error,
    /// The time was up.
    TimedOut,
    /// Somebody interrupted the code.
    Interrupted,
    /// The kernel died or was killed.
    Killed,
    /// It never ran.
    Rejected,
}

/// Why, where the status alone does not say.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    /// The session's memory limit was reached and the kernel was killed for it.
    MemoryLimit,
    /// The execution used up its CPU time.
    CpuLimit,
    /// The session's process limit was reached.
    PidsLimit,
    /// The session's disk or inode limit was reached.
    DiskLimit,
    /// The execution's time was up.
    WallTime,
    /// The kernel died by a signal.
    Signal,
    /// The kernel exited by itself.
    Exited,
    /// The kernel broke the protocol.
    Protocol,
    /// A user interrupted the execution.
    Interrupt,
    /// The session was reset while the execution ran.
    Reset,
    /// The session was deleted while the execution ran.
    Deleted,
    /// The session's deadline passed while the execution ran.
    Expired,
    /// The session was suspended.
    Suspended,
    /// The daemon is shutting down.
    Draining,
    /// The session's queue was full.
    QueueFull,
    /// A kernel could not be started.
    KernelStart,
    /// The agent is gone or did not answer.
    Agent,
    /// The kernel ended, and nobody saw how.
    Unknown,
    /// It needed approval, and somebody denied it.
    ApprovalDenied,
    /// It needed approval, and nobody decided in time.
    ApprovalTimeout,
    /// The code used up its work (`max_work`).
    WorkLimit,
}

/// Whether variables and modules of the session survived.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum State {
    /// They did.
    Preserved,
    /// The next execution starts from nothing.
    Lost,
}

/// An exception the code did not catch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exception {
    /// The class's name, qualified unless it is a builtin or the user's own.
    #[serde(rename = "type")]
    pub type_name: String,
    /// `str()` of it.
    pub message: String,
    /// As Python prints it, with the user's source lines and none of ours.
    pub traceback: String,
}

/// One representation in a MIME bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MimePart {
    /// Such as `text/plain`.
    pub mime_type: String,
    /// UTF-8 text for text types, raw bytes for others.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}

/// The value of a final expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// `repr()` of it.
    pub repr: String,
    /// Its class's name.
    pub type_name: String,
    /// Its representations.
    pub mime: Vec<MimePart>,
}

/// Something to be shown, in the order in which the code showed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Display {
    /// What to do with it.
    pub kind: DisplayKind,
    /// Which display it is, where the code has named it (IPython's `display_id`).
    pub id: Option<String>,
    /// Its representations.
    pub mime: Vec<MimePart>,
}

/// What to do with a display.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DisplayKind {
    /// Show it.
    Display,
    /// Show it in place of the one with its id.
    Update,
    /// Forget what was shown so far. Has no representations.
    Clear,
    /// An image: a figure that was shown, saved, or left open.
    Image,
    /// A frame of an animation.
    VideoFrame,
}

/// A file that an execution's request named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Its name as in the request.
    pub name: String,
    /// Its size in bytes; 0 if it could not be read.
    pub size_bytes: u64,
    /// Its content, or why there is none.
    pub content: Result<serde_bytes::ByteBuf, String>,
}

/// What an execution used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time of all the session's tenant processes during the execution, in microseconds.
    pub cpu_us: u64,
    /// Highest memory seen, in bytes: of the scope where a memory controller says so, else of
    /// the kernel process (its peak resident set).
    pub memory_peak_bytes: u64,
}

/// What an execution's [`CodePolicy`](crate::message::CodePolicy) noted. The kernel says so: tenant code can forge it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Ticks of tenant code, if they were limited.
    pub work: Option<u64>,
    /// How often each audit event was raised, if they were counted: by name, in order.
    pub audit_events: Option<Vec<(String, u64)>>,
    /// The reprs of what each call of `print` was given.
    pub prints: Vec<Vec<String>>,
}

/// How a kernel process ended, with the evidence for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelEnd {
    /// `exit()` with this code.
    Exited(i32),
    /// Killed by this signal.
    Signaled {
        /// The signal's number.
        signal: i32,
        /// Whether it was the agent that sent it.
        by_agent: bool,
    },
    /// It broke the protocol (what it did), and was killed for it.
    Protocol(String),
    /// It used up its CPU time and was killed for it.
    CpuLimit {
        /// CPU time used, in microseconds.
        used_us: u64,
    },
    /// It could not be started.
    NotStarted(String),
    /// It ended after the template that it was forked from, and the host's kernel is too old to tell
    /// anybody else how.
    Unseen,
}

/// What a kernel did, or what was done to it: "exited with code 1".
impl fmt::Display for KernelEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Signaled { signal, by_agent: false } => {
                write!(f, "was killed by signal {signal}")
            }
            Self::Signaled { by_agent: true, .. } => write!(f, "was killed by the agent"),
            Self::Protocol(what) => write!(f, "broke the protocol ({what})"),
            Self::CpuLimit { used_us } => write!(f, "used {} s of CPU time", used_us / 1_000_000),
            Self::NotStarted(why) => write!(f, "could not be started ({why})"),
            Self::Unseen => write!(f, "ended, and nobody saw how"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_kernel_is_told_in_plain_words() {
        for (end, words) in [
            (KernelEnd::Exited(1), "exited with code 1"),
            (KernelEnd::Signaled { signal: 11, by_agent: false }, "was killed by signal 11"),
            (KernelEnd::Signaled { signal: 9, by_agent: true }, "was killed by the agent"),
            (KernelEnd::Protocol("nonsense".into()), "broke the protocol (nonsense)"),
            (KernelEnd::CpuLimit { used_us: 2_500_000 }, "used 2 s of CPU time"),
            (KernelEnd::NotStarted("no memory".into()), "could not be started (no memory)"),
            (KernelEnd::Unseen, "ended, and nobody saw how"),
        ] {
            assert_eq!(end.to_string(), words);
        }
    }
}
