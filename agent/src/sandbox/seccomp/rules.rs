//! Rules over a call's arguments, and the BPF instructions that decide by them.
//!
//! Arguments are compared as the kernel takes them: nearly all of these are 32 bits wide, so the
//! upper half of the register, which the kernel ignores, is ignored here too.

use std::ffi::c_int;

use seccompiler::{BpfProgram, sock_filter};

use super::program::{ProgramError, answer, jump_equal, load};

/// BPF_ALU | BPF_AND | BPF_K
const AND: u16 = 0x54;

/// Where the arguments are in struct seccomp_data (seccomp(2)), and how long each is, in bytes.
const OFFSET_ARGUMENTS: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;

/// A call is allowed if one of them holds.
pub(super) type Rules = Vec<Rule>;
/// Holds if all conditions do.
pub(super) type Rule = Vec<Condition>;

/// What one argument, by its index, is to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition {
    argument: u8,
    test: Test,
}

#[derive(Debug, Clone, Copy)]
enum Test {
    Is(u32),
    IsNot(u32),
    /// Of the bits in the mask, these are set and no other.
    Masked {
        mask: u32,
        value: u32,
    },
    /// All 64 bits are 0: a null pointer.
    IsNull,
}

/// A C int as the filter sees it.
pub(super) const fn bits(value: c_int) -> u32 {
    value.cast_unsigned()
}

pub(super) const fn equal(argument: u8, value: u32) -> Condition {
    Condition { argument, test: Test::Is(value) }
}

pub(super) const fn differs(argument: u8, value: u32) -> Condition {
    Condition { argument, test: Test::IsNot(value) }
}

pub(super) const fn masked(argument: u8, mask: u32, value: u32) -> Condition {
    Condition { argument, test: Test::Masked { mask, value } }
}

pub(super) const fn is_null(argument: u8) -> Condition {
    Condition { argument, test: Test::IsNull }
}

/// One condition that has to hold.
pub(super) fn one(condition: Condition) -> Rules {
    vec![vec![condition]]
}

/// One rule per value that an argument may have.
pub(super) fn one_of(argument: u8, values: impl IntoIterator<Item = u32>) -> Rules {
    values.into_iter().map(|value| vec![equal(argument, value)]).collect()
}

/// Whatever the arguments.
pub(super) fn any() -> Rules {
    vec![vec![]]
}

/// Allows the call if one of `rules` holds, else answers `refusal`.
pub(super) fn program(rules: &[Rule], refusal: u32) -> Result<BpfProgram, ProgramError> {
    let mut program = BpfProgram::new();
    // The argument whose lower half is loaded, however the rules before were left.
    let mut loaded = None;
    for rule in rules {
        let start = program.len();
        let mut exits = Vec::new();
        let leaves_loaded = leaves_loaded(rule);
        for condition in rule {
            if loaded != Some(condition.argument) {
                program.push(load(condition.offset()));
            }
            loaded = condition.compare(&mut program, &mut exits);
        }
        program.push(answer(libc::SECCOMP_RET_ALLOW));
        let end = program.len();
        for Exit { at, if_equal } in exits {
            let distance =
                u8::try_from(end - at - 1).map_err(|_| ProgramError::Length(end - start))?;
            let jump = program.get_mut(at).ok_or(ProgramError::Length(at))?;
            *(if if_equal { &mut jump.jt } else { &mut jump.jf }) = distance;
        }
        loaded = leaves_loaded;
    }
    program.push(answer(refusal));
    Ok(program)
}

/// A comparison after which the rule does not hold, if it came out like this.
struct Exit {
    at: usize,
    if_equal: bool,
}

impl Condition {
    /// Of the lower half of its argument: the machines that we build for are little-endian.
    fn offset(self) -> u32 {
        OFFSET_ARGUMENTS + u32::from(self.argument) * ARGUMENT_BYTES
    }

    /// Compares what is loaded, the lower half of its argument; what is loaded then.
    fn compare(self, program: &mut BpfProgram, exits: &mut Vec<Exit>) -> Option<u8> {
        let mut compare = |program: &mut BpfProgram, value, if_equal| {
            exits.push(Exit { at: program.len(), if_equal });
            program.push(jump_equal(value));
        };
        match self.test {
            Test::Is(value) => compare(program, value, false),
            Test::IsNot(value) => compare(program, value, true),
            Test::Masked { mask, value } => {
                program.push(sock_filter { code: AND, jt: 0, jf: 0, k: mask });
                compare(program, value, false);
                return None;
            }
            Test::IsNull => {
                compare(program, 0, false);
                program.push(load(self.offset() + ARGUMENT_BYTES / 2));
                compare(program, 0, false);
                return None;
            }
        }
        Some(self.argument)
    }
}

/// The argument whose lower half is loaded whichever condition of the rule does not hold.
fn leaves_loaded(rule: &[Condition]) -> Option<u8> {
    let (first, others) = rule.split_first()?;
    let leaves = |condition: &Condition| {
        condition.argument == first.argument
            && matches!(condition.test, Test::Is(_) | Test::IsNot(_))
    };
    (leaves(first) && others.iter().all(leaves)).then_some(first.argument)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::{ALLOW, NOT_PERMITTED, decide, with};
    use super::*;

    fn is_allowed(rules: &[Rule], arguments: [u64; 6]) -> bool {
        match decide(&program(rules, NOT_PERMITTED).unwrap(), 7, arguments) {
            ALLOW => true,
            answer => {
                assert_eq!(answer, NOT_PERMITTED);
                false
            }
        }
    }

    #[test]
    fn a_value_is_looked_for_in_all_rules() {
        let rules = one_of(1, [3, 5, 9]);
        for value in 0..12 {
            assert_eq!(is_allowed(&rules, with(1, value)), [3, 5, 9].contains(&value), "{value}");
        }
        assert!(is_allowed(&rules, with(1, 5 | 1 << 32)), "the upper half is ignored");
        assert!(!is_allowed(&rules, with(2, 5)), "another argument");
        assert_eq!(program(&rules, NOT_PERMITTED).unwrap().len(), 8, "loaded once");
    }

    #[test]
    fn all_conditions_of_a_rule_have_to_hold() {
        let rules = vec![vec![equal(0, 2), masked(1, 0xf, 3), differs(2, 4)], vec![equal(0, 6)]];
        assert!(is_allowed(&rules, [2, 0x13, 0, 0, 0, 0]));
        assert!(is_allowed(&rules, with(0, 6)));
        for refused in [[1, 3, 0, 0, 0, 0], [2, 4, 0, 0, 0, 0], [2, 3, 4, 0, 0, 0]] {
            assert!(!is_allowed(&rules, refused), "{refused:?}");
        }
    }

    /// A mask changes what is loaded, so the next condition has to load again.
    #[test]
    fn an_argument_is_loaded_again_after_a_mask() {
        let rules = vec![vec![masked(0, 0xf0, 0x10)], vec![equal(0, 0x25)]];
        assert!(is_allowed(&rules, with(0, 0x25)));
        assert!(!is_allowed(&rules, with(0, 0x20)));
        let rules = vec![vec![equal(0, 1), equal(1, 1)], vec![equal(1, 2)], vec![equal(0, 3)]];
        assert!(is_allowed(&rules, [1, 2, 0, 0, 0, 0]));
        assert!(is_allowed(&rules, [3, 1, 0, 0, 0, 0]));
    }

    #[test]
    fn a_null_pointer_has_no_bit_in_either_half() {
        let rules = one(is_null(3));
        assert!(is_allowed(&rules, [1, 1, 1, 0, 1, 1]));
        assert!(!is_allowed(&rules, with(3, 1)));
        assert!(!is_allowed(&rules, with(3, 1 << 32)));
    }

    #[test]
    fn no_rule_allows_nothing_and_no_condition_everything() {
        assert!(!is_allowed(&[], [0; 6]));
        assert!(is_allowed(&any(), [u64::MAX; 6]));
    }
}
