//! What this program forbids itself once it has started. The session's filter has to let it be executed, by a call
//! whose path no filter can see, and have its control socket signal it, and lets it add this one.

use std::io;

use libc::sock_filter;

use crate::ffi;

/// `AUDIT_ARCH_*` of linux/audit.h: calls of another architecture have other numbers.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
/// `__X32_SYSCALL_BIT`: from here on they are those of the x32 ABI, which has execveat too.
const X32: u32 = 0x4000_0000;

/// Where they are in `struct seccomp_data`.
const NUMBER: u32 = 0;
const OF_ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const SECOND_ARGUMENT: u32 = 24;

/// Commands of fcntl(2) that have a descriptor send signals to others: asm-generic/fcntl.h, where libc has none.
const SIGNALLING: [i32; 3] = [libc::F_SETOWN, F_SETSIG, F_SETOWN_EX];
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;

// Instructions of linux/bpf_common.h: BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ, BPF_JMP | BPF_JGE, BPF_RET.
const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const ANSWER: u16 = 0x06;

const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();

/// Forbids this process to execute a program, to have a descriptor send signals, and to add a filter.
pub fn install() -> io::Result<()> {
    ffi::add_filter(&mut program())
}

fn program() -> Vec<sock_filter> {
    let mut made = vec![
        step(LOAD, OF_ARCHITECTURE, 0, 0),
        step(IF_EQUAL, ARCHITECTURE, 1, 0),
        step(ANSWER, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        step(LOAD, NUMBER, 0, 0),
        step(IF_AT_LEAST, X32, 0, 1),
        step(ANSWER, REFUSED, 0, 0),
    ];
    for call in [libc::SYS_execve, libc::SYS_execveat, libc::SYS_seccomp] {
        made.extend(refuse_if(number(call)));
    }
    made.extend(refuse_argument(libc::SYS_prctl, FIRST_ARGUMENT, &[libc::PR_SET_SECCOMP]));
    made.extend(refuse_argument(libc::SYS_fcntl, SECOND_ARGUMENT, &SIGNALLING));
    made.push(step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0));
    made
}

/// Decides the call: refuses it with one of these values at `offset`. Goes on if it is another.
fn refuse_argument(call: libc::c_long, offset: u32, values: &[i32]) -> Vec<sock_filter> {
    let refusals = values.iter().flat_map(|value| refuse_if(value.cast_unsigned()));
    let mut made = vec![step(LOAD, offset, 0, 0)];
    made.extend(refusals);
    made.push(step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0));
    let behind = u8::try_from(made.len()).unwrap_or(u8::MAX);
    made.insert(0, step(IF_EQUAL, number(call), 0, behind));
    made
}

const fn step(code: u16, k: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code, jt: then, jf: otherwise, k }
}

/// Refuses the call if what is loaded is this, and else goes on.
const fn refuse_if(value: u32) -> [sock_filter; 2] {
    [step(IF_EQUAL, value, 0, 1), step(ANSWER, REFUSED, 0, 0)]
}

/// Of a call of this architecture.
fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(X32)
}
