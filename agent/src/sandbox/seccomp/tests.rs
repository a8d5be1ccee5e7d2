#![allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)] // a call's registers
use std::collections::BTreeSet;
use std::ffi::c_long;
use std::path::Path;
use std::process::Command;

use libc::*;
use nix::sched::CloneFlags;
use seccompiler::BpfProgram;
use vivarium_protocol::layer::{Layer, Status};
use vivarium_protocol::policy::Network;

use super::super::LayerCode;
use super::super::landlock::fixture;
use super::{Profile, Seccomp, arguments, calls, program};

mod by_argument;
mod wasm;

#[cfg(target_arch = "x86_64")]
const OURS: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OURS: u32 = 0xc000_00b7;
const I386: u32 = 0x4000_0003;

pub(super) const ALLOW: u32 = SECCOMP_RET_ALLOW;
pub(super) const NOT_PERMITTED: u32 = SECCOMP_RET_ERRNO | EPERM.cast_unsigned();
const NO_SUCH_CALL: u32 = SECCOMP_RET_ERRNO | ENOSYS.cast_unsigned();

fn judge(profile: Profile, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    judge_by(&program::build(profile).unwrap(), architecture, number, arguments)
}

/// Runs the program as the kernel would, for a call of `number` on `architecture`.
fn judge_by(program: &BpfProgram, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    run(program, vec![number, architecture, 0, 0], arguments)
}

/// Runs a part of a program that looks at arguments only.
pub(super) fn decide(program: &BpfProgram, number: u32, arguments: [u64; 6]) -> u32 {
    run(program, vec![number, OURS, 0, 0], arguments)
}

fn run(program: &BpfProgram, mut data: Vec<u32>, arguments: [u64; 6]) -> u32 {
    for argument in arguments {
        data.extend([argument as u32, (argument >> 32) as u32]);
    }
    let (mut at, mut loaded) = (0, 0);
    loop {
        let step = &program[at];
        let branch = |taken| usize::from(if taken { step.jt } else { step.jf });
        at += 1;
        match step.code {
            0x20 => loaded = data[step.k as usize / 4],
            0x54 => loaded &= step.k,
            0x05 => at += step.k as usize,
            0x15 => at += branch(loaded == step.k),
            0x25 => at += branch(loaded > step.k),
            0x35 => at += branch(loaded >= step.k),
            0x06 => return step.k,
            code => panic!("instruction {code:#x}"),
        }
    }
}

const fn full(network: Network) -> Profile {
    let internet = !matches!(network, Network::None);
    Profile { internet, own_files: true, own_pids: true, wasm: false }
}

fn call(number: c_long, arguments: [u64; 6]) -> u32 {
    call_of(full(Network::Loopback), number, arguments)
}

fn call_of(profile: Profile, number: c_long, arguments: [u64; 6]) -> u32 {
    judge(profile, OURS, u32::try_from(number).unwrap(), arguments)
}

/// What another filter than a session's answers.
pub(super) fn answer(program: &BpfProgram, number: c_long, arguments: [u64; 6]) -> u32 {
    judge_by(program, OURS, u32::try_from(number).unwrap(), arguments)
}

pub(super) fn with(index: usize, value: u64) -> [u64; 6] {
    let mut arguments = [0; 6];
    arguments[index] = value;
    arguments
}

#[test]
fn each_profile_has_a_filter_of_its_own() {
    let places: BTreeSet<_> = Profile::all().map(Profile::index).collect();
    assert!(places.into_iter().eq(0..16));
    program::prepare().unwrap();
    for profile in Profile::all() {
        let (kept, built) = (program::session(profile).unwrap(), program::build(profile).unwrap());
        assert_eq!(*kept, built, "{profile:?}");
    }
}

#[test]
fn no_rule_is_redundant_and_every_group_is_sorted() {
    let unconditional: Vec<_> = calls::allowed().map(|call| call.number).collect();
    let refused = calls::not_implemented().map(|call| call.number);
    let flushes = calls::FLUSHES.iter().chain(calls::WHOLE_FLUSHES).map(|call| call.number);
    let all: Vec<_> = unconditional
        .iter()
        .copied()
        .chain(refused)
        .chain(flushes)
        .chain(arguments::CHECKED.to_vec())
        .collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "listed twice");
    assert!(all.iter().all(|number| (0..=calls::NEWEST).contains(number)));
    for group in calls::GROUPS {
        let sorted = group.is_sorted_by_key(|call| call.name.trim_start_matches("SYS_"));
        assert!(sorted, "{group:?}");
    }
}

#[test]
fn every_listed_call_is_allowed() {
    for listed in calls::allowed() {
        assert_eq!(call(listed.number, [u64::MAX; 6]), ALLOW, "{}", listed.name);
    }
}

/// SPEC section 1, by name.
#[test]
fn forbidden_calls_are_refused() {
    let refused = [
        SYS_ptrace,
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        SYS_mount,
        SYS_umount2,
        SYS_open_tree,
        SYS_move_mount,
        SYS_fsopen,
        SYS_fsconfig,
        SYS_fsmount,
        SYS_fspick,
        SYS_mount_setattr,
        SYS_pivot_root,
        SYS_chroot,
        SYS_unshare,
        SYS_setns,
        SYS_keyctl,
        SYS_add_key,
        SYS_request_key,
        SYS_bpf,
        SYS_perf_event_open,
        SYS_userfaultfd,
        SYS_kexec_load,
        SYS_kexec_file_load,
        SYS_init_module,
        SYS_finit_module,
        SYS_delete_module,
        SYS_reboot,
        SYS_swapon,
        SYS_swapoff,
        SYS_clock_settime,
        SYS_settimeofday,
        SYS_clock_adjtime,
        SYS_adjtimex,
        SYS_setdomainname,
        SYS_sethostname,
        SYS_acct,
        SYS_quotactl,
        SYS_quotactl_fd,
        SYS_io_uring_setup,
        SYS_io_uring_enter,
        SYS_io_uring_register,
        SYS_name_to_handle_at,
        SYS_open_by_handle_at,
        SYS_pidfd_getfd,
        SYS_nfsservctl,
        SYS_vhangup,
        SYS_lookup_dcookie,
        SYS_seccomp,
        SYS_kcmp,
        SYS_syslog,
        SYS_process_madvise,
        SYS_fanotify_init,
        SYS_io_setup,
        SYS_shmget,
        SYS_semget,
        SYS_msgget,
        SYS_mq_open,
        SYS_capset,
        SYS_memfd_secret,
        SYS_vmsplice,
        SYS_fanotify_mark,
        SYS_ioprio_set,
        SYS_sched_setscheduler,
        SYS_sched_setparam,
        SYS_sched_setattr,
    ];
    for number in refused {
        assert_eq!(call(number, [0; 6]), NOT_PERMITTED, "call {number}");
    }
    #[cfg(target_arch = "x86_64")]
    for number in [SYS_modify_ldt, SYS_ioperm, SYS_iopl, SYS_uselib, SYS_ustat] {
        assert_eq!(call(number, [0; 6]), NOT_PERMITTED, "call {number}");
    }
}

#[test]
fn foreign_numbers_are_never_taken_for_ours() {
    let read = u32::try_from(SYS_read).unwrap();
    assert_eq!(judge(full(Network::Full), I386, read, [0; 6]), SECCOMP_RET_KILL_PROCESS);
    #[cfg(target_arch = "x86_64")]
    for number in [0x4000_0000 | read, 0x4000_0000 | 512, u32::MAX] {
        assert_eq!(judge(full(Network::Full), OURS, number, [0; 6]), NOT_PERMITTED, "{number:#x}");
    }
}

#[test]
fn call_newer_than_the_list_gives_enosys() {
    for number in [calls::NEWEST + 1, 1000, SYS_clone3, SYS_execveat, SYS_openat2, SYS_mincore] {
        assert_eq!(call(number, [0; 6]), NO_SUCH_CALL, "call {number}");
    }
}

#[test]
fn clone_makes_threads_and_processes_but_no_namespaces() {
    let thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SETTLS;
    for flags in [thread, SIGCHLD, CLONE_VM | CLONE_VFORK | SIGCHLD] {
        assert_eq!(call(SYS_clone, with(0, flags as u64)), ALLOW, "{flags:#x}");
    }
    for flag in [
        CLONE_NEWNS,
        CLONE_NEWCGROUP,
        CLONE_NEWUTS,
        CLONE_NEWIPC,
        CLONE_NEWUSER,
        CLONE_NEWPID,
        CLONE_NEWNET,
        CLONE_PARENT,
    ] {
        assert_eq!(call(SYS_clone, with(0, (flag | SIGCHLD) as u64)), NOT_PERMITTED, "{flag:#x}");
    }
}

/// The kernel ignores the upper half of an int argument, and so must the filter.
#[test]
fn terminal_injection_is_refused_with_any_upper_bits() {
    const TIOCLINUX: u64 = 0x541c;
    for request in [TIOCSTI, TIOCLINUX, 0x5423 /* TIOCSETD */] {
        for upper in [0, 1 << 32, 0xffff_ffff << 32] {
            assert_eq!(call(SYS_ioctl, with(1, request | upper)), NOT_PERMITTED, "{request:#x}");
        }
    }
    for request in [TCGETS, FIONBIO, FIONREAD, FIOCLEX, TIOCGWINSZ, FICLONE, SIOCGIFCONF] {
        assert_eq!(call(SYS_ioctl, with(1, request)), ALLOW, "{request:#x}");
    }
}

#[test]
fn sockets_follow_the_network() {
    let try_socket = |network, family: i32, kind: i32, protocol: i32| {
        let arguments = [family as u64, kind as u64, protocol as u64, 0, 0, 0];
        judge(full(network), OURS, u32::try_from(SYS_socket).unwrap(), arguments)
    };
    let stream = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    for network in [Network::None, Network::Loopback, Network::Trusted, Network::Full] {
        let internet = if network == Network::None { NOT_PERMITTED } else { ALLOW };
        assert_eq!(try_socket(network, AF_UNIX, stream, 0), ALLOW);
        assert_eq!(try_socket(network, AF_INET, stream, 0), internet);
        assert_eq!(try_socket(network, AF_INET6, SOCK_DGRAM, IPPROTO_UDP), internet);
        for family in [AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG, AF_XDP, AF_TIPC, AF_BLUETOOTH] {
            assert_eq!(try_socket(network, family, SOCK_RAW, 0), NOT_PERMITTED, "{family}");
            assert_eq!(try_socket(network, family, SOCK_DGRAM, 0), NOT_PERMITTED, "{family}");
        }
        for (kind, protocol) in [(SOCK_RAW, 1), (SOCK_STREAM, IPPROTO_SCTP), (SOCK_STREAM, 262)] {
            assert_eq!(try_socket(network, AF_INET, kind, protocol), NOT_PERMITTED);
        }
    }
    assert_eq!(call(SYS_socketpair, with(0, AF_UNIX as u64)), ALLOW);
    assert_eq!(call(SYS_socketpair, with(0, AF_TIPC as u64)), NOT_PERMITTED);
}

#[test]
fn call_allowed_by_argument_is_refused_with_other_arguments() {
    assert_eq!(call(SYS_personality, with(0, 0xffff_ffff)), ALLOW);
    assert_eq!(call(SYS_personality, with(0, 0x0004_0000)), NOT_PERMITTED, "ADDR_NO_RANDOMIZE");
    assert_eq!(call(SYS_prctl, with(0, PR_SET_NAME as u64)), ALLOW);
    for option in [PR_SET_MM, PR_SET_SECCOMP, PR_SET_PTRACER, PR_SET_SECUREBITS, PR_CAP_AMBIENT] {
        assert_eq!(call(SYS_prctl, with(0, option as u64)), NOT_PERMITTED, "{option}");
    }
    assert_eq!(call(SYS_mknodat, with(2, (S_IFIFO | 0o600).into())), ALLOW);
    for kind in [S_IFCHR, S_IFBLK] {
        assert_eq!(call(SYS_mknodat, with(2, (kind | 0o600).into())), NOT_PERMITTED);
    }
    assert_eq!(call(SYS_prlimit64, [0, 7, 1, 0, 0, 0]), ALLOW, "its own");
    assert_eq!(call(SYS_prlimit64, [9, 7, 0, 1, 0, 0]), ALLOW, "reading another's");
    assert_eq!(call(SYS_setrlimit, [7, 1, 0, 0, 0, 0]), ALLOW);
    for upper in [0, 1 << 32] {
        let core = u64::from(RLIMIT_CORE) | upper;
        assert_eq!(call(SYS_setrlimit, [core, 1, 0, 0, 0, 0]), NOT_PERMITTED);
        assert_eq!(call(SYS_prlimit64, [0, core, 1, 0, 0, 0]), NOT_PERMITTED);
        assert_eq!(call(SYS_prlimit64, [0, core, 0, 1, 0, 0]), ALLOW, "reading it");
    }
    for new_limit in [1, 1 << 32] {
        assert_eq!(call(SYS_prlimit64, [9, 7, new_limit, 0, 0, 0]), NOT_PERMITTED);
    }
    let option =
        |level: i32, name: i32| call(SYS_setsockopt, [3, level as u64, name as u64, 0, 0, 0]);
    assert_eq!(option(SOL_SOCKET, SO_REUSEADDR), ALLOW);
    assert_eq!(option(IPPROTO_TCP, SO_ATTACH_FILTER), ALLOW, "another level's option 26");
    assert_eq!(option(SOL_SOCKET, SO_ATTACH_FILTER), NOT_PERMITTED);
    assert_eq!(option(SOL_SOCKET, SO_ATTACH_BPF), NOT_PERMITTED);
}

#[test]
fn the_filter_holds_in_a_real_process() {
    fixture::in_child(concat!(module_path!(), "::the_filter_holds_in_a_real_process"), || {
        let context = fixture::context(&[Layer::Seccomp], Network::None, Path::new("/"));
        nix::sched::unshare(CloneFlags::empty()).unwrap();
        assert!(Seccomp.verify(&context).is_err(), "verified without a filter");

        Seccomp.restrict(&context).unwrap();

        assert_eq!(nix::sched::unshare(CloneFlags::empty()), Err(nix::errno::Errno::EPERM));
        assert_eq!(Seccomp.verify(&context).unwrap().status, Status::Enforced);
        assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        assert!(Command::new("/bin/true").status().unwrap().success());
    });
}

#[test]
fn verification_fails_on_an_answer_that_is_not_the_filters() {
    use nix::errno::Errno;
    let check = |result| super::fails_with("call", result, Errno::EPERM).map_err(|e| e.to_string());
    assert_eq!(check(Err(Errno::EPERM)), Ok(()));
    assert!(check(Ok(())).is_err_and(|text| text.contains("it succeeded")));
    assert!(check(Err(Errno::ENOSYS)).is_err_and(|text| text.contains("EPERM on call")));
}

#[test]
fn the_report_counts_the_calls_that_are_not_refused() {
    let is_allowed = |number: &c_long| {
        let number = u32::try_from(*number).unwrap();
        // Those by argument: whatever the filter does, it has a program for them.
        arguments::CHECKED.contains(&number.into())
            || [ALLOW, SECCOMP_RET_ERRNO].contains(&judge(
                full(Network::Loopback),
                OURS,
                number,
                [0; 6],
            ))
    };
    let allowed = (0..=calls::NEWEST).filter(is_allowed).count();
    // sync and syncfs are without effect where files are the session's own, and else refused.
    assert_eq!(calls::count(), allowed - calls::WHOLE_FLUSHES.len());
}
