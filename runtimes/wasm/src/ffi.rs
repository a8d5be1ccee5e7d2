//! Maps compiled components, and calls the agent's library. The one place where machine code comes from a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use vivarium_agent::ffi::program;
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

/// See [`program::fork_kernels`]. For `vivarium-wasm template` only.
pub fn fork_kernels() -> io::Result<Vec<Vec<u8>>> {
    // SAFETY: a zygote has executed this process as a template, and in one nothing but the library uses descriptor 3
    // before it is a kernel. What the engine, the component and the store of then own is never used by its
    // descriptor again, nor dropped (`main`, `guest::call`); the standard streams have no owner.
    // JUSTIFICATION: an inherited descriptor is a number until somebody owns it.
    unsafe { program::fork_kernels() }
}

/// See [`program::unfit`]. For `vivarium-wasm template` only.
pub fn refuse(reason: String) {
    // SAFETY, JUSTIFICATION: as above; in a kernel that was forked it does nothing.
    unsafe { program::unfit(reason) }
}
