//! The audit log: who had what executed, with what result, and what administrators did.
//!
//! A log is a directory of files of JSON lines. Each line has the hash of the one before it, so that
//! a line that was changed, removed or moved shows ([`verify()`]). One thread writes ([`AuditLog`]);
//! callers hand it events and never wait for a disk, unless they ask to.
//!
//! It must never block the runtime, lose an event without saying so, or write a secret. What tenants
//! choose (ids, code) must never make a second line of one.

#![forbid(unsafe_code)]

mod chain;
mod csv;
mod event;
mod line;
mod log;
mod open;
mod read;
mod settings;
mod store;
mod unended;
mod verify;
mod writer;

pub use chain::{GENESIS, Hash, HashError, Head};
pub use csv::csv;
pub use event::{
    AdminAct, ApprovalAsked, ApprovalEnded, BreakRecord, CAPTURE_BYTES, Captured, EgressCounts,
    EgressDecision, EnvironmentChange, Event, ExecutionEnded, ExecutionStarted, ImageChange,
    Previous, SessionCreated, SessionEnded, StoreChange, ToolCall, Usage, WorkHash,
};
pub use log::{AuditLog, Unavailable, Written};
pub use open::OpenError;
pub use read::{Filter, Follow, ReadError, read};
pub use settings::{Fsync, OnFull, Settings};
pub use verify::{Break, Report, Verifier, VerifyError, verify};
