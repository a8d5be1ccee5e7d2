//! Calls that make files, change their modes, or tell of their use by others.

use std::ffi::c_int;

use super::super::rules::{Rules, bits, differs, equal, masked, one};

/// What gives a program its file's owner or group. Not here: the sticky bit, which directories
/// for many need and which gives nobody anything. mkdir(2) ignores set-id bits by itself.
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;

/// A mode without set-id bits.
pub(super) fn mode(argument: u8) -> Rules {
    one(masked(argument, SET_ID, 0))
}

/// Opens that make no file, whose mode the kernel does not look at, or one without set-id bits.
pub(super) fn open(flags_argument: u8, mode_argument: u8) -> Rules {
    // Of O_TMPFILE the part that is not O_DIRECTORY.
    const MAKES_FILE: c_int = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    vec![vec![masked(flags_argument, bits(MAKES_FILE), 0)], vec![masked(mode_argument, SET_ID, 0)]]
}

/// Files, FIFOs and sockets without set-id bits; no devices.
pub(super) fn make_node(mode_argument: u8) -> Rules {
    let looked_at = libc::S_IFMT | SET_ID;
    // A mode without a type is a regular file: mknod(2).
    [0, libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK]
        .into_iter()
        .map(|kind| vec![masked(mode_argument, looked_at, kind)])
        .collect()
}

/// Everything but leases, which keep others from opening a file for up to
/// `/proc/sys/fs/lease-break-time`, and F_NOTIFY, which tells what others do in a directory. With runtime
/// `wasm` nothing either that has a descriptor send signals, to whomever: but for the control socket, which the
/// program has signal itself before it forbids itself this one too.
pub(super) fn control(wasm: bool) -> Rules {
    // asm-generic/fcntl.h; libc does not have them on both architectures.
    const F_SETSIG: c_int = 10;
    const F_SETOWN_EX: c_int = 15;
    const CONTROL: c_int = 3;
    let mut refused = vec![libc::F_SETLEASE, libc::F_NOTIFY];
    let mut rules = Rules::new();
    if wasm {
        refused.extend([libc::F_SETOWN, F_SETSIG, F_SETOWN_EX]);
        rules.push(vec![equal(0, bits(CONTROL)), equal(1, bits(libc::F_SETOWN))]);
    }
    rules.push(refused.into_iter().map(|command| differs(1, bits(command))).collect());
    rules
}

/// Everything but dropping a file from memory, where others use it as well.
pub(super) fn advice() -> Rules {
    one(differs(3, bits(libc::POSIX_FADV_DONTNEED)))
}

/// preadv2 and pwritev2 with flags that are about one's own data. Not here: RWF_NOWAIT, which tells
/// what others have read; RWF_HIPRI and RWF_DONTCACHE.
pub(super) fn vectored() -> Rules {
    const RWF_NOAPPEND: c_int = 0x20;
    const ALLOWED: c_int = libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND | RWF_NOAPPEND;
    one(masked(5, bits(!ALLOWED), 0))
}
