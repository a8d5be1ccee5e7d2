//! System calls that tenants get for some arguments only.
//!
//! Descriptor -1 shows by EBADF that the call itself was reached, and by success that it was not.

use vivarium_tests::probe;

use super::super::{contrast, with_and_without};
use crate::every_way::setup;

#[test]
fn no_file_is_made_or_given_a_set_id_bit() {
    contrast(
        &["seccomp"],
        &[
            ("call('chmod', made('a'), 0o4755)", "EPERM|ENOSYS", "works|ENOSYS"),
            ("call('fchmod', opened(made('b')), 0o2755)", "EPERM", "works"),
            ("call('fchmodat', -100, made('c'), 0o6755)", "EPERM", "works"),
            ("call('fchmodat2', -100, made('d'), 0o4755, 0)", "EPERM", "works|ENOSYS"),
            ("call('mknod', fresh('e'), 0o104755, 0)", "EPERM|ENOSYS", "works|ENOSYS"),
            ("call('mknodat', -100, fresh('f'), 0o104755, 0)", "EPERM", "works"),
            ("call('mknodat', -100, fresh('g'), 0o014755, 0)", "EPERM", "works"),
            ("call('open', fresh('h'), os.O_CREAT, 0o4755)", "EPERM|ENOSYS", "works|ENOSYS"),
            ("call('creat', fresh('i'), 0o2755)", "EPERM|ENOSYS", "works|ENOSYS"),
            (
                "call('openat', -100, fresh('j'), os.O_CREAT | os.O_WRONLY, 0o4755)",
                "EPERM",
                "works",
            ),
            ("call('openat', -100, HOME, os.O_TMPFILE | os.O_RDWR, 0o4755)", "EPERM", "works"),
            ("call('openat2', -100, fresh('k'), how(os.O_CREAT, 0o4755), 24)", "ENOSYS", "works"),
            // The same without those bits, and with the sticky bit, which is no set-id bit.
            ("call('openat', -100, fresh('l'), os.O_CREAT | os.O_WRONLY, 0o755)", "works", "works"),
            ("call('openat', -100, HOME, os.O_TMPFILE | os.O_RDWR, 0o600)", "works", "works"),
            ("call('mknodat', -100, fresh('m'), 0o100755, 0)", "works", "works"),
            ("os.mkfifo(fresh('n'))", "works", "works"),
            ("os.chmod(made('o'), 0o1755)", "works", "works"),
        ],
    );
}

/// Which is why the filter leaves mkdir alone.
#[test]
fn the_kernel_itself_makes_no_directory_with_a_set_id_bit() {
    let daemon = setup().without(&["seccomp"]).start();
    let session = daemon.session();
    probe::load(&session);
    let make = "mode_after(lambda path: call('mkdirat', -100, path, 0o6755), fresh('d'))";
    assert_eq!(probe::Attempt::make(&session, make).value(), "0o755");
}

#[test]
fn nobody_is_watched_or_held_up() {
    contrast(
        &["seccomp"],
        &[
            ("call('inotify_init1', 0)", "ENOSYS", "works"),
            ("call('inotify_init')", "ENOSYS", "works|ENOSYS"),
            ("call('fcntl', opened(HOME), 1026, 1)", "EPERM", "works"), // F_NOTIFY, DN_ACCESS
            ("call('fcntl', opened(made('a')), 1024, 0)", "EPERM", "works"), // F_SETLEASE, F_RDLCK
            ("call('fcntl', opened(made('b')), 1025)", "works", "works"), // F_GETLEASE
        ],
    );
}

#[test]
fn the_page_cache_tells_nothing_and_forgets_nothing() {
    let read = "os.preadv(opened('/usr/bin/env'), [bytearray(1)], 0, %s)";
    contrast(
        &["seccomp"],
        &[
            (&read.replace("%s", "os.RWF_NOWAIT"), "ENOTSUP|EOPNOTSUPP", "works|EAGAIN"),
            (&read.replace("%s", "0"), "works", "works"),
            ("call('mincore', page(), 4096, zeroed(1))", "ENOSYS", "works"),
            ("call('madvise', page(), 4096, 21)", "EPERM", "works"), // MADV_PAGEOUT
            // POSIX_FADV_DONTNEED is answered and not done; POSIX_FADV_SEQUENTIAL is done.
            ("call('fadvise64', -1, 0, 0, 4)", "works", "EBADF"),
            ("call('fadvise64', -1, 0, 0, 2)", "EBADF", "EBADF"),
        ],
    );
}

#[test]
fn huge_pages_and_merged_pages_can_not_be_had() {
    let huge = "mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)";
    contrast(
        &["seccomp"],
        &[
            // None are set aside on most hosts.
            (huge, "EPERM", "works|ENOMEM|EINVAL"),
            ("call('memfd_create', 'a', 4)", "EPERM", "works|ENOSYS|ENOMEM|ENOENT"),
            ("call('memfd_create', 'a', 1)", "works", "works"),
            ("call('madvise', page(), 4096, 12)", "EPERM", "works|EINVAL"), // MADV_MERGEABLE
            ("call('madvise', page(), 4096, 4)", "works", "works"),         // MADV_DONTNEED
        ],
    );
}

/// Without the mounts layer the workdir is on a disk of the host's, and is flushed to it.
#[test]
fn the_hosts_disks_are_not_flushed_where_all_that_is_written_is_memory() {
    let flushes = [
        "call('fsync', -1)",
        "call('fdatasync', -1)",
        "call('sync_file_range', -1, 0, 0, 0)",
        "call('syncfs', -1)",
    ];
    let rows = |word: &'static str| flushes.map(|flush| (flush, word));
    with_and_without(&["seccomp"], &rows("works"), &rows("EBADF"));
    let daemon = setup().without(&["mounts"]).start();
    let [fsync, fdatasync, range, _] = rows("EBADF");
    let whole = [("call('syncfs', -1)", "EPERM"), ("call('sync')", "EPERM")];
    probe::check(&daemon.session(), &[fsync, fdatasync, range, whole[0], whole[1]]);
}

/// An attempt is made in a child: its parent is another process of the same user.
#[test]
fn without_a_pid_namespace_nobody_else_is_scheduled() {
    let rows = |other: &'static str| {
        [
            ("os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0))", other),
            ("os.setpriority(os.PRIO_PROCESS, os.getppid(), os.getpriority(0, 0))", other),
            ("os.sched_setaffinity(0, os.sched_getaffinity(0))", "works"),
            ("os.setpriority(os.PRIO_PROCESS, 0, 19)", "works"),
        ]
    };
    let shared = setup().without(&["namespaces"]).start();
    probe::check(&shared.session(), &rows("EPERM"));
    with_and_without(&["seccomp"], &rows("works"), &rows("works"));
    let control = setup().without(&["namespaces", "seccomp"]).start();
    probe::check(&control.session(), &rows("works"));
}
