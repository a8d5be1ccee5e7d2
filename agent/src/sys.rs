//! The only `unsafe` code of the workspace, with [`rebirth`]: thin wrappers over system calls that
//! have no safe wrapper in a library we use.
//!
//! Nothing here decides anything. Each block says which invariants hold (SAFETY) and why there
//! is no safe way (JUSTIFICATION).
#![allow(unsafe_code)]

mod rebirth;

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::unistd::Pid;

pub(crate) use rebirth::{go_on_as_another, thread_id_address};

/// linux/sched.h; libc's constant of this name has overflowed its type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Turns a system call's result into [`io::Result`].
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

/// A process id that a system call has just returned; `None` is "you are the child".
fn child_or_parent(result: c_long) -> io::Result<Option<Pid>> {
    let pid = c_int::try_from(check(result)?).map_err(io::Error::other)?;
    Ok((pid != 0).then(|| Pid::from_raw(pid)))
}

/// Takes over the descriptor that the supervisor made our control socket: 0, or 3 in a template's
/// Python. To be called once, and first.
pub(crate) fn take_inherited(number: RawFd) -> OwnedFd {
    // SAFETY: called once, before anything else could own it.
    // JUSTIFICATION: an inherited descriptor is a number until somebody owns it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// The text of a C string that a caller by the C ABI gave; empty for a null pointer.
pub(crate) fn c_text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller, our own Python, passes a `bytes` object's data, which ends in NUL and
    // lives for the length of the call.
    // JUSTIFICATION: a pointer is all that the C ABI has.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Closes every descriptor from `first` on: close_range(2).
pub(crate) fn close_from(first: c_uint) -> io::Result<()> {
    // SAFETY: plain numbers. The callers own none of the descriptors it closes: they are what
    // was inherited, or what the process is about to leave behind by execve.
    // JUSTIFICATION: no safe wrapper, as closing what others may own is theirs to break.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, 0) }).map(drop)
}

/// Closes every descriptor from 3 on but these, in a process that was forked and owns no other.
pub(crate) fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<_> = kept.iter().map(|fd| fd.as_raw_fd().cast_unsigned()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept {
        if first < fd {
            // SAFETY: plain numbers; the process was just forked and owns none of what it closes.
            // JUSTIFICATION: as of `close_from`.
            check(unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) })?;
        }
        first = fd + 1;
    }
    close_from(first)
}

/// Empties the environment: clearenv(3). To be called while single-threaded.
pub(crate) fn clear_environment() -> io::Result<()> {
    // SAFETY: the launcher is single-threaded, so nobody reads the environment meanwhile.
    // JUSTIFICATION: std::env::remove_var is unsafe as well, and needs the names.
    if unsafe { libc::clearenv() } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the environment, which is empty, to these variables (`NAME=value`): putenv(3).
pub(crate) fn set_environment(variables: &[CString]) -> io::Result<()> {
    for variable in variables {
        // SAFETY: single-threaded as above; libc keeps the string, which is never freed.
        // JUSTIFICATION: std::env::set_var is unsafe as well.
        if unsafe { libc::putenv(variable.clone().into_raw()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// clone3(2) without shared memory: like `fork`, with namespaces `flags`, and born in `cgroup`
/// (`CLONE_INTO_CGROUP`) if given. `None` in the child.
///
/// The child is a raw clone, so libc's cached thread id is its parent's. Nothing that uses it
/// (`pthread_*`, `raise`) may be called in it.
pub(crate) fn clone3(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Option<Pid>> {
    let born_in = if cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 };
    let cgroup = cgroup.map_or(0, |fd| u64::try_from(fd.as_raw_fd()).unwrap_or(u64::MAX));
    let arguments = libc::clone_args {
        flags: flags | born_in,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup,
    };
    // SAFETY: the structure is valid for its whole size. Without CLONE_VM the child has a copy
    // of everything, as after fork; the callers are single-threaded, so no lock is held.
    // JUSTIFICATION: neither std nor nix has clone3, and only it can put a child into a cgroup.
    child_or_parent(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    })
}

/// fork(2) by libc, so that libc's own state is right in the child. `None` in the child.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the callers are single-threaded, so no lock is held by a thread that is not in
    // the child.
    // JUSTIFICATION: fork is unsafe everywhere, for processes that have threads.
    child_or_parent(c_long::from(unsafe { libc::fork() }))
}

/// Which child to wait for, and whether to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Any child, for as long as it takes.
    ForAny,
    /// Any child that has ended already.
    IfAny,
    /// This child, for as long as it takes.
    For(Pid),
}

/// A child that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    /// Which.
    pub(crate) pid: Pid,
    /// How.
    pub(crate) status: ExitStatus,
    /// CPU time of it and of the children it waited for, in microseconds.
    pub(crate) cpu_us: u64,
    /// The largest resident set of it or of one of those, in bytes.
    pub(crate) memory_peak_bytes: u64,
}

/// wait4(2): the child that ended and how, or `None` if none has yet.
///
/// nix's wrapper fails for a child that a real-time signal killed, for which it has no name,
/// after the kernel has forgotten the child.
pub(crate) fn wait(which: Wait) -> io::Result<Option<Ended>> {
    let (pid, flags) = match which {
        Wait::ForAny => (-1, 0),
        Wait::IfAny => (-1, libc::WNOHANG),
        Wait::For(pid) => (pid.as_raw(), 0),
    };
    let mut status = 0;
    // SAFETY: a rusage is plain numbers; all zeroes is a valid one.
    // JUSTIFICATION: libc's type has no other constructor.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: `status` and `usage` outlive the call, which fills them.
        // JUSTIFICATION: the libraries' wrappers can not tell of every signal.
        let ended = unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) };
        let pid = match check(c_long::from(ended)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            ended => child_or_parent(ended?)?,
        };
        return Ok(pid.map(|pid| Ended {
            pid,
            status: ExitStatus::from_raw(status),
            cpu_us: micros(usage.ru_utime).saturating_add(micros(usage.ru_stime)),
            memory_peak_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
        }));
    }
}

/// A time as the kernel counts, in microseconds.
fn micros(time: libc::timeval) -> u64 {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec).saturating_mul(1_000_000).saturating_add(part(time.tv_usec))
}

/// _exit(2): ends a forked process without what the program does at its end, which is the
/// parent's to do.
pub(crate) fn exit_now(code: c_int) -> ! {
    // SAFETY: no destructor has to run: the kernel takes back everything.
    // JUSTIFICATION: std's exit runs what libc has registered, once for each fork.
    unsafe { libc::_exit(code) }
}

/// pidfd_open(2).
pub(crate) fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    // JUSTIFICATION: no safe wrapper in nix.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) })
}

/// open_tree(2): a detached copy of the mount at `path` and of all below it.
pub(crate) fn open_tree(path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE
        | libc::OPEN_TREE_CLOEXEC
        | libc::AT_RECURSIVE as c_uint
        | libc::AT_SYMLINK_NOFOLLOW as c_uint;
    // SAFETY: `path` is a C string for the length of the call.
    // JUSTIFICATION: the new mount API has no safe wrapper.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })
}

/// move_mount(2): attaches the detached `tree` at `path`, not following a symbolic link.
pub(crate) fn move_mount(tree: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    const MOVE_MOUNT_F_EMPTY_PATH: c_uint = 0x4;
    // SAFETY: `path` and the empty string are C strings for the length of the call.
    // JUSTIFICATION: the new mount API has no safe wrapper.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    })
    .map(drop)
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
        *slot = byte.cast_signed();
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

/// Bytes of the heap that are free and lie between others: mallinfo2(3).
pub(crate) fn gaps_in_heap() -> usize {
    // SAFETY: only reads the allocator's state, and the process has one thread.
    // JUSTIFICATION: nix does not have this call.
    let info = unsafe { libc::mallinfo2() };
    info.fordblks.saturating_sub(info.keepcost)
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

/// Makes `target` another name of what `source` is open on: dup2(2). What `target` was open
/// on is let go of.
pub(crate) fn replace(target: BorrowedFd<'_>, source: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both are open; the owner of `target` keeps owning a valid descriptor.
    // JUSTIFICATION: nix's dup2 wants the target as `&mut OwnedFd`, which a UnixStream hides.
    check(c_long::from(unsafe { libc::dup2(source.as_raw_fd(), target.as_raw_fd()) })).map(drop)
}

/// Puts `fds` at the numbers 0, 1, 2, … and `last` after them, and closes every other descriptor,
/// for an execve that follows at once. Gives `last` at its new place, where it closes with it.
pub(crate) fn place_descriptors(
    fds: &[BorrowedFd<'_>],
    last: BorrowedFd<'_>,
) -> io::Result<OwnedFd> {
    // First all of them above the target range, so that placing one never overwrites another.
    let above = c_int::try_from(fds.len()).map_err(io::Error::other)?.saturating_add(1);
    let mut copies = Vec::with_capacity(fds.len() + 1);
    for fd in fds.iter().chain([&last]) {
        // SAFETY: plain numbers. JUSTIFICATION: nix's wrapper returns what it can not own.
        let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, above) };
        copies.push(c_int::try_from(check(c_long::from(copy))?).map_err(io::Error::other)?);
    }
    for (target, copy) in (0..).zip(copies) {
        let flags = if target + 1 == above { libc::O_CLOEXEC } else { 0 };
        // SAFETY: plain numbers; what stood at `target` is replaced on purpose, as the process
        // is about to become another program.
        // JUSTIFICATION: a safe dup3 needs an OwnedFd of the target, which nobody has.
        check(c_long::from(unsafe { libc::dup3(copy, target, flags) }))?;
    }
    close_from(c_uint::try_from(above).map_err(io::Error::other)?)?;
    owned(c_long::from(above - 1))
}

/// Gives every signal its default action back: execve(2) would keep those that are ignored, by
/// Rust's runtime (SIGPIPE) or by who started the daemon (nohup, a shell's `&`).
pub(crate) fn default_signals() -> io::Result<()> {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: no handler is installed, and the process has one thread.
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

/// Sets the soft limit of CPU seconds of another process: prlimit(2). The hard limit stays.
pub(crate) fn set_cpu_soft_limit(pid: Pid, seconds: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call, which fills it.
    // JUSTIFICATION: nix's setrlimit changes the calling process only.
    check(c_long::from(unsafe {
        libc::prlimit(pid.as_raw(), libc::RLIMIT_CPU, std::ptr::null(), &raw mut limit)
    }))?;
    limit.rlim_cur = seconds.min(limit.rlim_max);
    // SAFETY: as above; this call only reads the structure.
    // JUSTIFICATION: as above.
    check(c_long::from(unsafe {
        libc::prlimit(pid.as_raw(), libc::RLIMIT_CPU, &raw const limit, std::ptr::null_mut())
    }))
    .map(drop)
}

/// Takes ownership of descriptors that recvmsg(2) has just put into this process.
pub(crate) fn own_received(fds: &[RawFd]) -> Vec<OwnedFd> {
    fds.iter()
        // SAFETY: the caller passes numbers that SCM_RIGHTS has just made, known to nobody else.
        // JUSTIFICATION: nix hands them out as plain numbers.
        .map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) })
        .collect()
}

/// Sets the securebits of the calling thread: prctl(2), PR_SET_SECUREBITS.
pub(crate) fn set_securebits(bits: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    // JUSTIFICATION: neither nix nor caps has this prctl.
    let result = unsafe { libc::prctl(libc::PR_SET_SECUREBITS, c_long::from(bits), 0, 0, 0) };
    check(c_long::from(result)).map(drop)
}

/// The securebits of the calling thread: prctl(2), PR_GET_SECUREBITS.
pub(crate) fn securebits() -> io::Result<u32> {
    // SAFETY: plain numbers.
    // JUSTIFICATION: neither nix nor caps has this prctl.
    let result = unsafe { libc::prctl(libc::PR_GET_SECUREBITS, 0, 0, 0, 0) };
    u32::try_from(check(c_long::from(result))?).map_err(io::Error::other)
}

/// clone3(2) with arguments that no kernel accepts: makes no process, and tells by its error
/// whether the call got as far as the kernel's own code (EINVAL).
pub(crate) fn probe_clone3() -> io::Error {
    // SAFETY: a null structure of size 0 is refused before it is read.
    // JUSTIFICATION: no safe wrapper for a call that is meant to fail.
    match check(unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<libc::clone_args>(), 0) })
    {
        Ok(_) => io::Error::other("clone3 accepted no arguments"),
        Err(error) => error,
    }
}
