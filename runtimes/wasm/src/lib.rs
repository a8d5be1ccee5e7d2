//! CPython in WebAssembly as the kernel of a session: the engine, what it gives to the guest, and what it
//! takes from the host.
//!
//! A process is executed for one session, or is a template, in which an instance has begun and waits: then each
//! of its forks gets a session ([`session`]).
//!
//! The guest reaches the directories that it is given, the clocks, random numbers, its output and the
//! control socket. It must never get a socket, a thread or another file.

#![deny(unsafe_code)]

pub mod component;
#[allow(unsafe_code)]
mod ffi;
mod filter;
pub mod guest;
mod imports;
#[cfg(feature = "compile")]
pub mod program;
pub mod session;
#[allow(unsafe_code)]
mod signals;
mod streams;

use std::io;

use wasmtime::{Config, Engine, Result};

/// What the guest may recurse into. CPython raises RecursionError when 1 MiB of the guest's own stack is used, and nested
/// data takes some 60 times as much of this one. It is memory only where it was used.
const STACK_BYTES: usize = 128 << 20;

/// Has this process end with its control socket, and forbids it what it needs only to start.
///
/// # Errors
/// If descriptor 3 is no socket, or no filter can be added.
pub fn confine() -> io::Result<()> {
    signals::end_with_control()?;
    filter::install()
}

/// Forbids this process to start another, as [`confine`] does, where no control socket is to end it.
///
/// # Errors
/// If no filter can be added.
pub fn confine_program() -> io::Result<()> {
    filter::install()
}

/// The engine, configured as the one that compiled the component.
///
/// # Errors
/// If this host cannot run what the engine compiles.
pub fn engine() -> Result<Engine> {
    let mut config = Config::new();
    config.max_wasm_stack(STACK_BYTES);
    config.async_stack_size(STACK_BYTES + (1 << 20));
    // CPython calls by pointer all the time, and would ask each time whether the pointer is there.
    config.table_lazy_init(false);
    Engine::new(&config)
}
