#![allow(clippy::cast_sign_loss)] // a call's registers
use std::collections::BTreeSet;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket, socketpair};
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
fn the_agent_makes_no_process_no_connection_and_no_code() {
    let program = agent().unwrap();
    for number in [
        SYS_clone,
        SYS_execve,
        SYS_execveat,
        SYS_socket,
        SYS_connect,
        SYS_bind,
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
    assert_eq!(answer(&program, SYS_socketpair, with(0, bits(AF_UNIX).into())), ALLOW);
    assert_eq!(answer(&program, SYS_socketpair, with(0, bits(AF_TIPC).into())), NOT_PERMITTED);
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
            type Attempt = (&'static str, fn() -> Result<(), Errno>);
            let attempts: [Attempt; 7] = [
                ("socket(AF_INET)", || {
                    let flags = SockFlag::SOCK_CLOEXEC;
                    socket(AddressFamily::Inet, SockType::Stream, flags, None).map(drop)
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
            nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
            std::fs::read("/proc/self/stat").unwrap();
            nix::sys::signal::kill(getpid(), None).unwrap();
            crate::sys::pidfd_open(Pid::this()).unwrap();
            assert_eq!(vec![7_u8; 4 << 20].iter().filter(|byte| **byte == 7).count(), 4 << 20);
        },
    );
}
