//! Making, awaiting and ending processes. A part of [`super`], where unsafe code may stand.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::sched::CloneFlags;
use nix::unistd::Pid;

use super::{DescriptorTable, check, owned};

/// linux/sched.h; libc's constant of this name has overflowed its type.
pub(super) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// asm-generic/fcntl.h; libc does not name it.
const F_SETSIG: c_int = 10;

/// Proof that the calling process has one thread, so that no other holds a lock or reads what libc
/// keeps. It holds in a forked child too, where only the calling thread is left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SingleThreaded(());

impl SingleThreaded {
    /// Counts the threads: proc_pid_task(5).
    pub(crate) fn verify() -> io::Result<Self> {
        match std::fs::read_dir("/proc/self/task")?.count() {
            1 => Ok(Self(())),
            threads => Err(io::Error::other(format!("there are {threads}"))),
        }
    }
}

/// The namespaces that [`clone3`] makes.
const NAMESPACES: CloneFlags = CloneFlags::CLONE_NEWUSER
    .union(CloneFlags::CLONE_NEWPID)
    .union(CloneFlags::CLONE_NEWNS)
    .union(CloneFlags::CLONE_NEWNET)
    .union(CloneFlags::CLONE_NEWIPC)
    .union(CloneFlags::CLONE_NEWUTS);

/// Which of the two processes of a fork this is.
#[derive(Debug)]
pub(crate) enum Forked {
    Parent { child: Pid },
    Child(DescriptorTable),
}

impl Forked {
    /// As a system call has just said.
    fn of(result: c_long) -> io::Result<Self> {
        let child = pid_or_zero(result)?;
        Ok(child.map_or(Self::Child(DescriptorTable::of_child()), |child| Self::Parent { child }))
    }
}

/// A process id that a system call has just returned; `None` if it is 0.
fn pid_or_zero(result: c_long) -> io::Result<Option<Pid>> {
    let pid = c_int::try_from(check(result)?).map_err(io::Error::other)?;
    Ok((pid != 0).then(|| Pid::from_raw(pid)))
}

/// clone3(2) without shared memory: like `fork`, with new namespaces, and in `cgroup`
/// (`CLONE_INTO_CGROUP`) if given.
///
/// The child is a raw clone, so libc's cached thread id is its parent's. Nothing that uses it
/// (`pthread_*`, `raise`) may be called in it.
pub(crate) fn clone3(
    thread: SingleThreaded,
    namespaces: CloneFlags,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Forked> {
    let exit_signal = libc::SIGCHLD as u64;
    clone(thread, namespaces, cgroup, libc::clone_args { exit_signal, ..NO_CLONE_ARGUMENTS })
}

/// As [`clone3`], but the child is the caller's parent's.
pub(crate) fn clone3_sibling(
    thread: SingleThreaded,
    namespaces: CloneFlags,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Forked> {
    let flags = u64::from(libc::CLONE_PARENT.cast_unsigned());
    // The exit signal is the caller's own, as of CLONE_PARENT.
    clone(thread, namespaces, cgroup, libc::clone_args { flags, ..NO_CLONE_ARGUMENTS })
}

pub(super) const NO_CLONE_ARGUMENTS: libc::clone_args = libc::clone_args {
    flags: 0,
    pidfd: 0,
    child_tid: 0,
    parent_tid: 0,
    exit_signal: 0,
    stack: 0,
    stack_size: 0,
    tls: 0,
    set_tid: 0,
    set_tid_size: 0,
    cgroup: 0,
};

/// clone3(2) without `CLONE_VM`.
fn clone(
    _: SingleThreaded,
    namespaces: CloneFlags,
    cgroup: Option<BorrowedFd<'_>>,
    mut arguments: libc::clone_args,
) -> io::Result<Forked> {
    arguments.flags |= u64::from((namespaces & NAMESPACES).bits().cast_unsigned());
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = u64::try_from(cgroup.as_raw_fd()).unwrap_or(u64::MAX);
    }
    // SAFETY: the structure is valid for its whole size. Without CLONE_VM the child has a copy
    // of everything, as after fork; there is no other thread, so no lock is held.
    // JUSTIFICATION: neither std nor nix has clone3, and only it can put a child into a cgroup.
    Forked::of(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    })
}

/// fork(2) by libc, so that libc's own state is right in the child.
pub(crate) fn fork(_: SingleThreaded) -> io::Result<Forked> {
    // SAFETY: there is no other thread, which could hold a lock and not be in the child.
    // JUSTIFICATION: fork is unsafe everywhere, for processes that have threads.
    Forked::of(c_long::from(unsafe { libc::fork() }))
}

/// Which child to wait for, and whether to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Any child, for as long as it takes.
    ForAny,
    IfAny,
    /// This child, for as long as it takes.
    For(Pid),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) pid: Pid,
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
        // JUSTIFICATION: the libraries' wrappers fail for real-time signals.
        let ended = unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) };
        let pid = match check(c_long::from(ended)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            ended => pid_or_zero(ended?)?,
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

/// Has this process killed once there is something to read from a socket, the end of file included.
/// Holds beyond execve(2), until the socket's flags are set anew: fcntl(2), "Managing signals".
pub(crate) fn kill_when_readable(socket: BorrowedFd<'_>) -> io::Result<()> {
    let own = nix::unistd::getpid().as_raw();
    for (command, argument) in
        [(libc::F_SETOWN, own), (F_SETSIG, libc::SIGKILL), (libc::F_SETFL, libc::O_ASYNC)]
    {
        // SAFETY: plain numbers, and a descriptor that is open.
        // JUSTIFICATION: nix has neither F_SETOWN nor F_SETSIG.
        check(c_long::from(unsafe { libc::fcntl(socket.as_raw_fd(), command, argument) }))?;
    }
    Ok(())
}

pub(crate) fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    // JUSTIFICATION: no safe wrapper in nix.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) })
}

/// What PIDFD_GET_INFO fills, as of Linux 6.13: linux/pidfd.h, `struct pidfd_info`.
#[repr(C)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// How the process ended that this pidfd is of, whosever child it was; `None` while nobody has
/// waited for it. Linux 6.15; an error before.
pub(crate) fn exit_status(pidfd: BorrowedFd<'_>) -> io::Result<Option<ExitStatus>> {
    const PIDFD_GET_INFO: u64 = 0xc040_ff0b; // _IOWR(0xff, 11, struct pidfd_info) of 64 bytes
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, cgroup: 0, ids: [0; 11], exit_code: 0 };
    // SAFETY: the structure has the size that the request's number says, and outlives the call.
    // JUSTIFICATION: no library has this request.
    check(c_long::from(unsafe {
        libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO as _, &raw mut info)
    }))?;
    let is_told = info.mask & PIDFD_INFO_EXIT != 0;
    Ok(is_told.then(|| ExitStatus::from_raw(info.exit_code)))
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

/// clone3(2) with arguments that no kernel accepts: makes no process. The error shows whether the call
/// got as far as the kernel's own code (EINVAL).
pub(crate) fn probe_clone3() -> io::Error {
    // SAFETY: a null structure of size 0 is refused before it is read.
    // JUSTIFICATION: no safe wrapper for a call that is meant to fail.
    match check(unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<libc::clone_args>(), 0) })
    {
        Ok(_) => io::Error::other("clone3 accepted no arguments"),
        Err(error) => error,
    }
}

/// What clone(2) answers to flags that it has never accepted: a thread with memory of its own.
pub(crate) fn probe_clone() -> io::Error {
    let flags = c_long::from(libc::CLONE_THREAD);
    // SAFETY: EINVAL before anything is made: `copy_process` in the kernel's fork.c.
    // JUSTIFICATION: no safe wrapper for a call that is meant to fail.
    match check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) }) {
        Ok(_) => io::Error::other("clone accepted a thread with memory of its own"),
        Err(error) => error,
    }
}
