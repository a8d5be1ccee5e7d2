//! The calls that are allowed for some arguments only.

mod files;

use std::ffi::{c_int, c_long};

use super::Profile;
use super::calls::fchmodat2 as FCHMODAT2;
use super::rules::{Condition, Rules, any, bits, differs, equal, is_null, masked, one, one_of};
use crate::sys::HELD_PROGRAM;

/// The calls looked at, all of them allowed to some extent.
pub(super) const CHECKED: &[c_long] = &[
    libc::SYS_clone,
    libc::SYS_fadvise64,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    libc::SYS_mknodat,
    libc::SYS_mmap,
    libc::SYS_openat,
    libc::SYS_personality,
    libc::SYS_prctl,
    libc::SYS_preadv2,
    libc::SYS_prlimit64,
    libc::SYS_setrlimit,
    libc::SYS_pwritev2,
    libc::SYS_sched_setaffinity,
    libc::SYS_setpriority,
    libc::SYS_setsockopt,
    libc::SYS_socket,
    libc::SYS_socketpair,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
];

/// The error that a call gets for which no rule holds; 0 is success without effect.
pub(super) const fn refusal(call: c_long) -> c_int {
    match call {
        // Advice may be ignored.
        libc::SYS_fadvise64 => 0,
        // As from a kernel or a filesystem that does not know the flag: callers do without.
        libc::SYS_preadv2 | libc::SYS_pwritev2 => libc::EOPNOTSUPP,
        _ => libc::EPERM,
    }
}

/// The rules of `call`: it is allowed if all conditions of one of them hold.
pub(super) fn rules(call: c_long, profile: Profile) -> Rules {
    match call {
        libc::SYS_fadvise64 => files::advice(),
        libc::SYS_fchmod => files::mode(1),
        libc::SYS_fchmodat | FCHMODAT2 => files::mode(2),
        libc::SYS_fcntl => files::control(profile.wasm),
        libc::SYS_openat => files::open(2, 3),
        libc::SYS_preadv2 | libc::SYS_pwritev2 => files::vectored(),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod | libc::SYS_creat => files::mode(1),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => files::open(1, 2),
        libc::SYS_clone => clone(),
        // The engine's program: its descriptor closes with it, and RLIMIT_NOFILE keeps every other from its
        // number. Of an absolute path execveat(2) ignores the descriptor, and a filter cannot see the path: the
        // program forbids itself the call before anything else, and until then mounts and Landlock bound it.
        libc::SYS_execveat => {
            vec![vec![equal(0, bits(HELD_PROGRAM)), equal(4, bits(libc::AT_EMPTY_PATH))]]
        }
        libc::SYS_ioctl => one_of(1, IOCTLS),
        // Pages that processes of different sessions would share tell of each other by time.
        // MADV_PAGEOUT takes what others have read of a file from memory.
        libc::SYS_madvise => {
            vec![vec![differs(2, bits(libc::MADV_MERGEABLE)), differs(2, bits(libc::MADV_PAGEOUT))]]
        }
        // Huge pages that an administrator has set aside are for whom they were set aside.
        libc::SYS_memfd_create => one(masked(1, libc::MFD_HUGETLB, 0)),
        libc::SYS_mmap => one(masked(3, bits(libc::MAP_HUGETLB), 0)),
        libc::SYS_mknodat => files::make_node(2),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mknod => files::make_node(1),
        // Asking only: setting it switches off address space randomisation, among others.
        libc::SYS_personality => one(equal(0, u32::MAX)),
        libc::SYS_prctl if profile.wasm => {
            let more = [equal(0, bits(libc::PR_SET_SECCOMP)), equal(1, libc::SECCOMP_MODE_FILTER)];
            [one_of(0, PRCTLS.map(bits)), vec![more.to_vec()]].concat()
        }
        libc::SYS_prctl => one_of(0, PRCTLS.map(bits)),
        libc::SYS_prlimit64 => own_limits(),
        libc::SYS_setrlimit => one(no_core_limit(0)),
        libc::SYS_sched_setaffinity | libc::SYS_setpriority if profile.own_pids => any(),
        libc::SYS_sched_setaffinity => one(equal(0, 0)),
        // Oneself, or one's process group: not all processes of the user.
        libc::SYS_setpriority => vec![vec![differs(0, libc::PRIO_USER), equal(1, 0)]],
        libc::SYS_setsockopt => socket_options(),
        libc::SYS_socket => sockets(profile.internet),
        // Only AF_UNIX can make pairs.
        libc::SYS_socketpair => one(equal(0, bits(libc::AF_UNIX))),
        // Refused, whatever the arguments.
        _ => Rules::new(),
    }
}

/// Processes and threads, but no new namespace: unshare(2) by another name. CLONE_PARENT would
/// make the agent's side the parent of a process it does not know.
fn clone() -> Rules {
    const REFUSED: c_int = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_PARENT;
    one(masked(0, bits(REFUSED), 0))
}

/// The caller's own limits, or anyone's to read. Without a pid namespace, a process of the
/// same user outside the session could be given limits: prlimit(2) asks for nothing but the id.
fn own_limits() -> Rules {
    vec![vec![equal(0, 0), no_core_limit(1)], vec![is_null(2)]]
}

/// Any limit but that of core dumps: it is 1, which aborts them, and 0 would not (core(5)).
const fn no_core_limit(resource_argument: u8) -> Condition {
    differs(resource_argument, libc::RLIMIT_CORE)
}

/// Everything but attaching BPF programs to a socket, for the reason that seccomp(2) and
/// bpf(2) are not on the list.
fn socket_options() -> Rules {
    const SO_ATTACH_REUSEPORT_CBPF: c_int = 51;
    const SO_ATTACH_REUSEPORT_EBPF: c_int = 52;
    const PROGRAMS: [c_int; 4] = [
        libc::SO_ATTACH_FILTER,
        libc::SO_ATTACH_BPF,
        SO_ATTACH_REUSEPORT_CBPF,
        SO_ATTACH_REUSEPORT_EBPF,
    ];
    let other_option = PROGRAMS.map(|option| differs(2, bits(option)));
    vec![other_option.to_vec(), vec![differs(1, bits(libc::SOL_SOCKET))]]
}

/// AF_UNIX, and the internet's two families unless there is no network: their streams and
/// datagrams, with the protocols everyone uses. Others (SCTP, DCCP, MPTCP, UDP-Lite, raw)
/// would let a tenant have the host load their modules.
fn sockets(internet: bool) -> Rules {
    const TYPE_MASK: u32 = 0xf; // SOCK_TYPE_MASK: without SOCK_CLOEXEC and SOCK_NONBLOCK
    const KINDS: [(c_int, c_int); 6] = [
        (libc::SOCK_STREAM, 0),
        (libc::SOCK_STREAM, libc::IPPROTO_TCP),
        (libc::SOCK_DGRAM, 0),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
        (libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
        (libc::SOCK_DGRAM, libc::IPPROTO_ICMPV6),
    ];
    let mut rules = one(equal(0, bits(libc::AF_UNIX)));
    if !internet {
        return rules;
    }
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (kind, protocol) in KINDS {
            rules.push(vec![
                equal(0, bits(family)),
                masked(1, TYPE_MASK, bits(kind)),
                equal(2, bits(protocol)),
            ]);
        }
    }
    rules
}

/// Requests that programs make of files, pipes, sockets and terminals. Not here: TIOCSTI and
/// TIOCLINUX (they type into the terminal), TIOCSETD (loads line disciplines), and the
/// thousands that devices and filesystems have.
const IOCTLS: [u32; 35] = [
    // Any descriptor.
    0x5421, // FIONBIO
    0x541b, // FIONREAD
    0x5450, // FIONCLEX
    0x5451, // FIOCLEX
    0x5452, // FIOASYNC
    0x0002, // FIGETBSZ
    // Copies without copying: cp --reflink.
    0x4004_9409, // FICLONE
    0x4020_940d, // FICLONERANGE
    // Attributes and extents of a file, read only: lsattr, cp --sparse.
    0x8008_6601, // FS_IOC_GETFLAGS
    0xc020_660b, // FS_IOC_FIEMAP
    // Terminals: isatty(3), pseudo-terminals.
    0x5401,      // TCGETS
    0x5402,      // TCSETS
    0x5403,      // TCSETSW
    0x5404,      // TCSETSF
    0x5409,      // TCSBRK
    0x540a,      // TCXONC
    0x540b,      // TCFLSH
    0x540e,      // TIOCSCTTY
    0x540f,      // TIOCGPGRP
    0x5410,      // TIOCSPGRP
    0x5411,      // TIOCOUTQ
    0x5413,      // TIOCGWINSZ
    0x5414,      // TIOCSWINSZ
    0x5422,      // TIOCNOTTY
    0x5429,      // TIOCGSID
    0x8004_5430, // TIOCGPTN
    0x4004_5431, // TIOCSPTLCK
    0x5441,      // TIOCGPTPEER
    // Sockets: urgent data, and the names and addresses of interfaces, read only.
    0x8905, // SIOCATMARK
    0x8910, // SIOCGIFNAME
    0x8912, // SIOCGIFCONF
    0x8913, // SIOCGIFFLAGS
    0x8915, // SIOCGIFADDR
    0x8921, // SIOCGIFMTU
    0x8933, // SIOCGIFINDEX
];

/// Options that libraries set for themselves. Not here: PR_SET_MM, PR_SET_SECCOMP (see
/// seccomp(2) in the list of calls; the program of runtime `wasm` may, and forbids it by that), PR_SET_PTRACER, PR_SET_MEMORY_MERGE (shared pages tell
/// other tenants' contents by time), PR_SCHED_CORE, PR_SET_IO_FLUSHER, PR_MCE_KILL.
const PRCTLS: [c_int; 28] = [
    libc::PR_SET_PDEATHSIG,
    libc::PR_GET_PDEATHSIG,
    libc::PR_GET_DUMPABLE,
    libc::PR_SET_DUMPABLE,
    libc::PR_GET_KEEPCAPS,
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_GET_SECCOMP,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_TSC,
    libc::PR_GET_SECUREBITS,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_CHILD_SUBREAPER,
    libc::PR_GET_CHILD_SUBREAPER,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_THP_DISABLE,
    libc::PR_GET_THP_DISABLE,
    52, // PR_GET_SPECULATION_CTRL, which libc has for x86_64 only
    53, // PR_SET_SPECULATION_CTRL
    libc::PR_SET_MDWE,
    libc::PR_GET_MDWE,
    // Names of anonymous memory, set by allocators.
    libc::PR_SET_VMA,
    // Vector lengths and pointer authentication of aarch64.
    51,          // PR_SVE_GET_VL
    54,          // PR_PAC_RESET_KEYS
    61,          // PR_PAC_GET_ENABLED_KEYS
    0x4155_5856, // PR_GET_AUXV
];
