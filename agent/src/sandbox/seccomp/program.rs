//! The BPF program: ours for what is decided by the call's number alone, then seccompiler's for
//! the calls that are decided by their arguments.
//!
//! The kernel walks it once per call number when it is installed, and remembers the numbers it
//! allows whatever the arguments (Linux 5.11, kernel/seccomp.c, `seccomp_cache_prepare`): those
//! never run it again. So its length is paid for at every kernel's start. With the numbers as
//! ranges it is a third as long as with a comparison for each, and installs in half the time.

use std::ffi::c_long;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompFilter, TargetArch, sock_filter,
};
use vivarium_protocol::policy::Network;

use super::{arguments, calls};

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramError {
    /// seccompiler refused a rule.
    #[error("{0}")]
    Compile(#[from] BackendError),
    /// A number that is no call's.
    #[error("call number {0} is out of range")]
    Number(c_long),
}

// Instructions: the kernel's Documentation/networking/filter.rst and include/uapi/linux/
// bpf_common.h. Fields of what is looked at: struct seccomp_data in seccomp(2).
const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_GREATER: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
const JUMP_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;

/// Our own architecture: AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64 of linux/audit.h.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: (TargetArch, u32) = (TargetArch::x86_64, 0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: (TargetArch, u32) = (TargetArch::aarch64, 0xc000_00b7);

/// __X32_SYSCALL_BIT: the x32 ABI has x86_64's architecture and numbers from here on.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();

/// The filter for a session with `network`.
pub(super) fn build(network: Network) -> Result<BpfProgram, ProgramError> {
    let mut program = refusals()?;
    program.extend(allow_numbers()?);
    // What comes this far is looked at by argument, or not on the list: EPERM.
    let by_argument = SeccompFilter::new(
        arguments::rules(network)?.into_iter().collect(),
        SeccompAction::Errno(libc::EPERM.cast_unsigned()),
        SeccompAction::Allow,
        ARCHITECTURE.0,
    )?;
    program.extend(BpfProgram::try_from(by_argument)?);
    Ok(program)
}

/// Ends foreign architectures, and answers ENOSYS to what is to look unimplemented. Leaves the
/// call's number loaded, and falls through for the rest.
fn refusals() -> Result<BpfProgram, ProgramError> {
    let mut program = vec![load(OFFSET_ARCHITECTURE)];
    program.extend([jump(JUMP_EQUAL, ARCHITECTURE.1, 1, 0), answer(KILL), load(OFFSET_NUMBER)]);
    #[cfg(target_arch = "x86_64")]
    program.extend(answer_if(JUMP_AT_LEAST, X32, EPERM));
    program.extend(answer_if(JUMP_GREATER, number(calls::NEWEST)?, ENOSYS));
    for call in calls::NOT_IMPLEMENTED {
        program.extend(answer_if(JUMP_EQUAL, number(call.number)?, ENOSYS));
    }
    Ok(program)
}

/// Allows the numbers that need no look at the arguments; falls through for the rest.
fn allow_numbers() -> Result<BpfProgram, ProgramError> {
    let mut numbers = calls::allowed()
        .map(|call| number(call.number))
        .collect::<Result<Vec<_>, ProgramError>>()?;
    numbers.sort_unstable();
    let mut program = BpfProgram::new();
    for run in numbers.chunk_by(|one, next| one + 1 == *next) {
        match run {
            [] => {}
            [single] => program.extend(answer_if(JUMP_EQUAL, *single, ALLOW)),
            [first, .., last] => {
                program.push(jump(JUMP_AT_LEAST, *first, 0, 2));
                program.push(jump(JUMP_GREATER, *last, 1, 0));
                program.push(answer(ALLOW));
            }
        }
    }
    Ok(program)
}

fn number(call: c_long) -> Result<u32, ProgramError> {
    u32::try_from(call).map_err(|_| ProgramError::Number(call))
}

fn answer_if(comparison: u16, value: u32, action: u32) -> [sock_filter; 2] {
    [jump(comparison, value, 0, 1), answer(action)]
}

const fn load(offset: u32) -> sock_filter {
    sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: offset }
}

/// Skips `if_true` or `if_false` instructions.
const fn jump(comparison: u16, value: u32, if_true: u8, if_false: u8) -> sock_filter {
    sock_filter { code: comparison, jt: if_true, jf: if_false, k: value }
}

const fn answer(action: u32) -> sock_filter {
    sock_filter { code: RETURN, jt: 0, jf: 0, k: action }
}
