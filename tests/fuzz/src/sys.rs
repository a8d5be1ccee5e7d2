//! What the parsers use of the agent's system calls.

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Registers(pub(crate) [u64; 32]);
