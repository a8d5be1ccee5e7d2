#![allow(clippy::cast_sign_loss)] // a call's registers
use std::collections::BTreeSet;
use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, socket, socketpair};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::{Pid, getpid};

use super::super::super::landlock::fixture;
use super::super::tests::{ALLOW, NOT_PERMITTED, answer, with};
use super::*;

#[test]
fn no_call_is_listed_twice_and_all_exist() {
    let agent = [AGENT, AGENT_OF_ARCHITECTURE];
    let launcher = [REFUSED_TO_LAUNCHERS, REFUSED_OF_ARCHITECTURE];
    let numbers = |groups: [&[Call]; 2]| groups.concat().iter().map(|call| call.number).collect();
    let agent: Vec<c_long> = [numbers(agent), CHECKED.to_vec()].concat();
    for numbers in [agent, numbers(launcher)] {
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len(), "{numbers:?}");
    }
    let program = super::agent().unwrap();
    let by_number = (0..=super::super::calls::NEWEST)
        .filter(|number| !CHECKED.contains(number) && answer(&program, *number, [0; 6]) == ALLOW);
    assert_eq!(agent_calls(), by_number.count() + CHECKED.len());
}

#[test]
fn the_agent_makes_no_process_no_server_and_no_code() {
    let program = agent().unwrap();
    for number in [
        SYS_clone,
        SYS_execve,
        SYS_execveat,
        SYS_bind,
        SYS_listen,
        SYS_accept4,
        SYS_ptrace,
        SYS_mount,
        SYS_umount2,
        SYS_setns,
        SYS_unshare,
        SYS_setresuid,
        SYS_capset,
        SYS_chroot,
        SYS_pivot_root,
        SYS_bpf,
        SYS_process_vm_writev,
        SYS_prctl,
        SYS_seccomp,
        SYS_symlinkat,
        SYS_linkat,
        SYS_mknodat,
        SYS_keyctl,
        SYS_memfd_create,
        SYS_setsockopt,
    ] {
        assert_ne!(answer(&program, number, [0; 6]), ALLOW, "call {number}");
    }
    for number in [SYS_mmap, SYS_mprotect] {
        assert_eq!(answer(&program, number, with(2, bits(PROT_READ | PROT_WRITE).into())), ALLOW);
        assert_eq!(
            answer(&program, number, with(2, bits(PROT_READ | PROT_EXEC).into())),
            NOT_PERMITTED
        );
    }
    assert_eq!(answer(&program, SYS_ioctl, with(1, 0x5421)), ALLOW, "FIONBIO");
    assert_eq!(answer(&program, SYS_ioctl, with(1, 0x5412)), NOT_PERMITTED, "TIOCSTI");
}

#[test]
fn the_agents_sockets_are_of_tcp_or_connected_already() {
    let program = agent().unwrap();
    let of = |call, family, kind, protocol: c_int| {
        let arguments = [family, kind, protocol].map(|value| u64::from(bits(value)));
        answer(&program, call, [arguments[0], arguments[1], arguments[2], 0, 0, 0])
    };
    let tcp = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    for family in [AF_INET, AF_INET6] {
        assert_eq!(of(SYS_socket, family, tcp, 0), ALLOW);
        for kind in [SOCK_STREAM, SOCK_STREAM | SOCK_CLOEXEC, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET]
        {
            assert_eq!(of(SYS_socket, family, kind, 0), NOT_PERMITTED, "{kind}");
        }
        for protocol in [IPPROTO_TCP, IPPROTO_MPTCP, IPPROTO_SCTP, IPPROTO_ICMP] {
            assert_eq!(of(SYS_socket, family, tcp, protocol), NOT_PERMITTED, "{protocol}");
        }
    }
    for family in [AF_UNIX, AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG, AF_TIPC, AF_BLUETOOTH] {
        assert_eq!(of(SYS_socket, family, tcp, 0), NOT_PERMITTED, "{family}");
    }
    assert_eq!(of(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), ALLOW);
    for (family, kind) in
        [(AF_TIPC, SOCK_STREAM), (AF_UNIX, SOCK_DGRAM), (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)]
    {
        assert_eq!(of(SYS_socketpair, family, kind, 0), NOT_PERMITTED, "{family} {kind}");
    }
}

#[test]
fn a_launcher_can_spawn_kernels_and_touch_no_other_process() {
    let program = launcher().unwrap();
    for call in REFUSED_TO_LAUNCHERS.iter().chain(REFUSED_OF_ARCHITECTURE) {
        assert_eq!(answer(&program, call.number, [0; 6]), NOT_PERMITTED, "{}", call.name);
    }
    for number in [SYS_clone, SYS_clone3, SYS_setns, SYS_execve, SYS_setresuid, SYS_seccomp] {
        assert_eq!(answer(&program, number, [0; 6]), ALLOW, "call {number}");
    }
}

/// Each of these goes past the filter's place before there is one: it works, or fails by another
/// error.
#[test]
fn the_agents_filter_holds_in_a_real_process() {
    fixture::in_child(
        concat!(module_path!(), "::the_agents_filter_holds_in_a_real_process"),
        || {
            const TCP: SockFlag = SockFlag::SOCK_CLOEXEC.union(SockFlag::SOCK_NONBLOCK);
            type Attempt = (&'static str, fn() -> Result<(), Errno>);
            let attempts: [Attempt; 9] = [
                ("socket(AF_UNIX)", || {
                    socket(AddressFamily::Unix, SockType::Stream, TCP, None).map(drop)
                }),
                ("socket(AF_INET, SOCK_DGRAM)", || {
                    socket(AddressFamily::Inet, SockType::Datagram, TCP, None).map(drop)
                }),
                ("socketpair(SOCK_DGRAM)", || {
                    socketpair(AddressFamily::Unix, SockType::Datagram, None, TCP).map(drop)
                }),
                ("unshare", || unshare(CloneFlags::empty())),
                ("mount", || {
                    let none = None::<&str>;
                    mount(none, "/nonexistent", none, MsFlags::MS_BIND, none)
                }),
                ("memfd_create", || memfd_create(c"test", MFdFlags::empty()).map(drop)),
                ("process_vm_readv", || {
                    process_vm_readv(getpid(), &mut [], &[RemoteIoVec { base: 0, len: 0 }])
                        .map(drop)
                }),
                ("chroot", || nix::unistd::chroot("/nonexistent")),
                ("fork and execve", || {
                    let ended = Command::new("/bin/true").status();
                    ended.map(drop).map_err(|error| Errno::from_raw(error.raw_os_error().unwrap()))
                }),
            ];
            // Only root gets as far as these two's own checks.
            let is_root = nix::unistd::geteuid().is_root();
            for (name, attempt) in &attempts {
                if is_root || !matches!(*name, "mount" | "chroot") {
                    assert_ne!(attempt(), Err(Errno::EPERM), "{name} without a filter");
                }
            }
            assert!(read_back().is_err(), "read back without a filter");
            nix::sys::prctl::set_no_new_privs().unwrap();
            assert!(read_back().is_err(), "read back with half of it");

            confine_agent().unwrap();

            for (name, attempt) in attempts {
                assert_eq!(attempt(), Err(Errno::EPERM), "{name}");
            }
            let unix = AddressFamily::Unix;
            socketpair(unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC).unwrap();
            let tcp = socket(AddressFamily::Inet, SockType::Stream, TCP, None).unwrap();
            let nobody = SockaddrIn::new(127, 0, 0, 1, 1);
            let refused = nix::sys::socket::connect(tcp.as_raw_fd(), &nobody);
            assert_ne!(refused, Err(Errno::EPERM), "connect");
            nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
            std::fs::read("/proc/self/stat").unwrap();
            nix::sys::signal::kill(getpid(), None).unwrap();
            crate::sys::pidfd_open(Pid::this()).unwrap();
            assert_eq!(vec![7_u8; 4 << 20].iter().filter(|byte| **byte == 7).count(), 4 << 20);
        },
    );
}
