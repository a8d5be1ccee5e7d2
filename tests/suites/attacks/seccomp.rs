//! System calls that tenants do not get.

use vivarium_tests::{probe, wait};

mod arguments;

use super::contrast;
use crate::every_way::{daemon, setup};

/// Attack, with the filter, and without it. A null pointer or descriptor -1 shows, by EFAULT or
/// EBADF, that the call itself was reached. Kernels that are built without a call say ENOSYS.
const CALLS: &[(&str, &str, &str)] = &[
    ("call('ptrace', 0, 0, 0, 0)", "EPERM", "works"),
    ("copy_across('process_vm_readv')", "EPERM", "works"),
    ("copy_across('process_vm_writev')", "EPERM", "works"),
    ("call('kcmp', os.getpid(), os.getpid(), 1, 0, 0)", "EPERM", "works|ENOSYS"),
    ("call('pidfd_getfd', call('pidfd_open', os.getpid(), 0), 1, 0)", "EPERM", "works"),
    // Mounts.
    ("call('mount', None, None, None, 0, None)", "EPERM", "EFAULT"),
    ("call('umount2', None, 0)", "EPERM", "EFAULT"),
    ("call('open_tree', -1, None, 0)", "EPERM", "EFAULT"),
    ("call('fsconfig', -1, 0, None, None, 0)", "EPERM", "EINVAL"),
    ("call('mount_setattr', -1, None, 0x10000000, None, 0)", "EPERM", "EINVAL"),
    ("call('chroot', None)", "EPERM", "EFAULT"),
    // Namespaces.
    ("clone_with(0)", "works", "works"),
    ("call('clone3', None, 0)", "ENOSYS", "EINVAL"),
    ("call('setns', -1, 0)", "EPERM", "EBADF"),
    // Keys: one keyring of the host's user would be shared by sessions.
    ("call('keyctl', 1, None)", "EPERM", "works|ENOSYS"),
    ("call('add_key', 'user', 'vivarium', 'x', 1, -2)", "EPERM", "works|ENOSYS"),
    ("call('request_key', 'user', 'no-such-key', None, 0)", "EPERM", "ENOKEY|ENOSYS"),
    // Large and often broken parts of the kernel.
    ("call('bpf', 0x7fff, None, 0)", "EPERM", "EINVAL|ENOSYS"),
    ("call('perf_event_open', None, 0, -1, -1, 0x7fff)", "EPERM", "EINVAL|ENOSYS"),
    ("call('userfaultfd', 1)", "EPERM", "works|ENOSYS"),
    ("call('io_uring_setup', 1, zeroed(120))", "EPERM", "works|ENOSYS"),
    ("call('io_uring_enter', -1, 0, 0, 0, None, 0)", "EPERM", "EBADF|ENOSYS"),
    ("call('io_uring_register', -1, 0, None, 0)", "EPERM", "EINVAL|EBADF|ENOSYS"),
    ("call('name_to_handle_at', -100, '/usr', pack_handle(), zeroed(8), 0)", "EPERM", "EOVERFLOW"),
    ("call('quotactl', 0xff, None, 0, None)", "EPERM", "EINVAL|ENOSYS"),
    ("call('seccomp', 2, 0, zeroed(4))", "EPERM", "works"),
    ("call('memfd_secret', 0)", "EPERM", "works|ENOSYS"),
    ("call('msgget', 0, 0o1600)", "EPERM", "works|ENOSYS"),
    ("call('shmget', 0, 4096, 0o1600)", "EPERM", "works|ENOSYS"),
    ("call('execveat', -1, None, None, None, 0)", "ENOSYS", "EFAULT"),
    ("call('personality', 0x0040000)", "EPERM", "works"),
    ("call('personality', 0xffffffff)", "works", "works"),
    // The clock. Its arguments are read before the capability for it is asked for.
    ("call('clock_settime', 0, None)", "EPERM", "EFAULT"),
    ("call('settimeofday', 1, None)", "EPERM", "EFAULT"),
    ("call('adjtimex', None)", "EPERM", "EFAULT"),
    ("call('clock_adjtime', 0, None)", "EPERM", "EFAULT"),
    // Typing into a terminal. Descriptor 0 is /dev/null, which knows no such request.
    ("ioctl(0, 0x5412)", "EPERM", "ENOTTY"),
    ("ioctl(0, 0x541c)", "EPERM", "ENOTTY"),
    // Families and protocols of sockets. What the host has no module for it says itself.
    ("make_socket(socket.AF_NETLINK, socket.SOCK_RAW)", "EPERM", "works"),
    ("make_socket(40)", "EPERM", "works|EAFNOSUPPORT"),
    ("make_socket(38, socket.SOCK_SEQPACKET)", "EPERM", "works|EAFNOSUPPORT"),
    ("make_socket(socket.AF_INET, socket.SOCK_STREAM, 132)", "EPERM", "works|EPROTONOSUPPORT"),
    ("make_socket(socket.AF_INET, socket.SOCK_STREAM, 262)", "EPERM", "works|EPROTONOSUPPORT"),
    ("make_socket(socket.AF_INET)", "works", "works"),
    ("make_socket(socket.AF_INET6)", "works", "works"),
    ("make_socket(socket.AF_UNIX)", "works", "works"),
];

/// The same, of what takes a user namespace of the attacker's own. Without the mounts layer that has
/// no limits (attacks/namespaces.rs), so these controls are without it too.
const CALLS_IN_NAMESPACES: &[(&str, &str, &str)] = &[
    ("in_own_user_namespace(lambda: call('move_mount', -1, None, -1, None, 0))", "EPERM", "EFAULT"),
    ("in_own_user_namespace(lambda: call('fsopen', 'tmpfs', 0))", "EPERM", "works"),
    ("in_own_user_namespace(lambda: call('fsmount', -1, 0, 0))", "EPERM", "EBADF"),
    ("in_own_user_namespace(lambda: call('fspick', -1, None, 0))", "EPERM", "EFAULT"),
    ("in_own_user_namespace(lambda: call('pivot_root', None, None))", "EPERM", "EFAULT"),
    ("call('unshare', NEWUSER)", "EPERM", "works"),
    ("clone_with(NEWUSER)", "EPERM", "works"),
    ("clone_with(NEWUSER | NEWNS)", "EPERM", "works"),
    ("clone_with(NEWUSER | NEWNET)", "EPERM", "works"),
    ("in_own_user_namespace(lambda: call('sethostname', 'x', 1), NEWUTS)", "EPERM", "works"),
    ("in_own_user_namespace(lambda: call('setdomainname', 'x', 1), NEWUTS)", "EPERM", "works"),
    (
        "in_own_user_namespace(lambda: make_socket(socket.AF_PACKET, socket.SOCK_DGRAM), NEWNET)",
        "EPERM",
        "works|EAFNOSUPPORT",
    ),
    (
        "in_own_user_namespace(lambda: make_socket(socket.AF_INET, socket.SOCK_RAW, 1), NEWNET)",
        "EPERM",
        "works",
    ),
];

/// Calls that the missing capabilities refuse as well, whatever the arguments: the filter is
/// the second lock here, and taking it away alone must not open the door.
const LOCKED_TWICE: &[&str] = &[
    "call('open_by_handle_at', -1, None, 0)",
    "call('kexec_load', 0, 0, None, 0)",
    "call('kexec_file_load', -1, -1, 0, None, 0)",
    "call('init_module', None, 0, None)",
    "call('finit_module', -1, None, 0)",
    "call('delete_module', None, 0)",
    "call('reboot', 0, 0, 0, None)",
    "call('swapon', None, 0)",
    "call('swapoff', None)",
    "call('acct', None)",
    "call('vhangup')",
    "call('nfsservctl', 0, None, None)",
    "call('lookup_dcookie', 0, None, 0)",
    "call('quotactl_fd', -1, 0xff, 0, None)",
    "call('fanotify_init', 0x7fffffff, 0)",
    "call('syslog', 10, None, 0)",
    "call('mknodat', -100, '/workspace/node', 0o020600, 0x0103)",
];

#[test]
fn each_call_off_the_list_is_refused() {
    contrast(&["seccomp"], CALLS);
    contrast(&["seccomp", "mounts"], CALLS_IN_NAMESPACES);
}

#[test]
fn calls_that_need_a_capability_are_locked_twice() {
    let rows: Vec<_> = LOCKED_TWICE
        .iter()
        .map(|call| (*call, "EPERM", "EPERM|EACCES|ENOSYS|EFAULT|EBADF|EINVAL"))
        .collect();
    contrast(&["seccomp"], &rows);
}

#[test]
fn mounting_is_refused_by_each_of_three_layers() {
    let mount = "in_own_user_namespace(lambda: call('mount', 'none', '/tmp', 'tmpfs', 0, None))";
    contrast(&["seccomp"], &[(mount, "EPERM", "EPERM")]);
    // The limits of the mounts layer, and Landlock.
    contrast(&["seccomp", "landlock"], &[(mount, "EPERM", "EPERM")]);
    contrast(&["seccomp", "mounts"], &[(mount, "EPERM", "EPERM")]);
    contrast(&["seccomp", "landlock", "mounts"], &[(mount, "EPERM", "works")]);
}

#[test]
fn without_a_network_there_are_unix_sockets_only() {
    let rows = [
        ("make_socket(socket.AF_INET)", "EPERM", "works"),
        ("make_socket(socket.AF_INET6)", "EPERM", "works"),
        ("make_socket(socket.AF_UNIX)", "works", "works"),
    ];
    for (off, words) in [(false, 1), (true, 2)] {
        let layers: &[&str] = if off { &["seccomp"] } else { &[] };
        let daemon = setup().config("sandbox", "network = \"none\"").without(layers).start();
        let session = daemon.session();
        let table: Vec<_> =
            rows.iter().map(|row| (row.0, if words == 1 { row.1 } else { row.2 })).collect();
        probe::check(&session, &table);
    }
}

#[test]
fn foreign_entries_to_the_kernel_are_closed() {
    contrast(&["seccomp"], FOREIGN);
}

/// Not every kernel and CPU has these.
#[cfg(target_arch = "x86_64")]
const FOREIGN: &[(&str, &str, &str)] = &[
    // x32 is another ABI of the same architecture: refused.
    ("call(0x40000000 + 39)", "EPERM", "works|ENOSYS"),
    // i386 is another architecture: killed.
    ("int80()", "SIGSYS", "works|SIGSEGV"),
    ("call('modify_ldt', 0, zeroed(16), 16)", "EPERM", "works|ENOSYS"),
    ("call('iopl', 0)", "EPERM", "works|ENOSYS"),
    ("call('ioperm', 0, 0, 1)", "EPERM", "EINVAL|ENOSYS"),
];
#[cfg(target_arch = "aarch64")]
const FOREIGN: &[(&str, &str, &str)] = &[("execute_arm32()", "SIGSYS|ENOEXEC", "works|ENOEXEC")];

#[test]
fn the_filter_can_not_be_taken_off_and_is_inherited() {
    let daemon = daemon();
    let session = daemon.session();
    probe::load(&session);
    let mode = |expression: &str| probe::Attempt::make(&session, expression).value();
    assert_eq!(mode("seccomp_mode()"), 2);
    let child = "int(execute('/bin/sh', '-c', 'grep Seccomp: /proc/self/status').split()[1])";
    assert_eq!(mode(child), 2);
    daemon.stop_and_check();
}

/// Read from outside, of every session there is.
#[test]
fn agent_and_launcher_have_filters_of_their_own() {
    for (disabled, filter) in [(&[][..], (Some(2), true)), (&["seccomp"][..], (Some(0), false))] {
        let daemon = setup().without(disabled).start();
        let session = daemon.session();
        assert_eq!(session.value("6 * 7"), "42");
        daemon.until_only(1);
        // One of the pool may be just starting.
        wait::until_true("agents and launchers with filters, or without any", || {
            let mut ours = daemon.descendants();
            ours.retain(|one| one.name == "viv-agent" || one.name == "viv-launcher");
            assert_eq!(ours.len(), 2 * (1 + crate::START_MODE.waiting()), "{ours:?}");
            ours.iter().all(|one| one.status_number("Seccomp") == filter.0)
                && (filter.0 == Some(0)
                    || ours.iter().all(|one| one.status_number("NoNewPrivs") == Some(1)))
        });
        let detail = session.layer("seccomp")["detail"].to_string();
        assert_eq!(detail.contains("the agent's own allows"), filter.1, "{detail}");
        daemon.stop_and_check();
    }
}
