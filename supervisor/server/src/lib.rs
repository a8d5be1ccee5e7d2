//! What makes the engine a daemon: the HTTP API, configuration, listeners, privileges and logs.
//!
//! It must never contain unsafe code, nor decide what a session may do: the engine decides that.

#![forbid(unsafe_code)]

pub mod api;
pub mod config;
pub mod doctor;
pub mod listen;
pub mod logging;
pub mod privilege;
pub mod shutdown;
mod suggest;
pub mod tenant_watch;
