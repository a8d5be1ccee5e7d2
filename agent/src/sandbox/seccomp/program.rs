//! The BPF program: a search tree over the calls' numbers, whose leaves are answers, or, for the
//! calls that are decided by their arguments, the instructions of their [`rules`].
//!
//! The kernel walks it once per call number when it is installed, and remembers the numbers it
//! allows whatever the arguments (Linux 5.11, kernel/seccomp.c, `seccomp_cache_prepare`): those
//! never run it again. The others do every time, openat(2) and mmap(2) among them: a tree has them
//! decided after some eight comparisons, wherever they are among the numbers.

use std::ffi::{c_int, c_long};
use std::sync::OnceLock;

use seccompiler::BpfProgram;

use super::Profile;
use super::arguments;
use super::assembly::{Assembly, Label};
use super::calls::{self, Call};
use super::rules::{self, Rules};

#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramError {
    #[error("{0:?} is no profile")]
    Profile(Profile),
    #[error("call number {0} is out of range")]
    Number(c_long),
    #[error("{0} instructions are too many")]
    Length(usize),
}

// What is looked at: struct seccomp_data in seccomp(2).
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;

/// Our own architecture: AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64 of linux/audit.h.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// __X32_SYSCALL_BIT: the x32 ABI has x86_64's architecture and numbers from here on.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaf {
    Allow,
    /// It fails with this error; 0 is success without effect.
    Errno(c_int),
    /// Its arguments decide: see [`Decide`].
    Arguments(c_long),
}

const EPERM: Leaf = Leaf::Errno(libc::EPERM);
const ENOSYS: Leaf = Leaf::Errno(libc::ENOSYS);

/// The rules of a call, and the error that it gets where none of them holds.
type Decide<'a> = &'a dyn Fn(c_long) -> (Rules, c_int);

/// The filter for a session of this profile: built once, and inherited by what is forked then.
pub(super) fn session(profile: Profile) -> Result<&'static BpfProgram, ProgramError> {
    static BUILT: [Built; 16] = [const { Built::new() }; 16];
    let built = BUILT.get(profile.index()).ok_or(ProgramError::Profile(profile))?;
    built.get_or_build(|| build(profile))
}

pub(super) fn prepare() -> Result<(), ProgramError> {
    Profile::all().try_for_each(|profile| session(profile).map(drop))
}

pub(super) struct Built(OnceLock<BpfProgram>);

impl Built {
    pub(super) const fn new() -> Self {
        Self(OnceLock::new())
    }

    pub(super) fn get_or_build(
        &'static self,
        build: impl FnOnce() -> Result<BpfProgram, ProgramError>,
    ) -> Result<&'static BpfProgram, ProgramError> {
        match self.0.get() {
            Some(built) => Ok(built),
            None => build().map(|built| self.0.get_or_init(|| built)),
        }
    }
}

pub(super) fn build(profile: Profile) -> Result<BpfProgram, ProgramError> {
    let flush = if profile.own_files { Leaf::Errno(0) } else { Leaf::Allow };
    let whole_flushes = calls::WHOLE_FLUSHES.iter().filter(|_| profile.own_files);
    let start = (libc::SYS_execveat, Leaf::Arguments(libc::SYS_execveat));
    let of_wasm = each(calls::not_in_wasm(), EPERM).chain([start]).filter(|_| profile.wasm);
    let answers = each(calls::allowed(), Leaf::Allow)
        .chain(each(calls::not_implemented(), ENOSYS))
        .chain(each(calls::FLUSHES.iter().copied(), flush))
        .chain(each(whole_flushes.copied(), flush))
        .chain(arguments::CHECKED.iter().map(|call| (*call, Leaf::Arguments(*call))))
        .chain(of_wasm);
    let decide = |call| (arguments::rules(call, profile), arguments::refusal(call));
    compile(answers, EPERM, ENOSYS, &decide)
}

/// A filter that allows these calls, those of `by_argument` where a rule of `rules` holds, and no
/// other.
pub(super) fn allow(
    calls: impl Iterator<Item = Call>,
    by_argument: &[c_long],
    rules: impl Fn(c_long) -> Rules,
) -> Result<BpfProgram, ProgramError> {
    let answers = each(calls::not_implemented(), ENOSYS)
        .chain(each(calls, Leaf::Allow))
        .chain(by_argument.iter().map(|call| (*call, Leaf::Arguments(*call))));
    compile(answers, EPERM, ENOSYS, &|call| (rules(call), libc::EPERM))
}

/// A filter that refuses these calls and allows every other.
pub(super) fn refuse(calls: impl Iterator<Item = Call>) -> Result<BpfProgram, ProgramError> {
    compile(each(calls, EPERM), Leaf::Allow, Leaf::Allow, &|_| (Rules::new(), libc::EPERM))
}

fn each(calls: impl Iterator<Item = Call>, leaf: Leaf) -> impl Iterator<Item = (c_long, Leaf)> {
    calls.map(move |call| (call.number, leaf))
}

/// A filter that gives these answers, of several to one call the last; `otherwise` to every other
/// call, and `newer` to calls that the list does not know. It ends foreign architectures.
fn compile(
    answers: impl Iterator<Item = (c_long, Leaf)>,
    otherwise: Leaf,
    newer: Leaf,
    decide: Decide<'_>,
) -> Result<BpfProgram, ProgramError> {
    let end = number(calls::NEWEST)?.saturating_add(1);
    let mut leaves: Vec<(u32, Leaf)> = (0..end).map(|number| (number, otherwise)).collect();
    for (call, leaf) in answers {
        let index = usize::try_from(call).ok();
        let slot = index.and_then(|index| leaves.get_mut(index));
        slot.ok_or(ProgramError::Number(call))?.1 = leaf;
    }
    leaves.push((end, newer));
    #[cfg(target_arch = "x86_64")]
    leaves.push((X32, EPERM));
    // What is left is the first number of each range that has one answer.
    leaves.dedup_by_key(|(_, leaf)| *leaf);
    let mut made = Assembly::default();
    let ours = tree(&mut made, &leaves, decide)?;
    let ours = made.load(OFFSET_NUMBER, ours)?;
    let foreign = made.answer(libc::SECCOMP_RET_KILL_PROCESS);
    let start = made.if_equal(ARCHITECTURE, ours, foreign)?;
    let start = made.load(OFFSET_ARCHITECTURE, start)?;
    made.finish(start)
}

/// Decides between `ranges`, with the call's number loaded.
fn tree(
    made: &mut Assembly,
    ranges: &[(u32, Leaf)],
    decide: Decide<'_>,
) -> Result<Label, ProgramError> {
    let (below, from) = ranges.split_at(ranges.len() / 2);
    match (below, from) {
        ([], [(_, leaf)]) => leaf.assemble(made, decide),
        (_, [(first, _), ..]) => {
            let from = tree(made, from, decide)?;
            let below = tree(made, below, decide)?;
            made.if_at_least(*first, from, below)
        }
        (_, []) => Err(ProgramError::Length(0)),
    }
}

impl Leaf {
    fn assemble(self, made: &mut Assembly, decide: Decide<'_>) -> Result<Label, ProgramError> {
        match self {
            Self::Allow => Ok(made.answer(libc::SECCOMP_RET_ALLOW)),
            Self::Errno(errno) => Ok(made.answer(refusal(errno))),
            Self::Arguments(call) => {
                let (rules, errno) = decide(call);
                rules::assemble(made, &rules, refusal(errno))
            }
        }
    }
}

const fn refusal(errno: c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()
}

fn number(call: c_long) -> Result<u32, ProgramError> {
    u32::try_from(call).map_err(|_| ProgramError::Number(call))
}
