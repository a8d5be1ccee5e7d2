//! What makes the engine a daemon: the HTTP API, listeners and logs.
//!
//! It must never contain unsafe code, nor decide what a session may do: the engine decides that.

#![forbid(unsafe_code)]

pub mod api;
pub mod dialects;
pub mod doctor;
pub mod listen;
pub mod logging;
mod off_thread;
pub mod shutdown;
pub mod startup;
pub mod tenant_watch;
