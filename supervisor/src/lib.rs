//! The supervisor: HTTP, sessions, cgroups, configuration and the command line.
//!
//! It is trusted, runs as an ordinary user, and never runs tenant code itself: it only executes
//! `vivarium-agent`. It must never contain unsafe code, believe a kernel, or fork itself.

#![forbid(unsafe_code)]

pub mod api;
pub mod backend;
mod backoff;
pub mod bench;
pub mod budget;
pub mod cgroup;
pub mod chain;
pub mod cli;
pub mod client;
pub mod config;
mod descriptors;
pub mod doctor;
pub mod engine;
mod hear;
pub mod listen;
pub mod logging;
pub mod media;
pub mod memory;
pub mod observe;
pub mod pool;
pub mod privilege;
pub mod recover;
pub mod session;
pub mod settings;
pub mod shutdown;
pub mod template;
pub mod tenant;
