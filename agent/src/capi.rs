//! The C-ABI edge: what a template's Python calls of this library, by ctypes.
//!
//! Thin: each function takes and gives numbers or a string, and does one thing of [`crate::template`].
//! The calls come in this order and in no other: `serve`, in the one process; then, in each process
//! that comes back from it, `forked` in the parent of a fork and `become_kernel` in the child.
#![allow(unsafe_code)] // for `no_mangle`, which vouches that no other symbol has the name

use std::ffi::{c_char, c_int};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use nix::unistd::Pid;
use vivarium_protocol::frame::MAX_SMALL_FRAME_BYTES;
use vivarium_protocol::message::FromTemplate;

use crate::template::newborn::Newborn;
use crate::template::nursery::{Left, Nursery};
use crate::{stream, sys};

/// The loop was left because the supervisor let go.
const OVER: c_int = 0;
/// This is a process that has joined a session and is to fork.
const ENTERED: c_int = 1;
/// The template can not go on.
const FAILED: c_int = -1;

/// What this process is to be, between two calls.
static NEWBORN: Mutex<Option<Newborn>> = Mutex::new(None);

fn take() -> Option<Newborn> {
    NEWBORN.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Tells the supervisor at descriptor 3 that there is no template, for the reason that `reason`
/// points to, a C string.
// SAFETY, JUSTIFICATION: of `no_mangle`, as below.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_template_unfit(reason: *const c_char) {
    let control = UnixStream::from(sys::take_inherited(3));
    let unfit = FromTemplate::Unfit(sys::c_text(reason));
    // A supervisor that is gone needs no telling.
    let _gone = stream::send(&control, &unfit, MAX_SMALL_FRAME_BYTES).is_err();
}

/// Serves as a template whose supervisor is at descriptor 3, until that lets go (0), this is a
/// process that is to fork a kernel (1), or the system fails it (-1).
// SAFETY: the name has our prefix, and nothing else in a Python process has.
// JUSTIFICATION: ctypes finds functions by their names.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_template_serve() -> c_int {
    let control = UnixStream::from(sys::take_inherited(3));
    let left = Nursery::open(control).and_then(|mut nursery| {
        let left = nursery.serve();
        // In a process that was forked its descriptors are closed with all others, later.
        std::mem::forget(nursery);
        left
    });
    match left {
        Ok(Left::Over) => OVER,
        Ok(Left::AsEntrant(entrant)) => {
            let newborn = entrant.enter();
            NEWBORN.lock().unwrap_or_else(PoisonError::into_inner).replace(newborn);
            ENTERED
        }
        Err(_) => FAILED,
    }
}

/// In the process that forked: `pid` is the kernel, or, if it is negative, an error number. Never
/// returns.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_template_forked(pid: c_int) {
    match take() {
        Some(newborn) if pid > 0 => newborn.forked(Pid::from_raw(pid)),
        Some(newborn) => {
            let reason = std::io::Error::from_raw_os_error(pid.saturating_neg());
            newborn.not_forked(&reason.to_string())
        }
        None => sys::exit_now(1),
    }
}

/// In the process that was forked: becomes the kernel, confined. Ends the process if it can not.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_template_become_kernel() {
    match take() {
        Some(newborn) => newborn.confine(),
        None => sys::exit_now(1),
    }
}
