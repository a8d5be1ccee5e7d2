//! The C-ABI edge: what a template's Python calls of this library, by ctypes.
//!
//! Thin: each function takes and gives numbers or a string, and does one thing of [`crate::zygote`].
//! The calls come in this order and in no other: `serve`; if that says so, a fork, after which the
//! parent calls `forked` and `serve` again, and the child `become_kernel`.
#![allow(unsafe_code)] // for `no_mangle`, which vouches that no other symbol has the name, and a pointer

use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::message::FromTemplate;
use vivarium_protocol::stream;

use crate::sys;
use crate::sys::Inherited;
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
/// `reason` is a C string that lives for the length of the call.
// SAFETY, JUSTIFICATION: of `no_mangle`, as below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vivarium_template_unfit(reason: *const c_char) {
    // SAFETY: the caller's promise, which template.py keeps: it passes a `bytes` object's data.
    // JUSTIFICATION: a pointer is all that the C ABI has.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
    if let Some(control) = sys::take_inherited(Inherited::PythonControl) {
        stream::send_if_open(&control, &FromTemplate::Unfit(reason), MAX_SMALL_FRAME_BYTES);
    }
}

/// Serves as a template whose supervisor is at descriptor 3, until that lets go (0), the process is
/// to be forked (1), or the system fails it (-1).
// SAFETY: the name has our prefix, and nothing else in a Python process has.
// JUSTIFICATION: ctypes finds functions by their names.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_template_serve() -> c_int {
    let mut server = server();
    if server.is_none() {
        let control = sys::take_inherited(Inherited::PythonControl);
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
        Some(child) => child.become_kernel(),
        None => sys::exit_now(1),
    }
}
