//! Maps compiled components. The one place where machine code comes from a file.

use std::fs::File;
use std::os::fd::AsRawFd;

use wasmtime::component::Component;
use wasmtime::{Engine, Result};

/// Maps a compiled component. The caller has made sure that only root or the daemon's user can have
/// written what `file` is.
pub fn load(engine: &Engine, file: &File) -> Result<Component> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the file holds what Component::serialize made, and nobody rewrites it while it is mapped:
    // `component::open` has checked its owner and mode on this very descriptor, or the supervisor has; it
    // is replaced by rename only. Wasmtime checks version, features and CPU.
    // JUSTIFICATION: compiling 28 MB in each session takes seconds.
    unsafe { Component::deserialize_file(engine, path) }
}
