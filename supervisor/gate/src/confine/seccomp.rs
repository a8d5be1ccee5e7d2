//! The gate's system calls: an allow-list. No execve, no clone, no ptrace, no io_uring, no memory that
//! can be executed, and sockets of the internet alone.

use std::collections::BTreeMap;

use libc::c_long;
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::{ConfineError, Files, is_refused};

/// Whatever the arguments.
const ALLOWED: &[c_long] = &[
    // Sockets that are there. Not here: listen.
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Descriptors, and waiting for them.
    libc::SYS_close,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_fcntl,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    // Files, which Landlock names.
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_statx,
    // Itself.
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
];

/// What libc calls on x86_64 in place of their successors.
#[cfg(target_arch = "x86_64")]
const OF_ARCHITECTURE: &[c_long] = &[libc::SYS_epoll_wait, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const OF_ARCHITECTURE: &[c_long] = &[];

/// To list directories of wheels.
const OF_LISTS: &[c_long] = &[libc::SYS_getdents64];

/// To keep a cache of packages, by Landlock in its directory alone.
const OF_CACHE: &[c_long] = &[
    libc::SYS_getdents64,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

const FIONBIO: u64 = 0x5421;

fn is(argument: u8, value: u64) -> Result<SeccompCondition, ConfineError> {
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?)
}

fn bits(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

fn filter(files: &Files<'_>) -> Result<(BpfProgram, usize), ConfineError> {
    let of_lists = if files.list.is_empty() { &[] } else { OF_LISTS };
    let of_cache = if files.write.is_none() { &[] } else { OF_CACHE };
    let allowed = ALLOWED.iter().chain(OF_ARCHITECTURE).chain(of_lists).chain(of_cache);
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        allowed.map(|call| (*call, Vec::new())).collect();
    let mut when = |call: c_long, conditions: Vec<SeccompCondition>| -> Result<(), ConfineError> {
        rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
        Ok(())
    };
    let not_executable = SeccompCmpOp::MaskedEq(bits(libc::PROT_EXEC));
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let op = not_executable.clone();
        when(call, vec![SeccompCondition::new(2, SeccompCmpArgLen::Dword, op, 0)?])?;
    }
    when(libc::SYS_ioctl, vec![is(1, FIONBIO)?])?;
    // Streams for destinations, datagrams for resolvers. Without the flags of the type.
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            let op = SeccompCmpOp::MaskedEq(0xf);
            let kind = SeccompCondition::new(1, SeccompCmpArgLen::Dword, op, bits(kind))?;
            when(libc::SYS_socket, vec![is(0, bits(family))?, kind])?;
        }
    }
    // To ask which addresses the host has: netlink(7), the route family alone.
    when(
        libc::SYS_socket,
        vec![is(0, bits(libc::AF_NETLINK))?, is(2, bits(libc::NETLINK_ROUTE))?],
    )?;
    let count = rules.len();
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let architecture = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture)?;
    Ok((filter.try_into()?, count))
}

/// Filters the calling thread from now on; returns how many calls are left.
pub(super) fn install(files: &Files<'_>) -> Result<usize, ConfineError> {
    let (program, count) = filter(files)?;
    seccompiler::apply_filter(&program)?;
    Ok(count)
}

/// By calls without effect, each refused by the filter and by nothing else.
pub(super) fn read_back() -> Result<(), ConfineError> {
    let nobody = Pid::from_raw(i32::MAX);
    let read = process_vm_readv(nobody, &mut [], &[RemoteIoVec { base: 0, len: 0 }]);
    let unix = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    if is_refused(unshare(CloneFlags::empty()), Errno::EPERM)
        && is_refused(read, Errno::EPERM)
        && is_refused(unix, Errno::EPERM)
    {
        return Ok(());
    }
    Err(ConfineError::NotInForce("seccomp"))
}
