//! What a template calls that is a program of ours, linked with this library: `vivarium-wasm`. There is nothing of
//! its own to prepare for a fork, as there is of Python's.

use std::io;

use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::message::FromTemplate;
use vivarium_protocol::stream;

use crate::startup;
use crate::sys::{self, SingleThreaded};
use crate::zygote::server::ZygoteServer;

/// Checks that the supervisor, whose version a template is executed with, and this library are of one release.
///
/// # Errors
/// Which versions the two have, if they are not.
pub fn check_protocol(version: u32) -> Result<(), String> {
    startup::check_protocol(version).map_err(|failure| failure.to_string())
}

/// Tells the supervisor at descriptor 3 that there is no template, and why. Nothing is told once
/// [`fork_kernels`] was called.
///
/// # Safety
/// A zygote has executed this process, and nothing else in it uses descriptor 3.
pub unsafe fn unfit(reason: String) {
    // SAFETY: the caller's promise. JUSTIFICATION: an inherited descriptor is a number until somebody owns it.
    if let Some(control) = unsafe { sys::take_python_control() } {
        stream::send_if_open(&control, &FromTemplate::Unfit(reason), MAX_SMALL_FRAME_BYTES);
    }
}

/// Serves as the template whose supervisor is at descriptor 3, and forks kernels. Returns in each of them: confined
/// in its session, with the session's environment, and with the arguments that it would have been executed with, its
/// name the first of them. The template itself ends here, when its supervisor lets go.
///
/// The kernel's signals have their default actions and no alternate stack.
///
/// # Errors
/// If the template cannot begin to serve. In a kernel there is none: one that cannot be confined ends.
///
/// # Safety
/// As of [`unfit`]. In a kernel every descriptor but 0 to 3 is closed, and 0 to 3 are others: what owns one of
/// before must not be used there any more, nor dropped.
pub unsafe fn fork_kernels() -> io::Result<Vec<Vec<u8>>> {
    let thread = SingleThreaded::verify()?;
    // SAFETY: the caller's promise. JUSTIFICATION: as above.
    let control = unsafe { sys::take_python_control() };
    let control = control.ok_or_else(|| io::Error::other("it serves already"))?;
    let server = ZygoteServer::open(control).map_err(io::Error::other)?;
    Ok(server.fork_kernels(thread))
}
