//! Filters for Vivarium's own processes of a session: the agent, which reads what tenant code
//! writes, and the launcher, which it asks for processes.
//!
//! The agent has an allow-list: it neither executes nor forks, so nothing inherits it. What the
//! launcher forks becomes a kernel, so it can only be refused what no layer and no kernel needs; a
//! kernel's own filter is stacked on that.
//!
//! Both are a part of the seccomp layer: without it there is neither.

use std::ffi::c_long;

#[allow(clippy::wildcard_imports)] // the names are the list
use libc::*;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use seccompiler::BpfProgram;

use super::super::LayerError;
use super::calls::{Call, calls};
use super::program::{self, Built, ProgramError};
use super::rules::{Rules, bits, equal, masked, one, one_of};
use super::{fails_with, install};

/// What the agent may do whatever the arguments, once its session is set up.
const AGENT: &[Call] = calls! {
    // A server in the session: only a TCP socket can be connected, as there is no other (see
    // `conditions`), and the network namespace says what it reaches.
    SYS_connect
    // The supervisor, the launcher, kernels and commands: descriptors that exist.
    SYS_close SYS_dup SYS_fcntl SYS_lseek SYS_pipe2 SYS_ppoll SYS_pread64 SYS_read SYS_readv
    SYS_recvfrom SYS_recvmsg SYS_sendfile SYS_sendmsg SYS_sendto SYS_write SYS_writev
    // The session's files, beneath the workdir, and what /proc says of its processes. Not here:
    // links, devices, mounts, extended attributes.
    SYS_fchmod SYS_fchown SYS_fstat SYS_fstatfs SYS_getdents64 SYS_inotify_add_watch
    SYS_inotify_init1 SYS_inotify_rm_watch SYS_mkdirat SYS_newfstatat SYS_openat SYS_openat2 SYS_readlinkat
    SYS_renameat SYS_renameat2 SYS_statx SYS_unlinkat
    // The session's processes, which it ends and waits for. Not here: making one.
    SYS_getpid SYS_getppid SYS_getrusage SYS_gettid SYS_kill SYS_pidfd_open SYS_prlimit64
    SYS_tgkill SYS_wait4 SYS_waitid
    // Itself: memory (more of it is below), signals, time, random numbers, its end.
    SYS_brk SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep SYS_exit SYS_exit_group
    SYS_futex SYS_getrandom SYS_gettimeofday SYS_madvise SYS_mremap SYS_munmap SYS_nanosleep
    SYS_restart_syscall SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_sched_yield
    SYS_sigaltstack
};

/// What libc calls on x86_64 in place of their successors.
#[cfg(target_arch = "x86_64")]
const AGENT_OF_ARCHITECTURE: &[Call] = calls! { SYS_poll SYS_readlink SYS_time };
#[cfg(not(target_arch = "x86_64"))]
const AGENT_OF_ARCHITECTURE: &[Call] = &[];

/// What neither a launcher nor anything that it forks may do. Not here, as starting a process needs them:
/// clones, namespaces, mounts, and changes of id.
const REFUSED_TO_LAUNCHERS: &[Call] = calls! {
    // Other processes' memory and descriptors.
    SYS_kcmp SYS_pidfd_getfd SYS_process_madvise SYS_process_vm_readv SYS_process_vm_writev
    SYS_ptrace
    // Parts of the host's kernel with a history of holes.
    SYS_add_key SYS_bpf SYS_fanotify_init SYS_io_uring_enter SYS_io_uring_register
    SYS_io_uring_setup SYS_keyctl SYS_perf_event_open SYS_remap_file_pages SYS_request_key
    SYS_userfaultfd SYS_vmsplice
    // The host itself.
    SYS_acct SYS_adjtimex SYS_clock_adjtime SYS_clock_settime SYS_delete_module SYS_finit_module
    SYS_init_module SYS_kexec_file_load SYS_kexec_load SYS_lookup_dcookie SYS_nfsservctl
    SYS_open_by_handle_at SYS_quotactl SYS_quotactl_fd SYS_reboot SYS_setdomainname
    SYS_settimeofday SYS_swapoff SYS_swapon SYS_syslog SYS_vhangup
};
#[cfg(target_arch = "x86_64")]
const REFUSED_OF_ARCHITECTURE: &[Call] = calls! { SYS_ioperm SYS_iopl SYS_modify_ldt };
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_OF_ARCHITECTURE: &[Call] = &[];

/// The agent's calls that are looked at by argument.
const CHECKED: [c_long; 5] = [SYS_ioctl, SYS_mmap, SYS_mprotect, SYS_socket, SYS_socketpair];

/// The part of socket(2)'s second argument that is the type, without flags (`SOCK_TYPE_MASK`).
const SOCKET_TYPE: u32 = 0xf;

/// Allows the agent what it needs from now on, and reads that back.
pub(crate) fn confine_agent() -> Result<(), LayerError> {
    install(AGENT_PROGRAM.get_or_build(agent)?)?;
    read_back()
}

/// Refuses the launcher what it does not need from now on, and reads that back.
pub(crate) fn confine_launcher() -> Result<(), LayerError> {
    install(LAUNCHER_PROGRAM.get_or_build(launcher)?)?;
    read_back()
}

pub(crate) const fn agent_calls() -> usize {
    AGENT.len() + AGENT_OF_ARCHITECTURE.len() + CHECKED.len()
}

static AGENT_PROGRAM: Built = Built::new();
static LAUNCHER_PROGRAM: Built = Built::new();

pub(super) fn prepare() -> Result<(), ProgramError> {
    AGENT_PROGRAM.get_or_build(agent)?;
    LAUNCHER_PROGRAM.get_or_build(launcher).map(drop)
}

pub(super) fn agent() -> Result<BpfProgram, ProgramError> {
    let calls = AGENT.iter().chain(AGENT_OF_ARCHITECTURE).copied();
    program::allow(calls, &CHECKED, conditions)
}

pub(super) fn launcher() -> Result<BpfProgram, ProgramError> {
    program::refuse(REFUSED_TO_LAUNCHERS.iter().chain(REFUSED_OF_ARCHITECTURE).copied())
}

/// Of descriptors, and of the terminals that the agent gives to commands. Not here: TIOCSTI, which types.
const IOCTLS: [u32; 5] = [
    0x5421,      // FIONBIO
    0x5414,      // TIOCSWINSZ
    0x5441,      // TIOCGPTPEER
    0x8004_5430, // TIOCGPTN
    0x4004_5431, // TIOCSPTLCK
];

fn conditions(call: c_long) -> Rules {
    match call {
        libc::SYS_ioctl => one_of(1, IOCTLS),
        // No memory that can be executed.
        libc::SYS_mmap | libc::SYS_mprotect => one(masked(2, bits(PROT_EXEC), 0)),
        // TCP alone, and never waiting.
        libc::SYS_socket => {
            let stream = bits(SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
            let of = |family| vec![equal(0, bits(family)), equal(1, stream), equal(2, 0)];
            vec![of(AF_INET), of(AF_INET6)]
        }
        // Streams, which are connected: a datagram socket could be connected to any name.
        libc::SYS_socketpair => {
            vec![vec![equal(0, bits(AF_UNIX)), masked(1, SOCKET_TYPE, bits(SOCK_STREAM))]]
        }
        // Refused, whatever the arguments.
        _ => Rules::new(),
    }
}

/// By a call that both refuse, about a process that there can not be.
fn read_back() -> Result<(), LayerError> {
    let nobody = Pid::from_raw(i32::MAX);
    let found = process_vm_readv(nobody, &mut [], &[RemoteIoVec { base: 0, len: 0 }]);
    fails_with("process_vm_readv", found, Errno::EPERM)
}

#[cfg(test)]
mod tests;
