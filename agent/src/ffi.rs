//! The C-ABI edge: what a template's Python calls of this library, by ctypes.
//!
//! Thin: each function takes and gives numbers or a string, and does one thing of [`crate::zygote`].
//! The calls come in this order and in no other: `serve`; if that says so, a fork, after which the
//! parent calls `forked` and `serve` again, and the child `begin_kernel` and `become_kernel`.
//!
//! A function that takes the supervisor's socket is unsafe: only Python that a zygote has executed has one,
//! at descriptor 3, which only this library may use. [`work`] has what Python calls for each tick of work, and
//! [`program`] what a template calls that is no Python.
#![allow(unsafe_code)] // for `no_mangle`, which vouches that no other symbol has the name, and callers' promises

pub mod program;
pub mod work;

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::unistd::Pid;
use vivarium_protocol::stream;

use crate::image;
use crate::sys::{self, SingleThreaded};
use crate::zygote::forked_child::ForkedChild;
use crate::zygote::pages;
use crate::zygote::server::{ServeOutcome, ZygoteServer};

/// `serve`: the supervisor closed its socket.
const OVER: c_int = 0;
/// `serve`: the caller has to fork.
const TO_FORK: c_int = 1;
/// `serve`: a system call failed.
const FAILED: c_int = -1;

/// The server, between two calls.
static SERVER: Mutex<Option<ZygoteServer>> = Mutex::new(None);

/// The process that was forked, between its two calls.
static FORKED: Mutex<Option<ForkedChild>> = Mutex::new(None);

fn forked_child() -> MutexGuard<'static, Option<ForkedChild>> {
    FORKED.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    unsafe { program::unfit(reason) };
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

/// In the process that was forked: closes what is the template's. Returns 1 if nobody waits for its session yet, else 0. Ends the
/// process if it can not.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_template_begin_kernel() -> c_int {
    match server().take().and_then(ZygoteServer::into_forked_child) {
        Some(child) => {
            let is_ahead = child.is_ahead();
            *forked_child() = Some(child);
            c_int::from(is_ahead)
        }
        None => sys::exit_now(1),
    }
}

/// After that: becomes a session's kernel, confined, once it has a session. Ends the process if it can not.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_template_become_kernel() {
    let child = forked_child().take();
    match child {
        Some(child) => drop(child.become_kernel()),
        None => sys::exit_now(1),
    }
}

/// In a template, after its imports: takes what is free between objects in the pools of Python's allocator, whose
/// `PyObject_Malloc` and `PyObject_Free` these are. The caller holds Python's lock.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_template_fill_pools(
    allocate: extern "C" fn(usize) -> *mut c_void,
    free: extern "C" fn(*mut c_void),
) {
    let address = |bytes| allocate(bytes).expose_provenance();
    pages::fill_pools(address, |block| free(ptr::with_exposed_provenance_mut(block)));
}

/// In a template, after its imports: puts its memory into a file that its kernels share, without which
/// they can not be saved. Returns 0, or an error number.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_image_share_memory() -> c_int {
    let shared = SingleThreaded::verify().and_then(|thread| {
        // Before, or every image would have the pages that this writes to.
        pages::fill_gaps();
        image::share_memory(thread)
    });
    shared.map_or_else(|error| error_number(&error), |()| 0)
}

/// Receives a byte of a socket, and the descriptor that comes with it: that, or a negative number.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_image_receive(socket: c_int) -> c_int {
    // SAFETY: a number that is no descriptor's is an error of recvmsg(2), for the length of this call.
    // JUSTIFICATION: Python has descriptors as numbers.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    match stream::recv_all(socket, &mut [0]) {
        Ok(mut descriptors) => descriptors.pop().map_or(FAILED, IntoRawFd::into_raw_fd),
        Err(_) => FAILED,
    }
}

/// In a kernel: whether its memory could be saved now. Returns 0, or a negative number, with the reason in `reason`.
///
/// # Safety
/// `reason_bytes` bytes of `reason` are to be written to.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vivarium_image_check(reason: *mut c_char, reason_bytes: usize) -> c_int {
    // SAFETY: the caller's promise. JUSTIFICATION: as above.
    let reason = unsafe { std::slice::from_raw_parts_mut(reason.cast::<u8>(), reason_bytes) };
    image::check().map_or_else(|error| write_reason(&error.to_string(), reason), |()| 0)
}

/// In a kernel: writes the session's files, those beneath each of `roots`: paths that each end with NUL, and an
/// empty one. Returns 0, or a negative number, with the reason in `reason`.
///
/// # Safety
/// `roots` is such a list, and `reason_bytes` bytes of `reason` are to be written to.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vivarium_image_save_files(
    to: c_int,
    roots: *const c_char,
    reason: *mut c_char,
    reason_bytes: usize,
) -> c_int {
    // SAFETY: the caller's promise. JUSTIFICATION: as above.
    let reason = unsafe { std::slice::from_raw_parts_mut(reason.cast::<u8>(), reason_bytes) };
    let mut paths = Vec::new();
    let mut rest = roots;
    loop {
        // SAFETY: the caller's promise: another string follows each but the empty one. JUSTIFICATION: as above.
        let path = unsafe { CStr::from_ptr(rest) };
        if path.is_empty() {
            break;
        }
        // SAFETY: the caller's promise. JUSTIFICATION: as above.
        rest = unsafe { rest.add(path.count_bytes() + 1) };
        paths.push(Path::new(OsStr::from_bytes(path.to_bytes())));
    }
    // SAFETY: a number that is no descriptor's is an error of write(2), for the length of this call.
    // JUSTIFICATION: Python has descriptors as numbers.
    let to = unsafe { BorrowedFd::borrow_raw(to) };
    image::save_files(&paths, to)
        .map_or_else(|error| write_reason(&error.to_string(), reason), |()| 0)
}

/// In a kernel: begins to write its memory to the descriptor `to`. Returns the pid of the child that
/// writes, for [`vivarium_image_wait`]; 0 in another process, into which the image was loaded, with what that
/// answers under in `number`; or a negative number, with the reason in `reason`.
///
/// # Safety
/// `number` is to be written to, and so are `reason_bytes` bytes of `reason`.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vivarium_image_save(
    to: c_int,
    number: *mut u64,
    reason: *mut c_char,
    reason_bytes: usize,
) -> c_int {
    // SAFETY: the caller's promise. JUSTIFICATION: as above.
    let reason = unsafe { std::slice::from_raw_parts_mut(reason.cast::<u8>(), reason_bytes) };
    // SAFETY: a number that is no descriptor's is an error of write(2), for the length of this call.
    // JUSTIFICATION: Python has descriptors as numbers.
    let to = unsafe { BorrowedFd::borrow_raw(to) };
    let saved = match SingleThreaded::verify() {
        Ok(thread) => image::save(thread, to).map_err(|error| error.to_string()),
        Err(error) => Err(format!("it has more than one thread: {error}")),
    };
    match saved {
        Ok(image::Saved::By(child)) => child.as_raw(),
        Ok(image::Saved::Resumed(answers)) => {
            // SAFETY: the caller's promise. JUSTIFICATION: as above.
            unsafe { *number = answers };
            0
        }
        Err(why) => write_reason(&why, reason),
    }
}

/// Waits for the child that writes an image: 0 if it is whole.
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub extern "C" fn vivarium_image_wait(child: c_int) -> c_int {
    sys::wait_reader(Pid::from_raw(child)).unwrap_or(-1)
}

/// In a kernel: puts the files of the image that the descriptor `from` gives in their places, and becomes the
/// process that it is of, which goes on in
/// [`vivarium_image_save`] and answers under `number`. Returns only if it can not, with a negative number
/// and the reason.
///
/// # Safety
/// As of [`vivarium_image_save`].
// SAFETY, JUSTIFICATION: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vivarium_image_load(
    from: c_int,
    number: u64,
    reason: *mut c_char,
    reason_bytes: usize,
) -> c_int {
    // SAFETY: the caller's promise. JUSTIFICATION: as above.
    let reason = unsafe { std::slice::from_raw_parts_mut(reason.cast::<u8>(), reason_bytes) };
    // SAFETY: a number that is no descriptor's is an error of read(2), for the length of this call.
    // JUSTIFICATION: Python has descriptors as numbers.
    let from = unsafe { BorrowedFd::borrow_raw(from) };
    let why = match SingleThreaded::verify() {
        Ok(thread) => image::load(thread, from, number).to_string(),
        Err(error) => format!("it has more than one thread: {error}"),
    };
    write_reason(&why, reason)
}

fn error_number(error: &std::io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Writes a C string, cut if it is too long. Returns what says that there is one.
fn write_reason(why: &str, reason: &mut [u8]) -> c_int {
    let room = reason.len().saturating_sub(1);
    for (slot, byte) in reason.iter_mut().zip(why.bytes().take(room).chain([0])) {
        *slot = byte;
    }
    FAILED
}
