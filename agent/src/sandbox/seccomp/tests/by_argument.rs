//! Files, memory and scheduling, judged by the arguments of a call.

use super::*;

#[test]
fn files_are_not_watched() {
    for number in [SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch] {
        assert_eq!(call(number, [0; 6]), NO_SUCH_CALL, "call {number}");
    }
    #[cfg(target_arch = "x86_64")]
    assert_eq!(call(SYS_inotify_init, [0; 6]), NO_SUCH_CALL);
    for command in [F_SETLEASE, F_NOTIFY] {
        assert_eq!(call(SYS_fcntl, with(1, command as u64)), NOT_PERMITTED, "{command}");
    }
    for command in [F_DUPFD_CLOEXEC, F_SETFL, F_SETLK, F_OFD_SETLK, F_SETPIPE_SZ, F_ADD_SEALS] {
        assert_eq!(call(SYS_fcntl, with(1, command as u64)), ALLOW, "{command}");
    }
}

/// The calls that make or change a mode, each with the number of that argument.
const MODES: &[(c_long, usize)] = &[
    (SYS_fchmod, 1),
    (SYS_fchmodat, 2),
    (calls::fchmodat2, 2),
    (SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (SYS_mknod, 1),
];

/// The calls that open, with the numbers of flags and mode.
const OPENS: &[(c_long, usize, usize)] = &[
    (SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (SYS_open, 1, 2),
];

#[test]
fn no_file_is_made_or_given_a_set_id_bit() {
    for (number, argument) in MODES {
        for mode in [0, 0o777, S_ISVTX | 0o777] {
            assert_eq!(call(*number, with(*argument, mode.into())), ALLOW, "{number} {mode:o}");
        }
        for mode in [S_ISUID, S_ISGID | 0o755, S_ISUID | S_ISGID | S_ISVTX] {
            for mode in [u64::from(mode), u64::from(mode) | 0xffff << 16 | 1 << 32] {
                assert_eq!(
                    call(*number, with(*argument, mode)),
                    NOT_PERMITTED,
                    "{number} {mode:o}"
                );
            }
        }
    }
    for (number, flags_at, mode_at) in OPENS {
        let open = |flags: i32, mode: u32| {
            let mut arguments = with(*flags_at, flags as u64);
            arguments[*mode_at] = mode.into();
            call(*number, arguments)
        };
        for flags in [O_CREAT | O_WRONLY, O_TMPFILE | O_RDWR, O_CREAT | O_EXCL | O_CLOEXEC] {
            assert_eq!(open(flags, 0o666), ALLOW);
            assert_eq!(open(flags, S_ISUID | 0o755), NOT_PERMITTED, "{flags:#o}");
            assert_eq!(open(flags, S_ISGID), NOT_PERMITTED, "{flags:#o}");
        }
        // Libraries leave any value where no mode is looked at.
        assert_eq!(open(O_RDONLY | O_DIRECTORY, u32::MAX), ALLOW);
    }
}

#[test]
fn flushes_have_no_effect_where_there_is_nothing_to_flush() {
    let shared = Profile { own_files: false, ..full(Network::Loopback) };
    for number in [SYS_fsync, SYS_fdatasync, SYS_sync_file_range] {
        assert_eq!(call(number, [0; 6]), SECCOMP_RET_ERRNO, "call {number}");
        assert_eq!(call_of(shared, number, [0; 6]), ALLOW, "call {number}");
    }
    for number in [SYS_sync, SYS_syncfs] {
        assert_eq!(call(number, [0; 6]), SECCOMP_RET_ERRNO, "call {number}");
        assert_eq!(call_of(shared, number, [0; 6]), NOT_PERMITTED, "call {number}");
    }
}

#[test]
fn scheduling_other_processes_needs_own_pid_namespace() {
    let shared = Profile { own_pids: false, ..full(Network::Loopback) };
    for (number, own, other) in [
        (SYS_sched_setaffinity, [0; 6], [7, 0, 0, 0, 0, 0]),
        (
            SYS_setpriority,
            [PRIO_PROCESS.into(), 0, 5, 0, 0, 0],
            [PRIO_PROCESS.into(), 7, 5, 0, 0, 0],
        ),
        (SYS_setpriority, [PRIO_PGRP.into(), 0, 5, 0, 0, 0], [PRIO_PGRP.into(), 7, 5, 0, 0, 0]),
        (SYS_setpriority, [0; 6], [PRIO_USER.into(), 0, 5, 0, 0, 0]),
    ] {
        assert_eq!((call(number, own), call(number, other)), (ALLOW, ALLOW), "{number}");
        assert_eq!(call_of(shared, number, own), ALLOW, "{number} {own:?}");
        assert_eq!(call_of(shared, number, other), NOT_PERMITTED, "{number} {other:?}");
    }
}

#[test]
fn memory_and_page_cache_tell_nothing_of_others() {
    const NOT_SUPPORTED: u32 = SECCOMP_RET_ERRNO | EOPNOTSUPP.cast_unsigned();
    assert_eq!(call(SYS_mmap, with(3, (MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE) as u64)), ALLOW);
    assert_eq!(call(SYS_mmap, with(3, (MAP_PRIVATE | MAP_HUGETLB) as u64)), NOT_PERMITTED);
    assert_eq!(call(SYS_memfd_create, with(1, MFD_CLOEXEC.into())), ALLOW);
    assert_eq!(call(SYS_memfd_create, with(1, MFD_HUGETLB.into())), NOT_PERMITTED);
    assert_eq!(call(SYS_madvise, with(2, MADV_DONTNEED as u64)), ALLOW);
    for advice in [MADV_MERGEABLE, MADV_PAGEOUT] {
        assert_eq!(call(SYS_madvise, with(2, advice as u64)), NOT_PERMITTED, "{advice}");
    }
    assert_eq!(call(SYS_fadvise64, with(3, POSIX_FADV_SEQUENTIAL as u64)), ALLOW);
    assert_eq!(call(SYS_fadvise64, with(3, POSIX_FADV_DONTNEED as u64)), SECCOMP_RET_ERRNO);
    for number in [SYS_preadv2, SYS_pwritev2] {
        for flags in [0, RWF_DSYNC, RWF_SYNC | RWF_APPEND] {
            assert_eq!(call(number, with(5, flags as u64)), ALLOW, "{number} {flags:#x}");
        }
        for flags in [RWF_NOWAIT, RWF_NOWAIT | RWF_APPEND, RWF_HIPRI] {
            assert_eq!(call(number, with(5, flags as u64)), NOT_SUPPORTED, "{number} {flags:#x}");
        }
    }
}
