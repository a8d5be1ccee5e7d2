//! The configuration, which becomes the settings of an engine.

#![forbid(unsafe_code)]

mod config;
pub mod suggest;

pub use config::*;
