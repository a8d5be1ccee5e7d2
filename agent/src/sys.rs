//! The workspace's `unsafe` code, with its parts and but for the C-ABI edge ([`crate::ffi`]): thin wrappers over system calls that have no safe wrapper in a library we use.
//!
//! Nothing here decides anything. Each block says which invariants hold (SAFETY) and why there
//! is no safe way (JUSTIFICATION). Where a caller has to see to an invariant, its proof is a parameter.
#![allow(unsafe_code)]

mod clone_vm;
mod descriptors;
mod image;
mod memory;
mod process;

use std::ffi::{CString, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

pub(crate) use clone_vm::{continue_in_clone, thread_id_address};
pub(crate) use descriptors::{
    DescriptorTable, HELD_PROGRAM, HeldProgram, open_null, replace, take_python_control,
};
pub(crate) use image::{
    LINE_BYTES, Piece, Reader, Registers, Replacing, STACK_POINTER, Scratch, Sharing, are_zero,
    capture, change_lines, close, exclusive_or_with_memory, forget_changes, fork_reader, heap_end,
    is_zero, lines_in, lines_of, protect, read_memory, read_pieces, read_some, replace_by_file,
    replace_by_zeroes, restore, set_heap_end, set_thread_id, unmap, wait_reader, write_memory,
    write_pieces,
};
pub(crate) use memory::{StartedWith, overwrite_freed_memory};
pub(crate) use process::{
    Ended, Forked, SingleThreaded, Wait, clone3, clone3_sibling, exit_now, exit_status, fork,
    kill_when_readable, pidfd_open, probe_clone, probe_clone3, set_cpu_soft_limit, wait,
};

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A file descriptor that a system call has just returned.
fn owned(result: c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(check(result)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows its number.
    // JUSTIFICATION: there is no other way from a raw system call's result to an OwnedFd.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(crate) fn clear_environment(_: SingleThreaded) -> io::Result<()> {
    // SAFETY: there is no other thread that could read the environment meanwhile.
    // JUSTIFICATION: std::env::remove_var is unsafe as well, and needs the names.
    if unsafe { libc::clearenv() } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the environment, which is empty, to these variables (`NAME=value`): putenv(3).
pub(crate) fn set_environment(_: SingleThreaded, variables: &[CString]) -> io::Result<()> {
    for variable in variables {
        // SAFETY: as of `clear_environment`; libc keeps the string, which is never freed.
        // JUSTIFICATION: std::env::set_var is unsafe as well.
        if unsafe { libc::putenv(variable.clone().into_raw()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// mount_setattr(2): adds `attributes` (`MOUNT_ATTR_*`) to `tree` and, if `recursive`, to all
/// mounts below it.
pub(crate) fn add_mount_attributes(
    tree: BorrowedFd<'_>,
    attributes: u64,
    recursive: bool,
) -> io::Result<()> {
    let change =
        libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the structure is valid for its whole size, the path is a C string.
    // JUSTIFICATION: the new mount API has no safe wrapper.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Brings the interface `lo` of this network namespace up: netdevice(7).
pub(crate) fn bring_loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an ifreq is plain data; all zeroes is a valid one.
    // JUSTIFICATION: libc's type has no other constructor.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *slot = libc::c_char::from_ne_bytes([*byte]);
    }
    request.ifr_ifru.ifru_flags =
        libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which outlives the call.
    // JUSTIFICATION: ioctl has no safe wrapper.
    check(c_long::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request)
    }))
    .map(drop)
}

/// Where in the heap there is nothing yet: what malloc(3) gives from there on is new. sbrk(2),
/// mallinfo2(3).
pub(crate) fn end_of_heap() -> usize {
    // SAFETY: both only read the state of the process and its allocator.
    // JUSTIFICATION: nix has neither.
    let (end, info) = unsafe { (libc::sbrk(0), libc::mallinfo2()) };
    end.addr().saturating_sub(info.keepcost)
}

/// Asks for the memory at `address`, which is this process's own, to be one huge page: madvise(2),
/// MADV_COLLAPSE.
pub(crate) fn collapse(address: usize, bytes: usize) -> io::Result<()> {
    const MADV_COLLAPSE: c_int = 25; // linux/mman.h
    let address = std::ptr::without_provenance_mut(address);
    // SAFETY: the call changes how memory is held and not what is in it, whatever is there.
    // JUSTIFICATION: nix's wrapper is unsafe as well.
    check(c_long::from(unsafe { libc::madvise(address, bytes, MADV_COLLAPSE) })).map(drop)
}

/// Gives every signal its default action back: execve(2) would keep those that are ignored, by
/// Rust's runtime (SIGPIPE) or by who started the daemon (nohup, a shell's `&`).
pub(crate) fn default_signals() -> io::Result<()> {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the default action runs no code of this process.
        // JUSTIFICATION: nix's wrapper is unsafe too, as it may be given a handler.
        let before = unsafe { libc::signal(signal, libc::SIG_DFL) };
        let error = io::Error::last_os_error();
        // EINVAL: SIGKILL, SIGSTOP, and those that libc keeps for itself.
        if before == libc::SIG_ERR && error.kind() != io::ErrorKind::InvalidInput {
            return Err(error);
        }
    }
    Ok(())
}

pub(crate) fn seccomp_mode() -> io::Result<u32> {
    // SAFETY: plain numbers.
    // JUSTIFICATION: nix does not have this prctl.
    let result = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    u32::try_from(check(c_long::from(result))?).map_err(io::Error::other)
}

/// Takes a capability, by its number, out of the calling thread's bounding set: prctl(2),
/// PR_CAPBSET_DROP.
pub(crate) fn drop_from_bounding_set(capability: u8) -> io::Result<()> {
    // SAFETY: plain numbers.
    // JUSTIFICATION: nix does not have this prctl, and caps only for capabilities that it knows.
    let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, c_long::from(capability), 0, 0, 0) };
    check(c_long::from(result)).map(drop)
}

/// Sets the securebits of the calling thread: prctl(2), PR_SET_SECUREBITS.
pub(crate) fn set_securebits(bits: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    // JUSTIFICATION: neither nix nor caps has this prctl.
    let result = unsafe { libc::prctl(libc::PR_SET_SECUREBITS, c_long::from(bits), 0, 0, 0) };
    check(c_long::from(result)).map(drop)
}

pub(crate) fn securebits() -> io::Result<u32> {
    // SAFETY: plain numbers.
    // JUSTIFICATION: neither nix nor caps has this prctl.
    let result = unsafe { libc::prctl(libc::PR_GET_SECUREBITS, 0, 0, 0, 0) };
    u32::try_from(check(c_long::from(result))?).map_err(io::Error::other)
}
