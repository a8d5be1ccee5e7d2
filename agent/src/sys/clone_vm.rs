//! Continuing in a clone: what setns(2) with a pid namespace and `CLONE_INTO_CGROUP` do for a child, for
//! the caller itself.
//!
//! A child that shares the caller's memory (`CLONE_VM`) continues where the caller was, once the
//! caller has ended without touching that memory again. So nothing is copied, however large the process
//! is; clone(2), clone3(2). A part of [`super`], where unsafe code may stand.

use std::arch::asm;
use std::ffi::{c_int, c_long, c_uint};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::SigSet;
use nix::unistd::Pid;

use super::check;
use super::process::{CLONE_INTO_CGROUP, NO_CLONE_ARGUMENTS, SingleThreaded};

/// Continues the calling process in a clone: in the pid namespace that was joined for its children, in
/// `cgroup` if given, with the caller's parent as its parent. Returns, in the clone, its pid in the
/// caller's pid namespace; the caller has ended with exit code 0.
///
/// Blocks all signals, as a handler would run on a stack that is the clone's by then. libc must have
/// forked the calling process. After an error that process has to end, as libc's state in the kernel is
/// unregistered by then. Where the kernel has no [`thread_id_address`], libc takes the thread for the
/// caller's until it executes a program.
pub(crate) fn continue_in_clone(
    _: SingleThreaded,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Pid> {
    SigSet::all().thread_block()?;
    // The kernel writes 0 there when the caller can not come back to this memory.
    let is_there = AtomicU32::new(1);
    let libc_state = LibcState::unregister(&is_there)?;
    let (into_cgroup, cgroup) = match cgroup {
        Some(fd) => (CLONE_INTO_CGROUP, u64::try_from(fd.as_raw_fd()).unwrap_or(u64::MAX)),
        None => (0, 0),
    };
    let flags = libc::CLONE_VM
        | libc::CLONE_PARENT
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    let mut pid: c_int = 0;
    let arguments = libc::clone_args {
        flags: u64::from(flags.cast_unsigned()) | into_cgroup,
        child_tid: libc_state.thread_id_address,
        // Written before the child runs, which finds it there.
        parent_tid: (&raw mut pid).expose_provenance() as u64,
        exit_signal: 0, // the caller's own, as of CLONE_PARENT
        stack: 0,       // the caller's own, which does not use it any more
        cgroup,
        ..NO_CLONE_ARGUMENTS
    };
    clone_and_exit(&arguments)?;
    // Until then the caller would run what is in this memory, which will be tenant code's, with the
    // caller's rights.
    while is_there.load(Ordering::Acquire) != 0 {
        // SAFETY: the word outlives the call.
        // JUSTIFICATION: libc has no wrapper of this call.
        let waited = check(unsafe {
            libc::syscall(libc::SYS_futex, is_there.as_ptr(), libc::FUTEX_WAIT, 1, null::<()>())
        });
        // The caller may have ended meanwhile (EAGAIN), which the loop finds.
        if waited.is_err() {
            std::thread::yield_now();
        }
    }
    libc_state.register()?;
    // SAFETY: `pid` lives until the end of this function.
    // JUSTIFICATION: the kernel has written it, which the compiler does not know.
    Ok(Pid::from_raw(unsafe { std::ptr::read_volatile(&raw const pid) }))
}

/// The addresses of the main thread's state that libc has registered with the kernel, which writes there
/// as the process ends, when the memory is the clone's.
struct LibcState {
    /// Where libc keeps the thread's id: set_tid_address(2).
    thread_id_address: u64,
    /// get_robust_list(2).
    robust_list: (usize, usize),
    /// rseq(2): where, and how many bytes; `None` if libc has none.
    rseq: Option<(usize, c_uint)>,
}

impl LibcState {
    /// Has the kernel forget it, and set `is_there` to 0 as this process ends.
    fn unregister(is_there: &AtomicU32) -> io::Result<Self> {
        // linux/rseq.h
        const RSEQ_FLAG_UNREGISTER: c_int = 1;
        let (head, len) = robust_list()?;
        let thread_id_address = thread_id_address().unwrap_or(0);
        // SAFETY: the word is written to only while this memory is the clone's too, which waits for it.
        // JUSTIFICATION: libc has no wrapper of this call.
        check(unsafe { libc::syscall(libc::SYS_set_tid_address, is_there.as_ptr()) })?;
        // SAFETY: nothing is written to a null address.
        // JUSTIFICATION: as above.
        check(unsafe { libc::syscall(libc::SYS_set_robust_list, null::<c_int>(), len) })?;
        // An area that is not registered as we think is not ours to register again.
        let rseq = rseq().filter(|area| register_rseq(*area, RSEQ_FLAG_UNREGISTER).is_ok());
        Ok(Self { thread_id_address, robust_list: (head, len), rseq })
    }

    /// Registers it for the clone, whose thread id the kernel has from clone3(2).
    fn register(&self) -> io::Result<()> {
        let (head, len) = self.robust_list;
        // SAFETY: libc's own list, where it was before.
        // JUSTIFICATION: libc has no wrapper of this call.
        check(unsafe { libc::syscall(libc::SYS_set_robust_list, head, len) })?;
        self.rseq.map_or(Ok(()), |area| register_rseq(area, 0))
    }
}

/// Where libc keeps the id of the calling thread: prctl(2), PR_GET_TID_ADDRESS, which only kernels
/// with CONFIG_CHECKPOINT_RESTORE have.
pub(crate) fn thread_id_address() -> io::Result<u64> {
    let mut address: usize = 0;
    // SAFETY: `address` outlives the call, which fills it.
    // JUSTIFICATION: nix does not have this prctl.
    check(c_long::from(unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut address) }))?;
    Ok(address as u64)
}

fn robust_list() -> io::Result<(usize, usize)> {
    let (mut head, mut len): (usize, usize) = (0, 0);
    // SAFETY: both outlive the call, which fills them.
    // JUSTIFICATION: libc has no wrapper of this call.
    check(unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut len) })?;
    Ok((head, len))
}

/// Where libc has registered restartable sequences, and how many bytes: symbols of glibc 2.35, so
/// they are looked for and not linked with.
fn rseq() -> Option<(usize, c_uint)> {
    /// What it registers at least (glibc, "Restartable Sequences").
    const LEAST_BYTES: c_uint = 32;
    // SAFETY: the names are C strings; what they name is what glibc's manual says, constants that
    // are set before any code of ours runs.
    // JUSTIFICATION: a symbol that may be missing is found in no other way.
    let (offset, size) = unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<c_uint>();
        (offset.as_ref().copied()?, size.as_ref().copied()?)
    };
    (size > 0).then(|| (thread_pointer().wrapping_add_signed(offset), size.max(LEAST_BYTES)))
}

fn register_rseq((address, bytes): (usize, c_uint), flags: c_int) -> io::Result<()> {
    /// `RSEQ_SIG` of glibc's sys/rseq.h.
    #[cfg(target_arch = "aarch64")]
    const SIGNATURE: c_uint = 0xd428_bc00;
    #[cfg(not(target_arch = "aarch64"))]
    const SIGNATURE: c_uint = 0x5305_3053;
    // SAFETY: libc's own area, which stays where it is.
    // JUSTIFICATION: libc has no wrapper of this call.
    check(unsafe { libc::syscall(libc::SYS_rseq, address, bytes, flags, SIGNATURE) }).map(drop)
}

/// Where the calling thread's own memory is.
#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the first word there is its own address (System V ABI, x86-64 supplement for TLS).
    // JUSTIFICATION: no intrinsic is stable.
    unsafe { asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

/// Where the calling thread's own memory is.
#[cfg(target_arch = "aarch64")]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    // JUSTIFICATION: no intrinsic is stable.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags))
    };
    pointer
}

/// clone3(2), after which the child returns, and the caller only if there is none.
#[cfg(target_arch = "x86_64")]
fn clone_and_exit(arguments: &libc::clone_args) -> io::Result<()> {
    let result: c_long;
    // SAFETY: the structure is valid for its whole size. Caller and child have memory and stack in
    // common: from the call on the caller uses registers only, and ends.
    // JUSTIFICATION: compiled code would use the stack.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jle 2f",
            "xor edi, edi",
            "mov eax, {exit_group}",
            "syscall",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") std::ptr::from_ref(arguments),
            in("rsi") size_of::<libc::clone_args>(),
            lateout("rcx") _,
            lateout("r11") _,
            exit_group = const libc::SYS_exit_group,
            options(nostack),
        );
    }
    failed_call(result)
}

/// clone3(2), after which the child returns, and the caller only if there is none.
#[cfg(target_arch = "aarch64")]
fn clone_and_exit(arguments: &libc::clone_args) -> io::Result<()> {
    let result: c_long;
    // SAFETY: as above.
    // JUSTIFICATION: as above.
    unsafe {
        asm!(
            "svc #0",
            "cmp x0, #0",
            "b.le 2f",
            "mov x0, #0",
            "mov x8, #{exit_group}",
            "svc #0",
            "brk #1",
            "2:",
            in("x8") libc::SYS_clone3,
            inlateout("x0") std::ptr::from_ref(arguments) => result,
            in("x1") size_of::<libc::clone_args>(),
            exit_group = const libc::SYS_exit_group,
            options(nostack),
        );
    }
    failed_call(result)
}

/// An error as the kernel returns it: a negative number.
fn failed_call(result: c_long) -> io::Result<()> {
    if result == 0 {
        return Ok(());
    }
    let number = c_int::try_from(result.saturating_neg()).map_err(io::Error::other)?;
    Err(io::Error::from_raw_os_error(number))
}
