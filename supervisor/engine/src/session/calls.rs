//! Calls out of the sandbox: code calls functions that its client provides, and waits for the answer.
//!
//! They go over two pipes between the kernel and this process, which the agent only hands on. What
//! comes from the kernel is hostile: frames are bounded before they are buffered, what is open is bounded in number
//! and bytes, and the pipes are read no further while the kernel does not read its answers. Whatever else
//! comes over them closes them: the execution goes on without tools. Nothing here ever waits for a kernel.
//!
//! | file | what it holds |
//! |---|---|
//! | [`tool`] | what a client has declared, checked |
//! | [`schema`] | the part of JSON Schema that arguments are checked against |
//! | [`wire`] | the frames on the pipes |
//! | [`arguments`] | the arguments of one, read |
//! | [`answer`] | the answer to one, checked |
//! | [`table`] | the calls of an execution, for whoever answers them |
//! | [`channel`] | the pipes, and the clock of calls: the session's actor's |

pub(crate) mod answer;
mod arguments;
pub(crate) mod channel;
pub(crate) mod schema;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod tool;
pub(crate) mod wire;

/// The most bytes of a call's arguments, and of its answer, as JSON.
pub(crate) const MAX_CALL_BYTES: usize = 1 << 20;

/// How deep arguments and answers may be nested.
pub(crate) const MAX_CALL_DEPTH: usize = 64;

/// The most bytes of the arguments of all calls of an execution that wait at a time. Their events have to find
/// room beside them, or nobody would answer.
pub(crate) const MAX_OPEN_BYTES: usize = 8 << 20;

/// The most calls of an execution that wait at a time.
pub(crate) const MAX_OPEN_CALLS: usize = 64;
