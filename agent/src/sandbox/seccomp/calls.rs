//! The calls that are allowed whatever their arguments, in groups with a reason, and those
//! that are answered as if the kernel did not have them.
//!
//! Everything else gets EPERM. What is allowed by argument is in [`super::arguments`]. Numbers
//! come from libc's tables, so both architectures have the same list where they have the calls.

use std::ffi::c_long;

#[allow(clippy::wildcard_imports)] // the names are the list
use libc::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// libc's name of the constant, `SYS_read`.
    pub(super) name: &'static str,
    /// The number on this architecture.
    pub(super) number: c_long,
}

macro_rules! calls {
    ($($name:ident)*) => { &[$(Call { name: stringify!($name), number: $name }),*] };
}
pub(super) use calls;

/// Files and directories, beneath what mounts, permissions and Landlock leave. Not here:
/// name_to_handle_at and open_by_handle_at (they go around the paths that the other layers
/// guard), quotactl, the mount API old and new, chroot, pivot_root, fanotify_*, acct, io_setup
/// and io_uring_* (a history of holes; libraries fall back), vmsplice (nobody misses it),
/// cachestat (tells what others have read). By argument: what makes or changes a file's mode.
const FILES: &[Call] = calls! {
    SYS_chdir SYS_close SYS_close_range SYS_copy_file_range SYS_dup SYS_dup3 SYS_faccessat
    SYS_faccessat2 SYS_fallocate SYS_fchdir SYS_fchown SYS_fchownat SYS_flock SYS_fstat
    SYS_fstatfs SYS_ftruncate SYS_getcwd SYS_getdents64 SYS_linkat SYS_lseek SYS_mkdirat
    SYS_newfstatat SYS_pipe2 SYS_pread64 SYS_preadv SYS_pwrite64 SYS_pwritev SYS_read
    SYS_readahead SYS_readlinkat SYS_readv SYS_renameat SYS_renameat2 SYS_sendfile SYS_splice
    SYS_statfs SYS_statx SYS_symlinkat SYS_tee SYS_truncate SYS_umask SYS_unlinkat
    SYS_utimensat SYS_write SYS_writev
};

/// Writing what a file holds to its disk. Where all that a session can write to is memory, there is
/// nothing of its own to write, and a descriptor of a host's file, open for reading, would have
/// the host's disk flush: these are then answered with success, and not made. msync(2) is
/// not among them, as it flushes only what is mapped to be written.
pub(super) const FLUSHES: &[Call] = calls! { SYS_fdatasync SYS_fsync SYS_sync_file_range };

/// Flushing whole filesystems: answered like [`FLUSHES`] there, and refused elsewhere.
pub(super) const WHOLE_FLUSHES: &[Call] = calls! { SYS_sync SYS_syncfs };

/// Extended attributes: tools that copy files read and write them.
const XATTRS: &[Call] = calls! {
    SYS_fgetxattr SYS_flistxattr SYS_fremovexattr SYS_fsetxattr SYS_getxattr SYS_lgetxattr
    SYS_listxattr SYS_llistxattr SYS_lremovexattr SYS_lsetxattr SYS_removexattr SYS_setxattr
};

/// Memory. Not here: userfaultfd, process_vm_*, process_madvise, remap_file_pages,
/// memfd_secret (it takes pages away from the host's direct map), and the setting of NUMA
/// policies (mbind, set_mempolicy, move_pages, migrate_pages), which Docker denies as well.
const MEMORY: &[Call] = calls! {
    SYS_brk SYS_get_mempolicy SYS_membarrier SYS_mlock SYS_mlock2 SYS_mlockall SYS_mprotect
    SYS_mremap SYS_mseal SYS_msync SYS_munlock SYS_munlockall SYS_munmap SYS_pkey_alloc
    SYS_pkey_free SYS_pkey_mprotect
};

/// Processes and threads; making them, and what changes the scheduling of others, is in
/// [`super::arguments`]. The pid namespace bounds whom they reach. Not here: ptrace, kcmp,
/// pidfd_getfd, process_mrelease, unshare, setns, ioprio_set, and setting of the scheduler (what a
/// caller without privilege may set, setpriority does).
const PROCESSES: &[Call] = calls! {
    SYS_execve SYS_exit SYS_exit_group SYS_getpgid SYS_getpid SYS_getppid SYS_getpriority
    SYS_getrlimit SYS_getrusage SYS_getsid SYS_gettid SYS_kill SYS_pidfd_open
    SYS_pidfd_send_signal SYS_set_robust_list SYS_set_tid_address SYS_setpgid SYS_setsid
    SYS_tgkill SYS_times SYS_tkill SYS_wait4 SYS_waitid
};

/// Scheduling of the caller's own: thread pools are sized by the affinity.
const SCHEDULING: &[Call] = calls! {
    SYS_futex SYS_getcpu SYS_ioprio_get SYS_rseq SYS_sched_get_priority_max
    SYS_sched_get_priority_min SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam
    SYS_sched_getscheduler SYS_sched_rr_get_interval SYS_sched_yield
};

/// Signals, to whom the pid namespace and Landlock's scope let them.
const SIGNALS: &[Call] = calls! {
    SYS_restart_syscall SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigprocmask
    SYS_rt_sigqueueinfo SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigtimedwait
    SYS_rt_tgsigqueueinfo SYS_sigaltstack SYS_signalfd4
};

/// Time, read only. Not here: clock_settime, settimeofday, adjtimex, clock_adjtime.
const TIME: &[Call] = calls! {
    SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep SYS_getitimer SYS_gettimeofday
    SYS_nanosleep SYS_setitimer SYS_timer_create SYS_timer_delete SYS_timer_getoverrun
    SYS_timer_gettime SYS_timer_settime SYS_timerfd_create SYS_timerfd_gettime
    SYS_timerfd_settime
};

/// Waiting for many descriptors: asyncio, subprocess, selectors.
const EVENTS: &[Call] = calls! {
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_ppoll
    SYS_pselect6
};

/// Sockets that exist; which may be made is in [`super::arguments`]. System V IPC and POSIX
/// message queues are not here: Python's own libraries use neither, and System V memory
/// outlives the processes that rlimits bound.
const SOCKETS: &[Call] = calls! {
    SYS_accept SYS_accept4 SYS_bind SYS_connect SYS_getpeername SYS_getsockname SYS_getsockopt
    SYS_listen SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_sendmmsg SYS_sendmsg SYS_sendto
    SYS_shutdown
};

/// Who the caller is. Changing it is allowed, as it can change nothing: there is no
/// capability, and one id is mapped for it. Not here: capset.
const IDENTITY: &[Call] = calls! {
    SYS_capget SYS_getegid SYS_geteuid SYS_getgid SYS_getgroups SYS_getresgid SYS_getresuid
    SYS_getuid SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups SYS_setregid SYS_setresgid
    SYS_setresuid SYS_setreuid SYS_setuid
};

/// The system at large: read only, and random numbers. Not here: syslog, sethostname,
/// setdomainname, reboot, swapon, keyctl, bpf, perf_event_open, the modules and kexec.
const SYSTEM: &[Call] = calls! { SYS_getrandom SYS_sysinfo SYS_uname };

/// Landlock, of which a process can only ever have more. seccomp(2) is not here: its filters
/// are programs that the kernel's BPF compiler runs on.
const LANDLOCK: &[Call] =
    calls! { SYS_landlock_add_rule SYS_landlock_create_ruleset SYS_landlock_restrict_self };

/// What only x86_64 has: calls from before their `*at` or numbered successors, which its libc
/// still makes, and the thread's registers. Not here: modify_ldt, ioperm, iopl, uselib, ustat,
/// sysfs, create_module and other relics.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &[Call] = calls! {
    SYS_access SYS_alarm SYS_arch_prctl SYS_chown SYS_dup2 SYS_epoll_create SYS_epoll_wait
    SYS_eventfd SYS_fork SYS_futimesat SYS_getdents SYS_getpgrp SYS_lchown SYS_link SYS_lstat
    map_shadow_stack SYS_mkdir SYS_pause SYS_pipe SYS_poll SYS_readlink SYS_rename SYS_rmdir
    SYS_select SYS_signalfd SYS_stat SYS_symlink SYS_time SYS_unlink SYS_utime SYS_utimes
    SYS_vfork
};
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &[Call] = &[];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the seccomp allow-list has not been thought through for this architecture");

/// Calls with another way to do the same, which libraries take when the kernel does not have them:
/// clone3 and openat2 hide their flags in memory, where a filter can not look; execveat would run
/// what has no path; inotify tells which of the host's programs and modules others use, and is
/// counted for all sessions together; mincore tells of a file that may be written to what
/// others have read of it; the new futex calls and lsm_* are known to no library yet.
pub(super) const NOT_IMPLEMENTED: &[Call] = calls! {
    SYS_clone3 SYS_execveat futex_requeue futex_wait SYS_futex_waitv futex_wake
    SYS_inotify_add_watch SYS_inotify_init1 SYS_inotify_rm_watch lsm_get_self_attr
    lsm_list_modules lsm_set_self_attr SYS_mincore SYS_openat2
};

#[cfg(target_arch = "x86_64")]
pub(super) const NOT_IMPLEMENTED_HERE: &[Call] = calls! { SYS_inotify_init };
#[cfg(not(target_arch = "x86_64"))]
pub(super) const NOT_IMPLEMENTED_HERE: &[Call] = &[];

/// What is on a session's list and a kernel of runtime `wasm` is refused: its program was started, makes no
/// process or thread, connects to nothing, and signals nobody but, by a timer, itself. Tenant code asks for none of this, as WASI
/// has no word for it; whoever gets out of the engine is to find none of it either.
const NOT_IN_WASM: &[Call] = calls! {
    SYS_accept SYS_accept4 SYS_bind SYS_clone SYS_connect SYS_execve SYS_kill SYS_listen
    SYS_memfd_create SYS_mknodat SYS_pidfd_open SYS_pidfd_send_signal SYS_rt_sigqueueinfo
    SYS_rt_tgsigqueueinfo SYS_sendmmsg SYS_setpgid SYS_setsid SYS_setsockopt SYS_signalfd4
    SYS_socket SYS_socketpair SYS_splice SYS_tee SYS_tgkill SYS_tkill
};

#[cfg(target_arch = "x86_64")]
const NOT_IN_WASM_HERE: &[Call] = calls! { SYS_fork SYS_mknod SYS_signalfd SYS_vfork };
#[cfg(not(target_arch = "x86_64"))]
const NOT_IN_WASM_HERE: &[Call] = &[];

/// The highest number that was thought about. Whatever is above does not exist, as far as the
/// tenant can see: ENOSYS is what a libc that knows it falls back from.
pub(super) const NEWEST: c_long = SYS_mseal;

// Numbers that libc does not have on both architectures. From 424 on they are the same
// everywhere: the kernel's include/uapi/asm-generic/unistd.h.
#[allow(non_upper_case_globals)] // as libc's, after the prefix
pub(super) const fchmodat2: c_long = 452;
#[cfg(target_arch = "x86_64")]
#[allow(non_upper_case_globals)]
const map_shadow_stack: c_long = 453;
#[allow(non_upper_case_globals)]
const futex_wake: c_long = 454;
#[allow(non_upper_case_globals)]
const futex_wait: c_long = 455;
#[allow(non_upper_case_globals)]
const futex_requeue: c_long = 456;
#[allow(non_upper_case_globals)]
const lsm_get_self_attr: c_long = 459;
#[allow(non_upper_case_globals)]
const lsm_set_self_attr: c_long = 460;
#[allow(non_upper_case_globals)]
const lsm_list_modules: c_long = 461;

pub(super) const GROUPS: [&[Call]; 13] = [
    FILES,
    XATTRS,
    MEMORY,
    PROCESSES,
    SCHEDULING,
    SIGNALS,
    TIME,
    EVENTS,
    SOCKETS,
    IDENTITY,
    SYSTEM,
    LANDLOCK,
    ARCHITECTURE,
];

pub(super) fn allowed() -> impl Iterator<Item = Call> {
    GROUPS.into_iter().flatten().copied()
}

pub(super) fn not_implemented() -> impl Iterator<Item = Call> {
    NOT_IMPLEMENTED.iter().chain(NOT_IMPLEMENTED_HERE).copied()
}

pub(super) fn not_in_wasm() -> impl Iterator<Item = Call> {
    let other = [XATTRS, NOT_IN_WASM_HERE].into_iter().flatten();
    NOT_IN_WASM.iter().chain(other).copied()
}

/// How many a kernel of runtime `wasm` is allowed, with the one that starts its program.
pub(super) fn count_in_wasm() -> usize {
    count() + 1 - not_in_wasm().count()
}

/// How many calls are allowed, with those that are so by argument or have no effect.
pub(super) fn count() -> usize {
    allowed().count() + FLUSHES.len() + super::arguments::CHECKED.len()
}
