//! Rules over a call's arguments, and the BPF instructions that decide by them.
//!
//! Arguments are compared as the kernel takes them: nearly all of these are 32 bits wide, so the
//! upper half of the register, which the kernel ignores, is ignored here too.

use std::ffi::c_int;

use super::assembly::{Assembly, Label};
use super::program::ProgramError;

/// Where the arguments are in struct seccomp_data (seccomp(2)), and how long each is, in bytes.
const OFFSET_ARGUMENTS: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;

/// A call is allowed if one of them holds.
pub(super) type Rules = Vec<Rule>;
/// Holds if all conditions do.
pub(super) type Rule = Vec<Condition>;

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

pub(super) fn one(condition: Condition) -> Rules {
    vec![vec![condition]]
}

pub(super) fn one_of(argument: u8, values: impl IntoIterator<Item = u32>) -> Rules {
    values.into_iter().map(|value| vec![equal(argument, value)]).collect()
}

pub(super) fn any() -> Rules {
    vec![vec![]]
}

/// Allows the call if one of `rules` holds, else answers `refusal`.
pub(super) fn assemble(
    made: &mut Assembly,
    rules: &[Rule],
    refusal: u32,
) -> Result<Label, ProgramError> {
    let mut next = Start { label: made.answer(refusal), expects: None };
    for rule in rules.iter().rev() {
        next = assemble_rule(made, rule, next)?;
    }
    next.whatever_is_loaded(made)
}

/// Allows the call if all conditions hold, and goes on at `otherwise` if one does not.
fn assemble_rule(
    made: &mut Assembly,
    rule: &[Condition],
    otherwise: Start,
) -> Result<Start, ProgramError> {
    let is_left = |condition: &Condition| otherwise.expects == condition.leaves_loaded();
    let otherwise = if rule.iter().all(is_left) {
        otherwise.label
    } else {
        otherwise.whatever_is_loaded(made)?
    };
    let mut next = Start { label: made.answer(libc::SECCOMP_RET_ALLOW), expects: None };
    for condition in rule.iter().rev() {
        next = condition.assemble(made, next, otherwise)?;
    }
    Ok(next)
}

#[derive(Debug, Clone, Copy)]
struct Start {
    label: Label,
    /// The argument whose lower half has to be loaded.
    expects: Option<u8>,
}

impl Start {
    fn whatever_is_loaded(self, made: &mut Assembly) -> Result<Label, ProgramError> {
        self.expects.map_or(Ok(self.label), |argument| made.load(offset(argument), self.label))
    }
}

impl Condition {
    /// The argument whose lower half is loaded when it was looked at, whether or not it holds.
    const fn leaves_loaded(self) -> Option<u8> {
        match self.test {
            Test::Is(_) | Test::IsNot(_) => Some(self.argument),
            Test::Masked { .. } | Test::IsNull => None,
        }
    }

    fn assemble(
        self,
        made: &mut Assembly,
        then: Start,
        otherwise: Label,
    ) -> Result<Start, ProgramError> {
        let then = if then.expects == self.leaves_loaded() {
            then.label
        } else {
            then.whatever_is_loaded(made)?
        };
        let label = match self.test {
            Test::Is(value) => made.if_equal(value, then, otherwise)?,
            Test::IsNot(value) => made.if_equal(value, otherwise, then)?,
            Test::Masked { mask, value } => {
                let compared = made.if_equal(value, then, otherwise)?;
                made.mask(mask, compared)?
            }
            Test::IsNull => {
                let upper = made.if_equal(0, then, otherwise)?;
                let upper = made.load(offset(self.argument) + ARGUMENT_BYTES / 2, upper)?;
                made.if_equal(0, upper, otherwise)?
            }
        };
        Ok(Start { label, expects: Some(self.argument) })
    }
}

/// Of the lower half of an argument: the machines that we build for are little-endian.
fn offset(argument: u8) -> u32 {
    OFFSET_ARGUMENTS + u32::from(argument) * ARGUMENT_BYTES
}

#[cfg(test)]
mod tests {
    use seccompiler::BpfProgram;

    use super::super::tests::{ALLOW, NOT_PERMITTED, decide, with};
    use super::*;

    fn program(rules: &[Rule]) -> BpfProgram {
        let mut made = Assembly::default();
        let start = assemble(&mut made, rules, NOT_PERMITTED).unwrap();
        made.finish(start).unwrap()
    }

    fn is_allowed(rules: &[Rule], arguments: [u64; 6]) -> bool {
        match decide(&program(rules), 7, arguments) {
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
        assert_eq!(program(&rules).len(), 6, "loaded once");
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
