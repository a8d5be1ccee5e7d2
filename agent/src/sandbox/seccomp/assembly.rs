//! BPF programs, put together from their end.
//!
//! All jumps go forward, so whatever is jumped to is there already when the jump is made, and what
//! answers the same is shared as far as a jump reaches. The host's kernel converts and compiles a
//! filter at each installation, so each instruction costs time at the start of every process.
//!
//! Instructions: the kernel's Documentation/networking/filter.rst and include/uapi/linux/
//! bpf_common.h.

use seccompiler::{BpfProgram, sock_filter};

use super::program::ProgramError;

const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// How far back an answer is shared: less than a conditional jump reaches, as others that are made
/// with it may need more.
const SHARED_WITHIN: usize = 200;

/// An instruction that is there, by the number of those that follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// What there is of a program, its last instruction first.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    reversed: Vec<sock_filter>,
}

impl Assembly {
    pub(super) fn answer(&mut self, action: u32) -> Label {
        let is_it = |step: &sock_filter| step.code == RETURN && step.k == action;
        match self.reversed.iter().rev().take(SHARED_WITHIN).position(is_it) {
            Some(back) => Label(self.reversed.len() - 1 - back),
            None => self.push(RETURN, 0, 0, action),
        }
    }

    /// Loads the word at `offset` of struct seccomp_data, and goes on at `next`.
    pub(super) fn load(&mut self, offset: u32, next: Label) -> Result<Label, ProgramError> {
        self.follow(next)?;
        Ok(self.push(LOAD_WORD, 0, 0, offset))
    }

    /// Keeps the bits of `mask` of what is loaded, and goes on at `next`.
    pub(super) fn mask(&mut self, mask: u32, next: Label) -> Result<Label, ProgramError> {
        self.follow(next)?;
        Ok(self.push(AND, 0, 0, mask))
    }

    pub(super) fn if_equal(
        &mut self,
        value: u32,
        then: Label,
        otherwise: Label,
    ) -> Result<Label, ProgramError> {
        self.branch(JUMP_EQUAL, value, then, otherwise)
    }

    pub(super) fn if_at_least(
        &mut self,
        value: u32,
        then: Label,
        otherwise: Label,
    ) -> Result<Label, ProgramError> {
        self.branch(JUMP_AT_LEAST, value, then, otherwise)
    }

    pub(super) fn finish(mut self, start: Label) -> Result<BpfProgram, ProgramError> {
        self.follow(start)?;
        self.reversed.reverse();
        Ok(self.reversed)
    }

    fn branch(
        &mut self,
        code: u16,
        value: u32,
        then: Label,
        otherwise: Label,
    ) -> Result<Label, ProgramError> {
        // Each may need a jump of its own, which moves the other away by one.
        let then = self.within_reach(then, 1)?;
        let otherwise = self.within_reach(otherwise, 0)?;
        let (jt, jf) = (self.short(then)?, self.short(otherwise)?);
        Ok(self.push(code, jt, jf, value))
    }

    /// `label`, or a jump to it that a conditional jump reaches, `spare` instructions from here.
    fn within_reach(&mut self, label: Label, spare: usize) -> Result<Label, ProgramError> {
        if self.distance(label) + spare <= usize::from(u8::MAX) {
            return Ok(label);
        }
        self.jump(label)
    }

    /// Has the next instruction followed by the one at `label`.
    fn follow(&mut self, label: Label) -> Result<(), ProgramError> {
        if self.distance(label) > 0 {
            self.jump(label)?;
        }
        Ok(())
    }

    fn jump(&mut self, label: Label) -> Result<Label, ProgramError> {
        let distance = self.distance(label);
        let distance = u32::try_from(distance).map_err(|_| ProgramError::Length(distance))?;
        Ok(self.push(JUMP, 0, 0, distance))
    }

    /// How many instructions an instruction made now would skip to get there.
    const fn distance(&self, label: Label) -> usize {
        self.reversed.len() - 1 - label.0
    }

    fn short(&self, label: Label) -> Result<u8, ProgramError> {
        let distance = self.distance(label);
        u8::try_from(distance).map_err(|_| ProgramError::Length(distance))
    }

    fn push(&mut self, code: u16, jt: u8, jf: u8, k: u32) -> Label {
        self.reversed.push(sock_filter { code, jt, jf, k });
        Label(self.reversed.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::decide;
    use super::*;

    /// Compares with each of 2,000 numbers, one after the other: answers are further away than a
    /// conditional jump reaches.
    #[test]
    fn answers_are_reached_however_far_they_are() {
        let mut made = Assembly::default();
        let (low, high) = (made.answer(1), made.answer(2));
        let mut next = made.answer(3);
        for value in (0..2000).rev() {
            next = made.if_equal(value, if value % 2 == 0 { low } else { high }, next).unwrap();
        }
        let start = made.load(0, next).unwrap();
        let program = made.finish(start).unwrap();
        for (number, answer) in [(0, 1), (1, 2), (998, 1), (1999, 2), (2000, 3), (u32::MAX, 3)] {
            assert_eq!(decide(&program, number, [0; 6]), answer, "{number}");
        }
    }

    #[test]
    fn an_answer_is_shared_as_long_as_it_can_be_reached() {
        let mut made = Assembly::default();
        let first = made.answer(7);
        assert_eq!(made.answer(7), first);
        assert_ne!(made.answer(8), first);
        let mut next = first;
        for value in 0..u32::from(u8::MAX) {
            next = made.if_equal(value, next, next).unwrap();
        }
        assert_ne!(made.answer(7), first);
    }
}
