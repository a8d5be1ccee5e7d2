//! The C-ABI edge: what a template's Python calls of this library, by ctypes.
//!
//! Thin: each function takes and gives numbers or a string, and does one thing of [`crate::zygote`].
//! The calls come in this order and in no other: `serve`; if that says so, a fork, after which the
//! parent calls `forked` and `serve` again, and the child `become_kernel`.
//!
//! A function that takes the supervisor's socket is unsafe: only Python that a zygote has executed has one,
//! at descriptor 3, which only this library may use.
#![allow(unsafe_code)] // for `no_mangle`, which vouches that no other symbol has the name, and callers' promises

use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::message::FromTemplate;
use vivarium_protocol::stream;

use crate::sys;
use crate::zygote::server::{ServeOutcome, ZygoteServer};

/// `serve`: the supervisor closed its socket.
const OVER: c_int = 0;
/// `serve`: the caller has to fork.
const TO_FORK: c_int = 1;
/// `serve`: a system call failed.
const FAILED: c_int = -1;

/// The server, between two calls.
static SERVER: Mutex<Option<ZygoteServer>> = Mutex::new(None);

fn server() -> MutexGuard<'static, Option<ZygoteServer>> {
    SERVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the supervisor at descriptor 3 that there is no template, and why.
///
/// # Safety
/// `reason` is a C string that lives for the length of the call. A zygote has executed this process.
// SAFETY, JUSTIFICATION: of `no_mangle`, as below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vivarium_template_unfit(reason: *const c_char) {
    // SAFETY: the caller's promise, which template.py keeps: it passes a `bytes` object's data.
    // JUSTIFICATION: a pointer is all that the C ABI has.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
    // SAFETY: the caller's promise: template.py is executed by the zygote only, and does not touch descriptor 3.
    // JUSTIFICATION: an inherited descriptor is a number until somebody owns it.
    if let Some(control) = unsafe { sys::take_python_control() } {
        stream::send_if_open(&control, &FromTemplate::Unfit(reason), MAX_SMALL_FRAME_BYTES);
    }
}

/// Serves as a template whose supervisor is at descriptor 3, until that lets go (0), the process is
/// to be forked (1), or the system fails it (-1).
///
/// # Safety
/// A zygote has executed this process.
// SAFETY: the name has our prefix, and nothing else in a Python process has.
// JUSTIFICATION: ctypes finds functions by their names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vivarium_template_serve() -> c_int {
    let mut server = server();
    if server.is_none() {
        // SAFETY: as above.
        // JUSTIFICATION: as above.
        let control = unsafe { sys::take_python_control() };
        *server = control.and_then(|control| ZygoteServer::open(control).ok());
    }
    match server.as_mut().map(ZygoteServer::serve) {
        Some(Ok(ServeOutcome::Closed)) => OVER,
        Some(Ok(ServeOutcome::Fork)) => TO_FORK,
        Some(Err(_)) | None => FAILED,
    }
}

/// In the process that forked: `pid` is the other's, or, if it is negative, an error number.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_template_forked(pid: c_int) {
    match server().as_mut() {
        Some(server) if pid > 0 => server.forked(),
        Some(server) => {
            server.fork_failed(std::io::Error::from_raw_os_error(pid.saturating_neg()));
        }
        None => {}
    }
}

/// In the process that was forked: becomes a session's kernel, confined. Ends the process if it
/// can not.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_template_become_kernel() {
    match server().take().and_then(ZygoteServer::into_forked_child) {
        Some((child, table)) => child.become_kernel(table),
        None => sys::exit_now(1),
    }
}
