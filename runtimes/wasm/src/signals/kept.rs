//! What the engine and Rust's runtime have set for this process's signals. A process that is confined as a kernel has the
//! default actions, and one that continues in a clone no alternate stack (clone(2), `CLONE_VM`): they are set again.

use std::{io, mem, ptr};

/// Those of traps, and SIGPIPE, which Rust ignores: a write to a pipe that nobody reads is an error.
const SIGNALS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGPIPE];

pub struct Kept {
    actions: [libc::sigaction; SIGNALS.len()],
    stack: libc::stack_t,
}

impl Kept {
    pub fn of_this_process() -> io::Result<Self> {
        // SAFETY: plain structures of the C library, zero is a value of each; both calls fill them.
        // JUSTIFICATION: no library gives an action that it has not set.
        unsafe {
            let mut kept: Self = mem::zeroed();
            for (number, action) in SIGNALS.into_iter().zip(&mut kept.actions) {
                check(libc::sigaction(number, ptr::null(), action))?;
            }
            check(libc::sigaltstack(ptr::null(), &mut kept.stack))?;
            Ok(kept)
        }
    }

    pub fn restore(&self) -> io::Result<()> {
        // SAFETY: actions and stack were in force in this very memory, which a fork has copied.
        // JUSTIFICATION: as above.
        unsafe {
            for (number, action) in SIGNALS.into_iter().zip(&self.actions) {
                check(libc::sigaction(number, action, ptr::null_mut()))?;
            }
            check(libc::sigaltstack(&self.stack, ptr::null_mut()))
        }
    }
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_and_the_alternate_stack_are_as_they_were() {
        let before = Kept::of_this_process().unwrap();
        assert_eq!(before.actions[4].sa_sigaction, libc::SIG_IGN, "Rust's, in tests too");
        // SAFETY: the default action runs no code; a stack that is disabled is not used.
        // JUSTIFICATION: what the test is about.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            let mut none: libc::stack_t = mem::zeroed();
            none.ss_flags = libc::SS_DISABLE;
            libc::sigaltstack(&none, ptr::null_mut());
        }
        let without = Kept::of_this_process().unwrap();
        assert_eq!(without.actions[4].sa_sigaction, libc::SIG_DFL);
        assert_ne!(without.stack.ss_flags & libc::SS_DISABLE, 0);
        before.restore().unwrap();
        let after = Kept::of_this_process().unwrap();
        assert_eq!(after.actions[4].sa_sigaction, libc::SIG_IGN);
        assert_eq!(after.stack.ss_sp, before.stack.ss_sp);
    }
}
